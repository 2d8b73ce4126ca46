-- The commit: the one step that turns plans into queue entries, ledger entries and moved cursors.
--
-- Why nothing is fired twice: a fire is pushed in the same step that moves its schedule's cursor past it, and only if
-- the cursor still stands where the plan found it. A plan that is sent again, by the same beat after a lost reply or by
-- another beat, finds the cursor moved. The dedupe key, and the job's own hash, hold where a cursor was lost or edited.
-- Why nothing is lost: a plan covers every nominal time between the two positions of the cursor. Why nothing is half
-- done: Redis runs a script alone, and this one finds every error of a plan before its first write for that plan.
--
-- Overlap is judged here and nowhere else, from RQ's own job states, fire by fire in nominal order:
--   skip, allow   at `instances` live jobs a fire is skipped
--   buffer        one fire waits in its own key; a newer one supersedes it; it goes out when a job has ended
--   replace       waiting predecessors are canceled, running ones are listed to be stopped, and the new job is pushed
--
-- KEYS  1 timetable   2 leader   3 ledger   4 RQ's set of queues   5 schedules with a waiting fire   6 jobs to be stopped
--       7 completed schedules, by when they are forgotten
-- ARGV  1 header: {owner, term, stamp, tail, bounds, and the prefixes schedule, fired, own_ledger, outstanding, waiting,
--          stats, queue, live, job, scheduled}
--       2 plans: a list of {id, revision, base cursor, new cursor, next nominal or false, due or false, fires}
--         fire: {'enqueue', nominal, due, kind, job id, context}
--            or {'against', nominal, until, count, due, kind, outcome, reason, job id or false}
-- returns {'fenced'} or {'ok', Redis' clock, due time at the head of the timetable or '', results as msgpack}
--         result: {code, detail, settled}: one per plan
--           ok       applied; settled lists {index, outcome, reason} of fires that were not enqueued as planned;
--                    a fire that waits has the outcome `waiting` and no ledger entry yet
--           already  the cursor is at or past the new one: somebody did it, maybe this very call before its reply was lost
--           moved    the cursor is elsewhere: plan again
--           held     a full queue holds a fire: what came before it is applied, it is looked at again in a second
--           stale    another revision is stored: read the definition again
--           gone     no such schedule, or it is not active
--           paused   it failed too often in a row; detail says so
--           early    by Redis' clock a fire is not due yet
--           error    detail names the key that stands in the way; nothing of this plan was written

local timetable, leader, completed = KEYS[1], KEYS[2], KEYS[7]
local h = cmsgpack.unpack(ARGV[1])
local plans = cmsgpack.unpack(ARGV[2])
if fenced(leader, h.owner, h.term) then return {'fenced'} end
local c = {ledger = KEYS[3], queues = KEYS[4], waiters = KEYS[5], stopping = KEYS[6], now = now_ms(), h = h}
local HOLD_MS = 1000

local function latest_due(fires)
  local latest = 0
  for _, f in ipairs(fires) do
    latest = math.max(latest, f[1] == 'enqueue' and f[3] or f[5])
  end
  return latest
end

local function has_failed_too_often(s)
  local err, failures = try('HGET', h.stats .. s.id, 'failures')
  return not err and (tonumber(failures) or 0) >= s.pause_after
end

-- Everything that can speak against a plan. Reads only.
local function judge(p)
  local err, s = read_schedule(c, p[1])
  if err then return 'error', err end
  if not s or s.status ~= 'active' then return 'gone', '' end
  if s.rev ~= p[2] then return 'stale', '' end
  if s.cursor ~= p[3] then
    return s.cursor >= p[4] and 'already' or 'moved', ''
  end
  if latest_due(p[7]) > c.now then return 'early', '' end
  local blocked = obstacle(s)
  if blocked then return 'error', blocked end
  local is_worn = s.pause_after > 0 and #p[7] > 0 and has_failed_too_often(s)
  return is_worn and 'paused' or 'ok', '', s
end

local function settle(s, f)
  if f[1] == 'against' then
    record(c.ledger, s.own_ledger, h.bounds, {s.id, f[2], f[3], f[4], c.now, f[7], f[8], f[6], f[9], f[5]})
    return f[7], f[8]
  end
  local outcome, reason = enqueue(c, s, f)
  if outcome == 'full' and s.on_full == 'hold' then return 'held' end
  if outcome == 'full' then outcome, reason = 'skipped', 'queue_full' end
  if outcome == 'waiting' then
    supersede(c, s, f)
  else
    record_fire(c, s, f, outcome, reason)
  end
  return outcome, reason
end

local function write_counters(s, cursor)
  redis.call('HSET', s.key, 'cursor', digits(cursor), 'fired', s.count)
  if s.last then redis.call('HSET', s.key, 'last', digits(s.last)) end
end

local function complete(s)
  redis.call('HSET', s.key, 'status', 'completed', 'next', '', 'completed_at', digits(c.now))
  redis.call('ZREM', timetable, s.id)
  if s.owner == 'runtime' then redis.call('ZADD', completed, digits(c.now + s.window), s.id) end
end

-- Move the cursor and the index.
local function advance(p, s, cursor)
  write_counters(s, cursor)
  redis.call('HSET', s.key, 'next', p[5] and digits(p[5]) or '')
  if s.error then redis.call('HDEL', s.key, 'error') end
  if p[6] and not is_spent(s) then
    redis.call('ZADD', timetable, digits(p[6]), s.id)
  else
    complete(s)
  end
end

-- A full queue holds a schedule: what came before the fire is decided, the fire itself is looked at again later.
local function hold(s, cursor)
  write_counters(s, cursor)
  redis.call('HSET', s.key, 'error', 'held: its queue is full')
  redis.call('ZADD', timetable, digits(c.now + HOLD_MS), s.id)
end

local function apply(p, s)
  if s.instances > 0 then s.live = count_live(c, s) end
  if s.overlap == 'buffer' then release(c, s) end
  local settled, cursor = {}, p[3]
  for i, f in ipairs(p[7]) do
    if is_spent(s) then break end
    local outcome, reason = settle(s, f)
    if outcome == 'held' then
      hold(s, cursor)
      return 'held', '', settled
    end
    cursor = f[1] == 'against' and f[3] or f[2]
    if f[1] == 'enqueue' and outcome ~= 'enqueued' then
      settled[#settled + 1] = {i - 1, outcome, reason}
    end
  end
  advance(p, s, is_spent(s) and cursor or p[4])
  return 'ok', '', settled
end

local function pause(s)
  local note = 'paused after ' .. s.pause_after .. ' failed runs in a row'
  redis.call('HSET', s.key, 'status', 'paused', 'note', note, 'next', '')
  redis.call('ZREM', timetable, s.id)
  return 'paused', note, {}
end

local function commit(p)
  local code, detail, s = judge(p)
  if code == 'paused' then return pause(s) end
  if code ~= 'ok' then return code, detail, {} end
  return apply(p, s)
end

local blocked = try('ZCARD', timetable) or try('XLEN', c.ledger) or try('SCARD', c.queues) or try('ZCARD', c.waiters)
  or try('ZCARD', c.stopping) or try('ZCARD', completed)
local results = {}
for i, p in ipairs(plans) do
  results[i] = blocked and {'error', blocked, {}} or {commit(p)}
end
local head = redis.pcall('ZRANGE', timetable, 0, 0, 'WITHSCORES')
return {'ok', c.now, head[2] or '', cmsgpack.pack(results)}
