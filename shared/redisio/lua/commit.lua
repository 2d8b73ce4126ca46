-- The commit: the one step that turns plans into queue entries, ledger entries and moved cursors.
--
-- Why nothing is fired twice: a fire is pushed in the same step that moves its schedule's cursor past it, and only if
-- the cursor still stands where the plan found it. A plan that is sent again, by the same beat after a lost reply or by
-- another beat, finds the cursor moved. The dedupe key, and the job's own hash, hold where a cursor was lost or edited.
-- Why nothing is lost: a plan covers every nominal time between the two positions of the cursor. Why nothing is half
-- done: Redis runs a script alone, and this one finds every error of a plan before its first write for that plan.
--
-- KEYS  1 timetable   2 leader   3 ledger   4 RQ's set of queues
-- ARGV  1 header: {owner, term, stamp, tail, schedule, fired, own_ledger, outstanding, queue, job (prefixes), bounds}
--       2 plans: a list of {id, revision, base cursor, new cursor, next nominal or false, due or false, fires}
--         fire: {'enqueue', nominal, due, kind, job id, context}
--            or {'against', nominal, until, count, due, kind, outcome, reason, job id or false}
-- returns {'fenced'} or {'ok', Redis' clock, due time at the head of the timetable or '', results}
--         result: {code, detail, settled}: one per plan
--           ok       applied; settled lists {index, outcome, reason} of fires that were not enqueued as planned
--           already  the cursor is at or past the new one: somebody did it, maybe this very call before its reply was lost
--           moved    the cursor is elsewhere: plan again
--           stale    another revision is stored: read the definition again
--           gone     no such schedule, or it is not active
--           early    by Redis' clock a fire is not due yet
--           error    detail names the key that stands in the way; nothing of this plan was written

local timetable, leader, ledger, queues = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local h = cmsgpack.unpack(ARGV[1])
local plans = cmsgpack.unpack(ARGV[2])

local held = redis.call('HMGET', leader, 'owner', 'term')
if held[1] ~= h.owner or held[2] ~= h.term then
  return {'fenced'}
end

local now = now_ms()
local LIVE = {queued = true, started = true, scheduled = true, deferred = true}
local FIELDS = {'rev', 'status', 'cursor', 'queue', 'head', 'fields', 'instances', 'dedupe_ttl', 'fired', 'limit', 'front', 'error'}

local function latest_due(fires)
  local latest = 0
  for _, f in ipairs(fires) do
    latest = math.max(latest, f[1] == 'enqueue' and f[3] or f[5])
  end
  return latest
end

-- Everything that can speak against a plan. Reads only.
local function judge(id, p)
  local err, row = try('HMGET', h.schedule .. id, unpack(FIELDS))
  if err then return 'error', err end
  local s = {}
  for i, name in ipairs(FIELDS) do s[name] = row[i] end
  if not s.rev or s.status ~= 'active' then return 'gone', '' end
  if tonumber(s.rev) ~= p[2] then return 'stale', '' end
  local cursor = tonumber(s.cursor)
  if cursor ~= p[3] then
    return cursor >= p[4] and 'already' or 'moved', ''
  end
  if latest_due(p[7]) > now then return 'early', '' end
  s.queue_key, s.outstanding, s.own_ledger = h.queue .. s.queue, h.outstanding .. id, h.own_ledger .. id
  local blocked = try('LLEN', s.queue_key) or try('ZCARD', s.outstanding) or try('LLEN', s.own_ledger)
  if blocked then return 'error', blocked end
  return 'ok', '', s
end

-- How many earlier jobs of a schedule RQ still has before it or in hand; forgets the others.
local function count_live(s)
  local live = 0
  for _, job_id in ipairs(redis.call('ZRANGE', s.outstanding, 0, -1)) do
    local err, status = try('HGET', h.job .. job_id, 'status')
    if not err and LIVE[status] then
      live = live + 1
    else
      redis.call('ZREM', s.outstanding, job_id)
    end
  end
  return live
end

-- Enqueue one fire, unless overlap or an earlier push of the same nominal time speaks against it.
local function enqueue(id, s, f)
  local nominal, job_id = digits(f[2]), f[5]
  local dedupe_key, job_key = h.fired .. id .. ':' .. nominal, h.job .. job_id
  if redis.call('EXISTS', dedupe_key, job_key) > 0 then return 'deduplicated', '' end
  if s.most > 0 and s.live >= s.most then return 'skipped', 'overlap' end
  redis.call('SET', dedupe_key, job_id, 'PX', s.dedupe_ttl)
  write_job(job_key, s.static, s.head .. f[6] .. h.tail, 'queued', h.stamp)
  push(queues, s.queue_key, job_id, s.front == '1')
  if s.most > 0 then redis.call('ZADD', s.outstanding, nominal, job_id) end
  s.live, s.count, s.last = s.live + 1, s.count + 1, nominal
  return 'enqueued', ''
end

local function settle(id, s, f)
  if f[1] == 'against' then
    record(ledger, s.own_ledger, h.bounds, {id, f[2], f[3], f[4], now, f[7], f[8], f[6], f[9], f[5]})
    return f[7], f[8]
  end
  local outcome, reason = enqueue(id, s, f)
  record(ledger, s.own_ledger, h.bounds, {id, f[2], f[2], 1, now, outcome, reason, f[4], f[5], f[3]})
  return outcome, reason
end

local function is_spent(s)
  return s.most_fires > 0 and s.count >= s.most_fires
end

-- Move the cursor and the index.
local function advance(id, p, s, cursor)
  local key = h.schedule .. id
  redis.call('HSET', key, 'cursor', digits(cursor), 'next', p[5] and digits(p[5]) or '', 'fired', s.count)
  if s.last then redis.call('HSET', key, 'last', s.last) end
  if s.error then redis.call('HDEL', key, 'error') end
  if p[6] and not is_spent(s) then
    redis.call('ZADD', timetable, digits(p[6]), id)
  else
    redis.call('HSET', key, 'status', 'completed', 'next', '', 'completed_at', digits(now))
    redis.call('ZREM', timetable, id)
  end
end

local function apply(id, p, s)
  s.most, s.live, s.count = tonumber(s.instances), 0, tonumber(s.fired)
  s.most_fires, s.static = tonumber(s.limit), cmsgpack.unpack(s.fields)
  if s.most > 0 then s.live = count_live(s) end
  local settled, cursor = {}, p[4]
  for i, f in ipairs(p[7]) do
    if is_spent(s) then break end
    local outcome, reason = settle(id, s, f)
    cursor = f[1] == 'against' and f[3] or f[2]
    if f[1] == 'enqueue' and outcome ~= 'enqueued' then
      settled[#settled + 1] = {i - 1, outcome, reason}
    end
  end
  advance(id, p, s, is_spent(s) and cursor or p[4])
  return settled
end

local blocked = try('ZCARD', timetable) or try('XLEN', ledger) or try('SCARD', queues)
local results = {}
for i, p in ipairs(plans) do
  local code, detail, s = judge(p[1], p)
  if blocked then code, detail = 'error', blocked end
  results[i] = {code, detail, code == 'ok' and apply(p[1], p, s) or {}}
end
local head = redis.pcall('ZRANGE', timetable, 0, 0, 'WITHSCORES')
return {'ok', now, head[2] or '', results}
