-- Pause, resume, cancel or remove one schedule, and write down who did it and why.
--
-- KEYS  1 schedules   2 timetable   3 control log   4 wake channel   5 schedule   6 ledger   7 its own ledger
--       8 its stats   9 its outstanding jobs   10 its waiting fire   11 schedules with one   12 paused for a while
--       13 schedules that an app declares   14 the app's version
-- ARGV  1 {action, id, actor, reason, bound, bounds, revision, cursor, moved (the new cursor), due,
--          missed: false or the second part of a ledger entry, until: when a pause ends, or false,
--          app_version: the only one under which this may be done, or false}
--         revision and cursor are what the caller read (for resume, which plans from them); else false
-- returns done, unchanged (it was so already), gone, conflict (read again), superseded (another version took over), or
--         `error: ` and the key in the way

local c = cmsgpack.unpack(ARGV[1])
local key = KEYS[5]
local held = redis.call('HMGET', key, 'rev', 'status', 'cursor')
local status = held[2]
if is_superseded(KEYS[14], c.app_version) then return 'superseded' end
if not held[1] then return 'gone' end

for i, command in ipairs({'SCARD', 'ZCARD', 'XLEN', 'EXISTS', 'HLEN', 'LLEN', 'LLEN', 'HLEN', 'ZCARD', 'GET', 'ZCARD', 'ZCARD', 'SCARD'}) do
  local blocked = try(command, KEYS[i])
  if blocked then return 'error: ' .. blocked end
end

-- A fire that waits is not sent any more: it is written down as missed, since the cursor is past it.
local function drop_waiting()
  local held = redis.call('GET', KEYS[10])
  if not held then return end
  local f = cmsgpack.unpack(held)
  record(KEYS[6], KEYS[7], c.bounds, entry(now_ms(), 'missed', 'error', cmsgpack.pack(c.id, f[2], f[2], 1, f[4], false, f[3])))
  redis.call('DEL', KEYS[10])
  redis.call('ZREM', KEYS[11], c.id)
end

local function pause()
  if status == 'paused' and c['until'] then redis.call('ZADD', KEYS[12], digits(c['until']), c.id) end
  if status == 'paused' and not c['until'] then redis.call('ZREM', KEYS[12], c.id) end
  if status ~= 'active' then return 'unchanged' end
  redis.call('HSET', key, 'status', 'paused', 'note', c.reason)
  redis.call('ZREM', KEYS[2], c.id)
  if c['until'] then redis.call('ZADD', KEYS[12], digits(c['until']), c.id) end
  return 'done'
end

local function resume()
  if status ~= 'paused' then return 'unchanged' end
  if tonumber(held[1]) ~= c.revision or tonumber(held[3]) ~= c.cursor then return 'conflict' end
  if c.missed then
    record(KEYS[6], KEYS[7], c.bounds, entry(now_ms(), 'skipped', 'paused', c.missed))
  end
  redis.call('HSET', key, 'status', 'active', 'note', c.reason, 'cursor', digits(c.moved))
  redis.call('ZREM', KEYS[12], c.id)
  redis.call('HSET', KEYS[8], 'failures', 0)
  if c.due then
    redis.call('ZADD', KEYS[2], digits(c.due), c.id)
  else
    redis.call('HSET', key, 'status', 'completed', 'completed_at', digits(now_ms()))
  end
  return 'done'
end

local function cancel()
  if status == 'cancelled' then return 'unchanged' end
  drop_waiting()
  redis.call('ZREM', KEYS[12], c.id)
  redis.call('HSET', key, 'status', 'cancelled', 'note', c.reason)
  redis.call('ZREM', KEYS[2], c.id)
  return 'done'
end

local function remove()
  drop_waiting()
  redis.call('DEL', key, KEYS[7], KEYS[8], KEYS[9])
  redis.call('ZREM', KEYS[2], c.id)
  redis.call('ZREM', KEYS[12], c.id)
  redis.call('SREM', KEYS[1], c.id)
  redis.call('SREM', KEYS[13], c.id)
  return 'done'
end

local code = ({pause = pause, resume = resume, cancel = cancel, remove = remove})[c.action]()
if code == 'done' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', c.bound, '*', 'action', c.action, 'schedule', c.id, 'actor', c.actor,
    'reason', c.reason)
  redis.call('PUBLISH', KEYS[4], 'changed')
end
return code
