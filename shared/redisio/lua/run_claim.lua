-- Begin a run: from this step on the job counts as started. Of any number of workers that hold its id, one gets it.
-- Sent twice with one token, it has the effect of once.
--
-- KEYS  1 job   2 list of taken ids   3 the job's checkpoint   4 jobs of the queue that have not begun
-- ARGV  1 id   2 worker   3 stamp   4 token: which run this is
-- returns {Redis' clock in ms, attempt, last error or '', checkpoint or ''}, or {} when the job does not wait any more

local job = KEYS[1]
local held = redis.call('HMGET', job, 'status', 'claim')
if held[1] == 'queued' then
  redis.call('HSET', job, 'status', 'started', 'started_at', ARGV[3], 'last_heartbeat', ARGV[3], 'worker_name', ARGV[2],
    'claim', ARGV[4])
  redis.call('HINCRBY', job, 'attempt', 1)
  redis.call('HDEL', job, 'put_backs')
  redis.call('PERSIST', job)
  redis.call('LREM', KEYS[2], 1, ARGV[1])
  redis.pcall('ZREM', KEYS[4], ARGV[1])
elseif held[1] ~= 'started' or held[2] ~= ARGV[4] then
  return {}
end
local row = redis.call('HMGET', job, 'attempt', 'last_error')
return {now_ms(), tonumber(row[1]), row[2] or '', redis.call('GET', KEYS[3]) or ''}
