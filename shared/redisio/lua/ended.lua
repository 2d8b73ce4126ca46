-- What follows from the end of a run beside RQ's own record of it: the error for the next attempt, counters of its
-- schedule, what no longer is outstanding. Stands in nobody's way: what can't be written for a wrong type is left out.
--
-- `at` names the keys: job, failed and expired (registries of the queue), schedule, stats, outstanding, waiting, wake.
-- `r` is {id, outcome: finished, failed, retrying, stopped or expired, error, scheduled: whether there is a schedule,
-- clean: nothing of an earlier attempt is to be taken back}.
local function forget_earlier(at, r, over)
  if r.clean then return end
  if r.outcome == 'finished' then
    redis.pcall('HDEL', at.job, 'last_error')
  elseif redis.call('EXISTS', at.job) == 1 then
    redis.call('HSET', at.job, 'last_error', r.error)
  end
  local forgotten_at = redis.call('ZSCORE', at.failed, r.id)
  if r.outcome == 'expired' and forgotten_at then
    redis.pcall('ZREMRANGEBYSCORE', at.expired, '-inf', digits(now_ms() / 1000))
    redis.pcall('ZADD', at.expired, forgotten_at, r.id)
  elseif over then
    redis.pcall('ZREM', at.expired, r.id)
  end
end

local function count(at, r)
  if r.outcome == 'expired' then
    redis.pcall('HINCRBY', at.stats, 'expired', 1)
    return
  end
  redis.pcall('HINCRBY', at.stats, 'runs', 1)
  local last_run = digits(now_ms())
  if r.outcome == 'finished' then
    redis.pcall('HSET', at.stats, 'last_run', last_run, 'failures', 0)
    return
  end
  redis.pcall('HSET', at.stats, 'last_run', last_run)
  if r.outcome == 'failed' or r.outcome == 'retrying' then
    redis.pcall('HINCRBY', at.stats, 'errors', 1)
    redis.pcall('HINCRBY', at.stats, 'failures', 1)
  end
end

local function ended(at, r)
  local over = r.outcome ~= 'retrying'
  forget_earlier(at, r, over)
  if not r.scheduled then return end
  if redis.call('EXISTS', at.schedule) == 1 then count(at, r) end
  if over then redis.pcall('ZREM', at.outstanding, r.id) end
  if over and redis.call('EXISTS', at.waiting) == 1 then redis.call('PUBLISH', at.wake, 'ended') end
end
