-- Put a job that was taken and never started back to the front of its queue. No attempt is used up.
--
-- KEYS  1 list of taken ids   2 queue   3 job   4 its executions   5 registry of running jobs
-- ARGV  1 id   2 now, seconds: an execution whose lease runs longer is alive ('' : whatever its executions say)
--       3 how often a job may be put back
-- returns back, held (a living worker has it), dropped (nothing waits for a run), worn (put back too often: still taken)

local taken, id = KEYS[1], ARGV[1]
if not redis.call('LPOS', taken, id) then return 'dropped' end
if redis.call('TYPE', KEYS[3]).ok ~= 'hash' then
  -- A missing record needs no run; one of a wrong type goes back, to be refused by whoever takes it.
  redis.call('LREM', taken, 1, id)
  if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('LPUSH', KEYS[2], id) end
  return 'dropped'
end
if ARGV[2] ~= '' then
  for _, execution in ipairs(redis.call('ZRANGE', KEYS[4], 0, 99)) do
    local lease = redis.call('ZSCORE', KEYS[5], id .. ':' .. execution)
    if lease and tonumber(lease) > tonumber(ARGV[2]) then return 'held' end
  end
end
local status = redis.call('HGET', KEYS[3], 'status')
if status == 'queued' and redis.call('HINCRBY', KEYS[3], 'put_backs', 1) > tonumber(ARGV[3]) then return 'worn' end
redis.call('LREM', taken, 1, id)
if status ~= 'queued' then return 'dropped' end
redis.call('LPUSH', KEYS[2], id)
return 'back'
