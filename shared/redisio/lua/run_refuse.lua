-- Make a failed job of something that must not run: one reason, and no field that harms its readers.
-- What stands at the job's key and is no hash is kept beside it for a person to look at. Results of a wrong type are left
-- as they are, and the reason is in the job's record alone.
--
-- KEYS  1 list of taken ids   2 job   3 registry of failed jobs   4 the job's results   5 where to keep what is no hash
-- ARGV  1 {taken: the id as it stands on the list, id, queue, reason, exc_info and exc_string (the reason as RQ packs
--          it), stamp, bad: fields to remove, keep: seconds to keep the record}
-- returns 1

local r = cmsgpack.unpack(ARGV[1])
local job = KEYS[2]
local kind = redis.call('TYPE', job).ok
-- First what may meet a wrong type and can't do without: an error here leaves everything as it was.
redis.call('LLEN', KEYS[1])
redis.call('ZADD', KEYS[3], digits(math.floor(now_ms() / 1000) + r.keep), r.id)
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('RENAME', job, KEYS[5])
  redis.call('EXPIRE', KEYS[5], r.keep)
end
for _, name in ipairs(r.bad) do redis.call('HDEL', job, name) end
if redis.call('HEXISTS', job, 'data') == 0 then redis.call('HSET', job, 'data', '') end
if redis.call('HEXISTS', job, 'created_at') == 0 then redis.call('HSET', job, 'created_at', r.stamp) end
redis.call('HDEL', job, 'retries_left')
redis.call('HSET', job, 'status', 'failed', 'origin', r.queue, 'ended_at', r.stamp, 'exc_info', r.exc_info,
  'last_error', r.reason)
redis.call('EXPIRE', job, r.keep)
redis.pcall('XADD', KEYS[4], 'MAXLEN', 10, '*', 'type', 2, 'worker_name', '', 'exc_string', r.exc_string)
redis.call('EXPIRE', KEYS[4], r.keep)
redis.call('LREM', KEYS[1], 1, r.taken)
return 1
