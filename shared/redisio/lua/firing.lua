-- How one fire is enqueued: shared by the scripts that may do so (commit, release). Needs the prelude.
--
-- A script reads everything that can speak against it (read_schedule, obstacle) before it writes anything. What several
-- fires write into one key is gathered in `c` and written in one command each by `flush`; whatever reads such a key in
-- between flushes first.
--
-- `c` is the script's surroundings: h, the header with the prefixes of keys, stamp, tail and bounds; now (ms); the keys
-- timetable, ledger, queues, waiters and stopping. `s` is a schedule as read_schedule found it, s.p its policy. These of
-- its fields go on from fire to fire:
--
--   live     how many jobs RQ has of it   count   fires enqueued so far   last   the nominal time of the last of them
--   latest   the job of that one, and is_latest_live. Earlier jobs that still live are in the zset `outstanding`; with
--            one instance there hardly ever is any
--
-- `f` is a fire, {'enqueue', nominal, due, kind, job id, context, about}; about is the second part of its ledger entry.
-- One that waited has an eighth item if its context is signed: the head that was signed with it.

local LIVE = {queued = true, started = true, scheduled = true, deferred = true}
local CANCELED_SECONDS = 86400
local AT_ONCE = 4000  -- unpack takes less than 8,000 values

-- A growing list; it knows its length, for which Lua would search anew at each item.
local function add(list, item)
  local n = list.n + 1
  list.n, list[n] = n, item
end

local function in_chunks(list, write)
  for i = 1, list.n, AT_ONCE do
    write(unpack(list, i, math.min(i + AT_ONCE - 1, list.n)))
  end
end

local function surroundings(keys, h)
  local now = now_ms()
  return {
    h = h, now = now, now_text = digits(now), policies = {}, pushes = {n = 0}, entries = {n = 0}, moves = {n = 0},
    timetable = keys[1], ledger = keys[3], queues = keys[4], waiters = keys[5], stopping = keys[6],
  }
end

local function is_policy(p)
  if type(p) ~= 'table' or type(p.queue) ~= 'string' or type(p.fields) ~= 'table' then return false end
  for _, name in ipairs({'instances', 'limit', 'depth', 'pause_after', 'window', 'dedupe_ttl'}) do
    if type(p[name]) ~= 'number' then return false end
  end
  return true
end

-- The policy in a schedule's field, unpacked once for all schedules that have the same; with why its queue can't be
-- pushed to, or nil.
local function read_policy(c, packed)
  local p = c.policies[packed]
  if p then return p end
  local can_unpack
  can_unpack, p = pcall(cmsgpack.unpack, packed)
  if not can_unpack or not is_policy(p) then return nil end
  p.queue_key, p.live_key, p.scheduled_key = c.h.queue .. p.queue, c.h.live .. p.queue, c.h.scheduled .. p.queue
  p.ttl = digits(p.dedupe_ttl)
  p.blocked = try('LLEN', p.queue_key) or try('ZCARD', p.live_key) or try('ZCARD', p.scheduled_key)
  c.policies[packed] = p
  return p
end

local function lacking(key, row)
  for i, name in ipairs({'rev', 'status', 'cursor', 'fired', 'head', 'policy'}) do
    if not row[i] then return key .. ': its field ' .. name .. ' is gone' end
  end
end

-- A schedule, nil when there is none; or the reason why it can't be read. Reads only.
local function read_schedule(c, id)
  local key = c.h.schedule .. id
  local row = redis.pcall('HMGET', key, 'rev', 'status', 'cursor', 'fired', 'head', 'policy', 'error', 'latest')
  if row.err then return key .. ': ' .. row.err end
  if not row[1] then return nil, nil end
  if not (row[2] and row[3] and row[4] and row[5] and row[6]) then return lacking(key, row) end
  local p = read_policy(c, row[6])
  if not p then return key .. ": its field policy can't be read" end
  return nil, {
    id = id, key = key, p = p, rev = tonumber(row[1]), status = row[2], cursor = tonumber(row[3]), head = row[5],
    count = tonumber(row[4]) or 0, error = row[7], latest = row[8], is_latest_live = false, live = 0, last = false,
    is_alone = false, trouble = false, plan = false,  -- all here: a table that grows later is copied
  }
end

local function outstanding_key(c, s) return c.h.outstanding .. s.id end
local function waiting_key(c, s) return c.h.waiting .. s.id end

-- How many of these keys exist. Reads only.
local function count_existing(keys)
  local found = 0
  in_chunks(keys, function(...) found = found + redis.call('EXISTS', ...) end)
  return found
end

-- The key that stands in the way of enqueueing, or nil. `s.is_alone`: none of its other keys exists. Reads only.
local function obstacle(c, s)
  if s.p.blocked or s.is_alone then return s.p.blocked end
  local err, held = try('ZCARD', outstanding_key(c, s))
  if not err then err, held = try('GET', waiting_key(c, s)) end
  if err then return err end
  if not held then return nil end
  local can_unpack, f = pcall(cmsgpack.unpack, held)
  if not can_unpack or type(f) ~= 'table' then return waiting_key(c, s) .. ": what it holds can't be read" end
end

local function dedupe_key(c, s, f)
  return c.h.fired .. s.id .. ':' .. digits(f[2])
end

local function is_live(c, job_id)
  local err, status = try('HGET', c.h.job .. job_id, 'status')
  return not err and LIVE[status] or false
end

-- Count the jobs of a schedule that RQ still has before it or in hand; forget those that have ended.
local function count_live(c, s)
  s.is_latest_live = s.latest and s.latest ~= '' and is_live(c, s.latest)
  s.live = s.is_latest_live and 1 or 0
  if s.is_alone then return end
  local others = outstanding_key(c, s)
  for _, job_id in ipairs(redis.call('ZRANGE', others, 0, -1)) do
    if is_live(c, job_id) then
      s.live = s.live + 1
    else
      redis.call('ZREM', others, job_id)
    end
  end
end

local function is_spent(s)
  return s.p.limit > 0 and s.count >= s.p.limit
end

-- Push the jobs that were gathered under one policy. `live` lists the jobs of a queue that have not begun.
local function flush_pushes(c, p)
  local live = {n = 0}
  for i = 1, p.pushes.n do
    add(live, c.now_text)
    add(live, p.pushes[i])
  end
  in_chunks(p.pushes, function(...) redis.call(p.front and 'LPUSH' or 'RPUSH', p.queue_key, ...) end)
  in_chunks(live, function(...) redis.call('ZADD', p.live_key, ...) end)
  redis.call('SADD', c.queues, p.queue_key)
  p.pushes = nil
end

-- Write what was gathered.
local function flush(c)
  for i = 1, c.pushes.n do flush_pushes(c, c.pushes[i]) end
  in_chunks(c.entries, function(...) append(c.ledger, c.h.bounds[1], ...) end)
  in_chunks(c.moves, function(...) redis.call('ZADD', c.timetable, ...) end)
  c.pushes, c.entries, c.moves = {n = 0}, {n = 0}, {n = 0}
end

local function push_later(c, p, job_id)
  if not p.pushes then
    p.pushes = {n = 0}
    add(c.pushes, p)
  end
  add(p.pushes, job_id)
end

-- Take one predecessor out of the new job's way: what has not begun is canceled, what runs is to be stopped.
-- Returns whether it goes on living.
local function replace_job(c, s, job_id)
  local key = c.h.job .. job_id
  local status = redis.call('HGET', key, 'status')
  if status == 'started' or status == 'deferred' then
    redis.call('ZADD', c.stopping, c.now_text, job_id)
    return true
  end
  redis.call('LREM', s.p.queue_key, 1, job_id)
  redis.call('ZREM', s.p.live_key, job_id)
  redis.call('ZREM', s.p.scheduled_key, job_id)
  redis.call('HSET', key, 'status', 'canceled')
  redis.call('EXPIRE', key, CANCELED_SECONDS)
  redis.call('ZREM', outstanding_key(c, s), job_id)
  s.live = s.live - 1
  return false
end

local function replace_all(c, s)
  flush(c)
  if s.is_latest_live then s.is_latest_live = replace_job(c, s, s.latest) end
  for _, job_id in ipairs(redis.call('ZRANGE', outstanding_key(c, s), 0, -1)) do
    replace_job(c, s, job_id)
  end
end

local function is_full(c, s)
  flush(c)
  return redis.call('LLEN', s.p.queue_key) >= s.p.depth
end

-- A job becomes the latest; the one before, if it still lives, one of the others.
local function succeed(c, s, job_id)
  if s.is_latest_live then redis.call('ZADD', outstanding_key(c, s), c.now_text, s.latest) end
  s.latest, s.is_latest_live, s.live = job_id, true, s.live + 1
end

local function push_fire(c, s, f)
  write_job(c.h.job .. f[5], s.p.fields, (f[8] or s.head) .. f[6] .. c.h.tail, 'queued', c.h.stamp)
  redis.call('SET', dedupe_key(c, s, f), f[5], 'PX', s.p.ttl)
  push_later(c, s.p, f[5])
  s.count, s.last = s.count + 1, f[2]
  if s.p.instances > 0 then succeed(c, s, f[5]) end
end

-- Enqueue a fire unless something speaks against it. `c.is_new`: no fire at hand was enqueued before.
-- Returns enqueued; deduplicated; skipped and overlap; waiting (buffer); or full.
local function enqueue(c, s, f)
  local p = s.p
  if not c.is_new and redis.call('EXISTS', dedupe_key(c, s, f), c.h.job .. f[5]) > 0 then
    return 'deduplicated', ''
  end
  if p.instances > 0 and s.live >= p.instances then
    if p.overlap == 'buffer' then return 'waiting', '' end
    if p.overlap ~= 'replace' then return 'skipped', 'overlap' end
    replace_all(c, s)
  end
  if p.depth > 0 and is_full(c, s) then return 'full', '' end
  push_fire(c, s, f)
  return 'enqueued', ''
end

-- Write an entry into the schedule's own ledger, and gather it for the one over all. Where something else lies in the
-- place of its own, that is told, and stops no fire.
local function record_later(c, s, outcome, reason, about)
  local packed, key = entry(c.now, outcome, reason, about), c.h.own_ledger .. s.id
  local length = redis.pcall('RPUSH', key, packed)
  if type(length) == 'table' then
    s.trouble = key .. ': ' .. length.err
  elseif length > c.h.bounds[2] then
    redis.call('LTRIM', key, -c.h.bounds[2], -1)
  end
  add(c.entries, packed)
end

-- Write what has become of a schedule, with some more of its fields.
local function write_schedule(s, ...)
  if s.last then
    redis.call('HSET', s.key, 'fired', s.count, 'last', digits(s.last), 'latest', s.latest or '', ...)
  elseif ... then
    redis.call('HSET', s.key, ...)
  end
end

local function forget_waiting(c, s)
  redis.call('DEL', waiting_key(c, s))
  redis.call('ZREM', c.waiters, s.id)
end

-- Let a fire wait; an older one that waited goes into it. A signature holds for the schedule as it is now.
local function supersede(c, s, f)
  local held = redis.call('GET', waiting_key(c, s))
  if held then
    local old = cmsgpack.unpack(held)
    local about = cmsgpack.pack(s.id, old[2], old[2], 1, old[4], f[5], old[3])
    record_later(c, s, 'coalesced', 'buffer', about)
  end
  if c.h.signed then f[8] = s.head end
  redis.call('SET', waiting_key(c, s), cmsgpack.pack(f))
  redis.call('ZADD', c.waiters, digits(f[3]), s.id)
end

-- What becomes of a fire that has waited. It is missed where it is too old, or where the schedule's limit was lowered
-- meanwhile to what it has fired.
local function settle_waiting(c, s, f)
  if c.now - f[3] > s.p.window then return 'missed', 'window' end
  if is_spent(s) then return 'missed', 'limit' end
  return enqueue(c, s, f)
end

-- Send a waiting fire on its way when it may go.
-- Returns nominal, outcome, reason; nothing when it still waits.
local function release(c, s)
  local held = redis.call('GET', waiting_key(c, s))
  if not held then
    redis.call('ZREM', c.waiters, s.id)
    return nil
  end
  local f = cmsgpack.unpack(held)
  local outcome, reason = settle_waiting(c, s, f)
  if outcome == 'waiting' or (outcome == 'full' and s.p.on_full == 'hold') then return nil end
  if outcome == 'full' then outcome, reason = 'skipped', 'queue_full' end
  record_later(c, s, outcome, reason, f[7])
  forget_waiting(c, s)
  return f[2], outcome, reason
end
