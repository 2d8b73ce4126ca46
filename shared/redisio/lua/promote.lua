-- Move delayed jobs and retries that are due from RQ's scheduled registries to their queues.
-- One step for each job, so any number of beats and workers may call it.
--
-- KEYS  1 RQ's set of queues   2 the mark of who promoted lately
-- ARGV  1 {queue, live, job, scheduled (prefixes), stamp, most, mark_ms, caller, polite: leave at once when the mark is
--          another's}
-- returns {how many were moved, 1 when there was more to move}

local c = cmsgpack.unpack(ARGV[1])
if c.polite and (redis.call('GET', KEYS[2]) or c.caller) ~= c.caller then
  return {0, 0}
end
redis.call('SET', KEYS[2], c.caller, 'PX', c.mark_ms)

local now = now_ms() / 1000
local room = c.most

local function enqueue(queue_key, live, job_id)
  local job_key = c.job .. job_id
  local err, row = try('HMGET', job_key, 'status', 'enqueue_at_front')
  if err or row[1] ~= 'scheduled' then return 0 end
  redis.call('HSET', job_key, 'status', 'queued', 'enqueued_at', c.stamp)
  push(KEYS[1], queue_key, live, job_id, row[2] == '1')
  return 1
end

local moved = 0
for _, queue_key in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local queue = string.sub(queue_key, #c.queue + 1)
  local registry, live = c.scheduled .. queue, c.live .. queue
  local err, due = try('ZRANGE', registry, '-inf', string.format('%.3f', now), 'BYSCORE', 'LIMIT', 0, room)
  if not err and #due > 0 and not (try('LLEN', queue_key) or try('ZCARD', live)) then
    for _, job_id in ipairs(due) do
      moved = moved + enqueue(queue_key, live, job_id)
      redis.call('ZREM', registry, job_id)
    end
    room = room - #due
    if room <= 0 then return {moved, 1} end
  end
end
return {moved, 0}
