-- How one fire is enqueued: shared by the scripts that may do so (commit, release). Needs the prelude.
--
-- `c` is the script's surroundings: the keys ledger, queues, waiters and stopping, now (ms), and h, the header with the
-- prefixes of keys, stamp, tail and bounds. `s` is a schedule as read_schedule found it; its counters go on from fire
-- to fire: live (jobs that RQ has), count (fires enqueued so far), last (the latest of them).

local LIVE = {queued = true, started = true, scheduled = true, deferred = true}
local CANCELED_SECONDS = 86400
local FIELDS = {'rev', 'status', 'cursor', 'owner', 'queue', 'head', 'fields', 'front', 'instances', 'overlap', 'limit',
  'depth', 'on_full', 'pause_after', 'window', 'dedupe_ttl', 'fired', 'error'}
local NEEDED = {'queue', 'head', 'fields', 'dedupe_ttl', 'status', 'cursor'}
local NUMBERS = {'rev', 'cursor', 'instances', 'limit', 'depth', 'pause_after', 'window', 'fired'}

-- A schedule, nil when there is none; or the reason why it can't be read. Reads only.
local function read_schedule(c, id)
  local err, row = try('HMGET', c.h.schedule .. id, unpack(FIELDS))
  if err then return err end
  if not row[1] then return nil, nil end
  local s = {id = id, key = c.h.schedule .. id, live = 0}
  for i, name in ipairs(FIELDS) do s[name] = row[i] end
  for _, name in ipairs(NEEDED) do
    if not s[name] then return s.key .. ': its field ' .. name .. ' is gone' end
  end
  local can_unpack, static = pcall(cmsgpack.unpack, s.fields)
  if not can_unpack or type(static) ~= 'table' then return s.key .. ": its field fields can't be read" end
  s.static = static
  for _, name in ipairs(NUMBERS) do s[name] = tonumber(s[name]) or 0 end
  s.count = s.fired
  s.queue_key, s.outstanding = c.h.queue .. s.queue, c.h.outstanding .. id
  s.own_ledger, s.waiting, s.live_key = c.h.own_ledger .. id, c.h.waiting .. id, c.h.live .. s.queue
  s.scheduled_key = c.h.scheduled .. s.queue
  return nil, s
end

-- The key that stands in the way of enqueueing, or nil. Reads only.
local function obstacle(s)
  local blocked = try('LLEN', s.queue_key) or try('ZCARD', s.live_key) or try('ZCARD', s.outstanding)
    or try('LLEN', s.own_ledger) or try('ZCARD', s.scheduled_key)
  if blocked then return blocked end
  local err, held = try('GET', s.waiting)
  if err then return err end
  local can_unpack, f = pcall(cmsgpack.unpack, held or cmsgpack.pack({}))
  if not can_unpack or type(f) ~= 'table' then return s.waiting .. ": what it holds can't be read" end
end

-- How many earlier jobs of a schedule RQ still has before it or in hand; forgets the others.
local function count_live(c, s)
  local live = 0
  for _, job_id in ipairs(redis.call('ZRANGE', s.outstanding, 0, -1)) do
    local err, status = try('HGET', c.h.job .. job_id, 'status')
    if not err and LIVE[status] then
      live = live + 1
    else
      redis.call('ZREM', s.outstanding, job_id)
    end
  end
  return live
end

local function is_spent(s)
  return s.limit > 0 and s.count >= s.limit
end

-- Take one predecessor out of the new job's way: what has not begun is canceled, what runs is to be stopped.
local function replace_job(c, s, job_id)
  local key = c.h.job .. job_id
  local status = redis.call('HGET', key, 'status')
  if status == 'started' or status == 'deferred' then
    redis.call('ZADD', c.stopping, digits(c.now), job_id)
    return
  end
  redis.call('LREM', s.queue_key, 1, job_id)
  redis.call('ZREM', s.live_key, job_id)
  redis.call('ZREM', s.scheduled_key, job_id)
  redis.call('HSET', key, 'status', 'canceled')
  redis.call('EXPIRE', key, CANCELED_SECONDS)
  redis.call('ZREM', s.outstanding, job_id)
  s.live = s.live - 1
end

local function replace_all(c, s)
  for _, job_id in ipairs(redis.call('ZRANGE', s.outstanding, 0, -1)) do
    replace_job(c, s, job_id)
  end
end

local function push_fire(c, s, f)
  write_job(c.h.job .. f[5], s.static, s.head .. f[6] .. c.h.tail, 'queued', c.h.stamp)
  push(c.queues, s.queue_key, s.live_key, f[5], s.front == '1')
  redis.call('SET', c.h.fired .. s.id .. ':' .. digits(f[2]), f[5], 'PX', s.dedupe_ttl)
  if s.instances > 0 then redis.call('ZADD', s.outstanding, digits(f[2]), f[5]) end
  s.live, s.count, s.last = s.live + 1, s.count + 1, f[2]
end

-- Enqueue a fire unless something speaks against it.
-- Returns enqueued; deduplicated; skipped and overlap; waiting (buffer); or full.
local function enqueue(c, s, f)
  if redis.call('EXISTS', c.h.fired .. s.id .. ':' .. digits(f[2]), c.h.job .. f[5]) > 0 then
    return 'deduplicated', ''
  end
  local is_taken = s.instances > 0 and s.live >= s.instances
  if is_taken and s.overlap == 'buffer' then return 'waiting', '' end
  if is_taken and s.overlap ~= 'replace' then return 'skipped', 'overlap' end
  if is_taken then replace_all(c, s) end
  if s.depth > 0 and redis.call('LLEN', s.queue_key) >= s.depth then return 'full', '' end
  push_fire(c, s, f)
  return 'enqueued', ''
end

local function record_fire(c, s, f, outcome, reason, job_id)
  record(c.ledger, s.own_ledger, c.h.bounds, {s.id, f[2], f[2], 1, c.now, outcome, reason, f[4], job_id or f[5], f[3]})
end

local function forget_waiting(c, s)
  redis.call('DEL', s.waiting)
  redis.call('ZREM', c.waiters, s.id)
end

-- Let a fire wait; an older one that waited goes into it.
local function supersede(c, s, f)
  local held = redis.call('GET', s.waiting)
  if held then record_fire(c, s, cmsgpack.unpack(held), 'coalesced', 'buffer', f[5]) end
  redis.call('SET', s.waiting, cmsgpack.pack(f))
  redis.call('ZADD', c.waiters, digits(f[3]), s.id)
end

-- Send a waiting fire on its way when it may go: at once, or as missed once it is too old.
-- Returns nominal, outcome, reason; nothing when it still waits.
local function release(c, s)
  local held = redis.call('GET', s.waiting)
  if not held then
    redis.call('ZREM', c.waiters, s.id)
    return nil
  end
  local f = cmsgpack.unpack(held)
  local outcome, reason = 'missed', 'window'
  if c.now - f[3] <= s.window then outcome, reason = enqueue(c, s, f) end
  if outcome == 'waiting' or (outcome == 'full' and s.on_full == 'hold') then return nil end
  if outcome == 'full' then outcome, reason = 'skipped', 'queue_full' end
  record_fire(c, s, f, outcome, reason)
  forget_waiting(c, s)
  return f[2], outcome, reason
end

