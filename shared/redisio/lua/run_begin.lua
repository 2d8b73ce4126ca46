-- The first thing a run does: which attempt is it, what is the time, what did earlier attempts leave behind.
--
-- KEYS  1 job   2 its checkpoint
-- returns {Redis' clock, attempt, last error or '', checkpoint or ''}

local attempt = 1
if redis.call('EXISTS', KEYS[1]) == 1 then attempt = redis.call('HINCRBY', KEYS[1], 'attempt', 1) end
return {now_ms(), attempt, redis.call('HGET', KEYS[1], 'last_error') or '', redis.call('GET', KEYS[2]) or ''}
