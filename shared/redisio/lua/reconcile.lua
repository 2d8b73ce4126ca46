-- Jobs that were enqueued and are nowhere: their record says queued, and no list holds them. Put them back.
-- A job is looked at once it was enqueued before the present head of its queue, and put back at the second look.
--
-- To know that a list of a million does not hold an id takes 16 ms, and Redis does nothing else meanwhile. So no more
-- than `SCANNED` elements are gone through in one call, beyond those at the heads; who is left has its turn later.
--
-- KEYS  1 RQ's set of queues   2 suspects, by when they were first seen
-- ARGV  1 {queue, job, live (prefixes), most: ids looked at in each queue, patience: ms between the two looks}
-- returns a list of the ids that were put back

local c = cmsgpack.unpack(ARGV[1])
local now = now_ms()
local back = {}

local AT_HEAD, SCANNED = 1000, 2000000
local allowed = SCANNED

-- Whether one of its queue's lists holds an id; nil when it is not known this time.
local function is_held(queue_key, id)
  if redis.call('LPOS', queue_key .. ':intermediate', id) then return true end
  if redis.call('LPOS', queue_key, id, 'MAXLEN', AT_HEAD) then return true end
  if allowed <= 0 then return nil end
  allowed = allowed - redis.call('LLEN', queue_key)
  return redis.call('LPOS', queue_key, id) ~= false
end

local function put_back(queue_key, id)
  redis.call('LPUSH', queue_key, id)
  redis.call('HINCRBY', c.job .. id, 'reconciled', 1)
  redis.call('ZREM', KEYS[2], id)
  back[#back + 1] = id
end

local function look_for(queue_key, id)
  local first = redis.call('ZSCORE', KEYS[2], id)
  if first and now - tonumber(first) < c.patience then return end
  local held = is_held(queue_key, id)
  if held then
    redis.call('ZREM', KEYS[2], id)
  elseif held == false and first then
    put_back(queue_key, id)
  elseif held == false then
    redis.call('ZADD', KEYS[2], digits(now), id)
  end
end

local function look(queue_key, live, id)
  local err, status = try('HGET', c.job .. id, 'status')
  if err or status ~= 'queued' then
    redis.call('ZREM', live, id)
    redis.call('ZREM', KEYS[2], id)
  else
    look_for(queue_key, id)
  end
end

-- The ids of a queue that should have been taken by now: enqueued before the one at its head, or in the same ms.
local function overdue(queue_key, live)
  local head = redis.call('LINDEX', queue_key, 0)
  local since = head and redis.call('ZSCORE', live, head)
  return redis.call('ZRANGE', live, '-inf', since or '+inf', 'BYSCORE', 'LIMIT', 0, c.most)
end

for _, queue_key in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local live = c.live .. string.sub(queue_key, #c.queue + 1)
  if not (try('LLEN', queue_key) or try('ZCARD', live)) then
    for _, id in ipairs(overdue(queue_key, live)) do look(queue_key, live, id) end
  end
end
return back
