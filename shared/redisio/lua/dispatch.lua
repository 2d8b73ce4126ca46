-- Send jobs: all of them or none. Sent twice with the same ids, it has the effect of once.
--
-- KEYS  1 RQ's set of queues
-- ARGV  1 header: {stamp, queue, live, job, scheduled, dedupe (prefixes)}
--       2 jobs: a list of {id, queue, fields, data, at front, due (seconds; 0: now), dedupe key or false, its TTL in ms}
-- returns {'ok', a list of {id, 1 or 0}}: the job that stands for each, and whether this call made it;
--         {'error', detail}: the key that stands in the way, nothing was written

local queues = KEYS[1]
local h = cmsgpack.unpack(ARGV[1])
local jobs = cmsgpack.unpack(ARGV[2])

for _, j in ipairs(jobs) do
  local blocked = try('LLEN', h.queue .. j[2]) or try('ZCARD', h.live .. j[2]) or try('ZCARD', h.scheduled .. j[2])
    or (j[7] and try('GET', h.dedupe .. j[7]))
  if blocked then return {'error', blocked} end
end

local function send(j)
  local status = j[6] > 0 and 'scheduled' or 'queued'
  write_job(h.job .. j[1], j[3], j[4], status, h.stamp)
  if j[6] > 0 then
    redis.call('ZADD', h.scheduled .. j[2], j[6], j[1])
    redis.call('SADD', queues, h.queue .. j[2])
  else
    push(queues, h.queue .. j[2], h.live .. j[2], j[1], j[5])
  end
end

local receipts = {}
for i, j in ipairs(jobs) do
  local held = j[7] and redis.call('GET', h.dedupe .. j[7])
  if held then
    receipts[i] = {held, held == j[1] and 1 or 0}
  else
    if redis.call('EXISTS', h.job .. j[1]) == 0 then send(j) end
    if j[7] then redis.call('SET', h.dedupe .. j[7], j[1], 'PX', j[8]) end
    receipts[i] = {j[1], 1}
  end
end
return {'ok', receipts}
