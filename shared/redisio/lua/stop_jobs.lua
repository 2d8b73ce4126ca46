-- Ask RQ's workers, again and again until it is so, to stop jobs that were replaced. One that failed meanwhile and is to
-- be tried again is canceled instead.
--
-- KEYS  1 jobs to be stopped
-- ARGV  1 prefix of jobs   2 prefix of workers' channels   3 most   4 prefix of scheduled registries
-- returns how many are still running

local running = 0
for _, job_id in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[3] - 1)) do
  local err, row = try('HMGET', ARGV[1] .. job_id, 'status', 'worker_name', 'origin')
  if not err and (row[1] == 'scheduled' or row[1] == 'queued') then
    redis.pcall('ZREM', ARGV[4] .. (row[3] or ''), job_id)
    redis.call('HSET', ARGV[1] .. job_id, 'status', 'canceled')
    redis.call('EXPIRE', ARGV[1] .. job_id, 86400)
  end
  if not err and row[1] == 'started' and row[2] then
    running = running + 1
    redis.call('PUBLISH', ARGV[2] .. row[2], cjson.encode({command = 'stop-job', job_id = job_id}))
  else
    redis.call('ZREM', KEYS[1], job_id)
  end
end
return running
