-- Add or replace schedules. Each is applied by itself, if its stored revision is the one that its writer read.
--
-- Revisions rise by one, from Redis' clock (ms) when the schedule was added: one that was removed and added anew, or
-- added to a Redis that had lost it, has none in common with what a beat or a person still remembers of it.
--
-- KEYS  1 schedules   2 timetable   3 control log   4 wake channel   5 ledger   6 schedules that an app declares
--       7 the app's version
-- ARGV  1 header: {schedule, own_ledger (prefixes), actor, reason, bound of the control log, bounds of ledgers,
--          app_version: the only one under which this may be written, or false}
--       2 items: a list of {id, revision read (0: none), cursor, trigger changed, due or false, fields,
--          left: false or {cursor read, second part of a ledger entry}: what the old trigger had due and undecided,
--          whether an app declares it}
--         fields: a flat list that replaces what is stored of the definition
-- returns {code, revision} per item: added, changed, or conflict and the revision that is stored;
--         {'refused', why} where a key stands in the way; or, instead of all, superseded: another version took over

local schedules, timetable, control, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local h = cmsgpack.unpack(ARGV[1])
local codes = {}
if is_superseded(KEYS[7], h.app_version) then return 'superseded' end

-- The status and cursor of a stored schedule after a change. A changed trigger starts from now, and gives a completed
-- schedule something to do again; a pause is not ended by a change.
local function carried_over(key, item)
  local held = redis.call('HMGET', key, 'status', 'cursor')
  local status, cursor = held[1], tonumber(held[2])
  if not item[4] then return status, cursor end
  if status == 'completed' and item[5] then status = 'active' end
  local left = item[7]
  if left and left[1] == cursor then
    record(KEYS[5], h.own_ledger .. item[1], h.bounds, entry(now_ms(), 'missed', 'misfire', left[2]))
  end
  return status, math.max(cursor, item[3])
end

local function write(key, item, revision, status, cursor)
  if status == 'active' and not item[5] then status = 'completed' end
  redis.call('HSET', key, 'rev', digits(revision), 'status', status, 'cursor', digits(cursor), unpack(item[6]))
  if status == 'active' and item[5] then
    redis.call('ZADD', timetable, digits(item[5]), item[1])
  else
    redis.call('ZREM', timetable, item[1])
  end
end

for i, item in ipairs(cmsgpack.unpack(ARGV[2])) do
  local key = h.schedule .. item[1]
  local blocked, rev = try('HGET', key, 'rev')
  local stored = tonumber(rev or 0) or 0
  local revision = stored == 0 and now_ms() or stored + 1
  if blocked then
    codes[i] = {'refused', blocked}
  elseif stored ~= item[2] then
    codes[i] = {'conflict', stored}
  elseif stored == 0 then
    redis.call('SADD', schedules, item[1])
    redis.call('HSET', key, 'fired', 0, 'created', digits(now_ms()), 'since', digits(item[3]))
    write(key, item, revision, item[5] and 'active' or 'completed', item[3])
    codes[i] = {'added', revision}
  else
    local status, cursor = carried_over(key, item)
    redis.call('HDEL', key, 'error')
    if item[4] then redis.call('HSET', key, 'since', digits(cursor)) end
    write(key, item, revision, status, cursor)
    codes[i] = {'changed', revision}
  end
  if codes[i][1] == 'added' or codes[i][1] == 'changed' then
    redis.call(item[8] and 'SADD' or 'SREM', KEYS[6], item[1])
    redis.call('XADD', control, 'MAXLEN', '~', h.bound, '*', 'action', codes[i][1], 'schedule', item[1],
      'actor', h.actor, 'reason', h.reason)
  end
end
redis.call('PUBLISH', wake, 'changed')
return codes
