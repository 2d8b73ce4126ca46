-- The last thing of a run: counters of its schedule, the error for the next attempt, what no longer is outstanding.
-- Written after RQ's own record of the run. Stands in nobody's way: what can't be written for a wrong type is left out.
--
-- KEYS  1 job   2 registry of failed jobs   3 expired jobs of the queue   4 schedule   5 its stats
--       6 its outstanding jobs   7 its waiting fire   8 wake channel
-- ARGV  1 {id, outcome: finished, failed, retrying, stopped or expired, error, scheduled: whether there is a schedule}
-- returns 1

local r = cmsgpack.unpack(ARGV[1])
local over = r.outcome ~= 'retrying'
local failed = r.outcome == 'failed' or r.outcome == 'retrying'

if r.outcome == 'finished' then
  redis.pcall('HDEL', KEYS[1], 'last_error')
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'last_error', r.error)
end

local forgotten_at = redis.call('ZSCORE', KEYS[2], r.id)
if r.outcome == 'expired' and forgotten_at then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', digits(now_ms() / 1000))
  redis.pcall('ZADD', KEYS[3], forgotten_at, r.id)
elseif over then
  redis.pcall('ZREM', KEYS[3], r.id)
end

if not r.scheduled then return 1 end
if redis.call('EXISTS', KEYS[4]) == 1 then
  if r.outcome == 'expired' then
    redis.pcall('HINCRBY', KEYS[5], 'expired', 1)
  else
    redis.pcall('HINCRBY', KEYS[5], 'runs', 1)
    redis.pcall('HSET', KEYS[5], 'last_run', digits(now_ms()))
  end
  if failed then
    redis.pcall('HINCRBY', KEYS[5], 'errors', 1)
    redis.pcall('HINCRBY', KEYS[5], 'failures', 1)
  elseif r.outcome == 'finished' then
    redis.pcall('HSET', KEYS[5], 'failures', 0)
  end
end
if over then redis.pcall('ZREM', KEYS[6], r.id) end
if over and redis.call('EXISTS', KEYS[7]) == 1 then redis.call('PUBLISH', KEYS[8], 'ended') end
return 1
