-- Undo the beginning of a run whose handler was never called: as if the job had only been popped. Uses up no attempt.
--
-- KEYS  1 job   2 list of taken ids   3 registry of running jobs   4 jobs of the queue that have not begun
-- ARGV  1 id   2 token of the run
-- returns 1, or 0 when the job is not in that run

local held = redis.call('HMGET', KEYS[1], 'status', 'claim')
redis.call('LLEN', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1] .. ':' .. ARGV[2])
if held[1] ~= 'started' or held[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'status', 'queued')
redis.call('HINCRBY', KEYS[1], 'attempt', -1)
redis.call('HDEL', KEYS[1], 'claim', 'started_at', 'worker_name')
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.pcall('ZADD', KEYS[4], digits(now_ms()), ARGV[1])
return 1
