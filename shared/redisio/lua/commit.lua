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
--       2 plans: a list of {id, revision, base cursor, new cursor, next due time or false, fires}
--         fire: {'enqueue', nominal, due, kind, job id, context, about}
--            or {'against', until, due, outcome, reason, about}; about: the second part of the ledger entry
-- returns {'fenced'} or {'ok', Redis' clock, due time at the head of the timetable or '', results as msgpack}
--         result: {index, code, detail, settled}; a plan without one was applied to the letter
--           ok       applied; detail names what could not be written beside it; settled lists {index, outcome, reason}
--                    of fires that were not enqueued as planned; a fire that waits has the outcome `waiting` and no
--                    ledger entry yet
--           already  the cursor is at or past the new one: somebody did it, maybe this very call before its reply was lost
--           moved    the cursor is elsewhere: plan again
--           held     a full queue holds a fire: what came before it is applied, it is looked at again in a second
--           stale    another revision is stored: read the definition again
--           gone     no such schedule, or it is not active
--           paused   it failed too often in a row; detail says so
--           early    by Redis' clock a fire is not due yet
--           error    detail names the key that stands in the way; nothing of this plan was written

local leader, completed = KEYS[2], KEYS[7]
local h = cmsgpack.unpack(ARGV[1])
local plans = cmsgpack.unpack(ARGV[2])
if fenced(leader, h.owner, h.term) then return {'fenced'} end
local c = surroundings(KEYS, h)
local HOLD_MS = 1000
local NONE = {}

local function is_early(fires)
  for i = 1, #fires do
    if fires[i][3] > c.now then return true end
  end
  return false
end

local function has_failed_too_often(s)
  local err, failures = try('HGET', h.stats .. s.id, 'failures')
  return not err and (tonumber(failures) or 0) >= s.p.pause_after
end

-- What speaks against a plan by its schedule's record. Reads only.
local function judge(p)
  local err, s = read_schedule(c, p[1])
  if err then return 'error', err end
  if not s or s.status ~= 'active' then return 'gone', '' end
  if s.rev ~= p[2] then return 'stale', '' end
  if s.cursor ~= p[3] then
    return s.cursor >= p[4] and 'already' or 'moved', ''
  end
  if is_early(p[6]) then return 'early', '' end
  return 'ok', '', s
end

-- What else speaks against it: a key of a wrong type, or too many failures. Reads only.
local function judge_further(s)
  local blocked = obstacle(c, s)
  if blocked then return 'error', blocked end
  local is_worn = s.p.pause_after > 0 and #s.plan[6] > 0 and has_failed_too_often(s)
  return is_worn and 'paused' or 'ok', ''
end

-- Whether any of these schedules has jobs beside the latest, or a fire that waits. Like the next one asked of all at
-- once, since mostly the answer is no. Reads only.
local function has_others(judged)
  local keys = {n = 0}
  for i = 1, judged.n do
    local s = judged[i]
    if s.p.instances > 0 then add(keys, outstanding_key(c, s)) end
    if s.p.overlap == 'buffer' then add(keys, waiting_key(c, s)) end
  end
  return count_existing(keys) > 0
end

-- Whether any of these fires was enqueued before. Reads only.
local function has_enqueued(judged)
  local keys = {n = 0}
  for i = 1, judged.n do
    local s = judged[i]
    local fires = s.plan[6]
    for k = 1, #fires do
      if fires[k][1] == 'enqueue' then
        add(keys, dedupe_key(c, s, fires[k]))
        add(keys, h.job .. fires[k][5])
      end
    end
  end
  return count_existing(keys) > 0
end

local function settle(s, f)
  if f[1] == 'against' then
    record_later(c, s, f[4], f[5], f[6])
    return f[4], f[5]
  end
  local outcome, reason = enqueue(c, s, f)
  if outcome == 'full' and s.p.on_full == 'hold' then return 'held' end
  if outcome == 'full' then outcome, reason = 'skipped', 'queue_full' end
  if outcome == 'waiting' then
    supersede(c, s, f)
  else
    record_later(c, s, outcome, reason, f[7])
  end
  return outcome, reason
end

local function move_later(s, due)
  add(c.moves, digits(due))
  add(c.moves, s.id)
end

local function complete(s)
  redis.call('HSET', s.key, 'status', 'completed', 'completed_at', c.now_text)
  redis.call('ZREM', c.timetable, s.id)
  if s.p.owner == 'runtime' then redis.call('ZADD', completed, digits(c.now + s.p.window), s.id) end
end

-- Move the cursor and the index.
local function advance(s, cursor)
  local p = s.plan
  local is_over = not p[5] or is_spent(s)
  write_schedule(s, 'cursor', digits(cursor))
  if s.trouble then
    redis.call('HSET', s.key, 'error', s.trouble)
  elseif s.error then
    redis.call('HDEL', s.key, 'error')
  end
  if is_over then
    complete(s)
  else
    move_later(s, p[5])
  end
end

-- A full queue holds a schedule: what came before the fire is decided, the fire itself is looked at again later.
local function hold(s, cursor)
  write_schedule(s, 'cursor', digits(cursor), 'error', 'held: its queue is full')
  move_later(s, c.now + HOLD_MS)
end

local function apply(s)
  if s.p.instances > 0 then count_live(c, s) end
  if s.p.overlap == 'buffer' and not s.is_alone then release(c, s) end
  local settled, cursor, fires = NONE, s.plan[3], s.plan[6]
  for i = 1, #fires do
    if is_spent(s) then break end
    local f = fires[i]
    local outcome, reason = settle(s, f)
    if outcome == 'held' then
      hold(s, cursor)
      return 'held', '', settled
    end
    cursor = f[2]
    if f[1] == 'enqueue' and outcome ~= 'enqueued' then
      if settled == NONE then settled = {} end
      settled[#settled + 1] = {i - 1, outcome, reason}
    end
  end
  advance(s, is_spent(s) and cursor or s.plan[4])
  return 'ok', s.trouble or '', settled
end

local function pause(s)
  local note = 'paused after ' .. s.p.pause_after .. ' failed runs in a row'
  redis.call('HSET', s.key, 'status', 'paused', 'note', note)
  redis.call('ZREM', c.timetable, s.id)
  return 'paused', note, {}
end

local results = {}

local function tell(index, code, detail, settled)
  if code ~= 'ok' or detail ~= '' or #settled > 0 then results[#results + 1] = {index - 1, code, detail, settled} end
end

-- The plans that their schedules' records allow. A second plan for a schedule would be judged too early: by what the
-- first will have changed.
local function judge_records()
  local judged, places, seen = {n = 0}, {n = 0}, {}
  local blocked = try('ZCARD', c.timetable) or try('LLEN', c.ledger) or try('SCARD', c.queues) or try('ZCARD', c.waiters)
    or try('ZCARD', c.stopping) or try('ZCARD', completed)
  for i = 1, #plans do
    local p = plans[i]
    local code, detail, s = 'moved', '', nil
    if blocked then
      code, detail = 'error', blocked
    elseif not seen[p[1]] then
      code, detail, s = judge(p)
    end
    seen[p[1]] = true
    if s then
      s.plan = p
      add(judged, s)
      add(places, i)
    else
      tell(i, code, detail, {})
    end
  end
  return judged, places
end

local judged, places = judge_records()
local is_alone = not has_others(judged)
c.is_new = not has_enqueued(judged)
local codes, details = {}, {}
for i, s in ipairs(judged) do
  s.is_alone = is_alone
  codes[i], details[i] = judge_further(s)
end
for i, s in ipairs(judged) do
  if codes[i] == 'paused' then
    tell(places[i], pause(s))
  elseif codes[i] == 'error' then
    tell(places[i], 'error', details[i], {})
  else
    tell(places[i], apply(s))
  end
end
flush(c)
local head = redis.pcall('ZRANGE', c.timetable, 0, 0, 'WITHSCORES')
return {'ok', c.now, head[2] or '', cmsgpack.pack(results)}
