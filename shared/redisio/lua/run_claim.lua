-- Begin a run: from this step on the job counts as started. Of any number of workers that hold its id, one gets it.
--
-- KEYS  1 job   2 list of taken ids   3 jobs of the queue that have not begun
-- ARGV  1 id   2 worker   3 stamp
-- returns 1, or 0 when the job is not waiting any more

if redis.call('HGET', KEYS[1], 'status') ~= 'queued' then return 0 end
redis.call('HSET', KEYS[1], 'status', 'started', 'started_at', ARGV[3], 'last_heartbeat', ARGV[3], 'worker_name', ARGV[2])
redis.call('HDEL', KEYS[1], 'put_backs')
redis.call('PERSIST', KEYS[1])
redis.call('LREM', KEYS[2], 1, ARGV[1])
redis.pcall('ZREM', KEYS[3], ARGV[1])
return 1
