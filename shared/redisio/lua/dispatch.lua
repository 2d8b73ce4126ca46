-- Send jobs: all of them or none. Sent twice with the same ids, it has the effect of once.
-- What several jobs write into one key is gathered, and written in one command.
--
-- KEYS  1 RQ's set of queues
-- ARGV  1 header: {stamp, queue, live, job, scheduled, dedupe (prefixes), kinds: a list of {queue, fields, at front}}
--       2 jobs: a list of {which kind, id, data, due (seconds; 0: now), dedupe key or false, its TTL in ms}
-- returns {'ok', a list of {which job, id}}: the jobs that were not sent, and the one that stands for each;
--         {'error', detail}: the key that stands in the way, nothing was written

local queues = KEYS[1]
local h = cmsgpack.unpack(ARGV[1])
local jobs = cmsgpack.unpack(ARGV[2])
local AT_ONCE = 4000  -- unpack takes less than 8,000 values

for _, k in ipairs(h.kinds) do
  k.queue, k.live, k.scheduled = h.queue .. k[1], h.live .. k[1], h.scheduled .. k[1]
  local blocked = try('LLEN', k.queue) or try('ZCARD', k.live) or try('ZCARD', k.scheduled)
  if blocked then return {'error', blocked} end
  k.pushes, k.begins, k.delays = {}, {}, {}
end
for _, j in ipairs(jobs) do
  local blocked = j[5] and try('GET', h.dedupe .. j[5])
  if blocked then return {'error', blocked} end
end

local function in_chunks(list, write)
  for i = 1, #list, AT_ONCE do
    write(unpack(list, i, math.min(i + AT_ONCE - 1, #list)))
  end
end

local keys, found, now = {}, 0, digits(now_ms())
for i, j in ipairs(jobs) do keys[i] = h.job .. j[2] end
in_chunks(keys, function(...) found = found + redis.call('EXISTS', ...) end)

local function gather(list, score, id)
  local n = #list
  list[n + 1], list[n + 2] = score, id
end

local function send(key, j)
  local k = h.kinds[j[1]]
  write_job(key, k[2], j[3], j[4] > 0 and 'scheduled' or 'queued', h.stamp)
  if j[4] > 0 then
    gather(k.delays, j[4], j[2])
  else
    k.pushes[#k.pushes + 1] = j[2]
    gather(k.begins, now, j[2])
  end
end

local others = {}
for i, j in ipairs(jobs) do
  local held = j[5] and redis.call('GET', h.dedupe .. j[5])
  if held and held ~= j[2] then
    others[#others + 1] = {i, held}
  elseif not held then
    if found == 0 or redis.call('EXISTS', keys[i]) == 0 then send(keys[i], j) end
    if j[5] then redis.call('SET', h.dedupe .. j[5], j[2], 'PX', j[6]) end
  end
end

for _, k in ipairs(h.kinds) do
  if #k.pushes + #k.delays > 0 then redis.call('SADD', queues, k.queue) end
  in_chunks(k.pushes, function(...) redis.call(k[3] and 'LPUSH' or 'RPUSH', k.queue, ...) end)
  in_chunks(k.begins, function(...) redis.call('ZADD', k.live, ...) end)
  in_chunks(k.delays, function(...) redis.call('ZADD', k.scheduled, ...) end)
end
return {'ok', others}
