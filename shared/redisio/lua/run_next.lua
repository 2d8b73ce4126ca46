-- End a run that returned, and begin the next of its queue, in one step; either part may be left out.
--
-- The ending, sent twice with one token, has the effect of once. The beginning has not: its caller asks which run began
-- under the token (`ZSCAN` of the registry of running jobs) when a reply was lost.
-- A run has ended for others when its lease was taken off the registry: then this writes nothing.
--
-- KEYS  1 queue   2 list of taken ids   3 jobs of the queue that have not begun   4 registry of running jobs
--       5 registry of finished jobs   and with an ending   6 job   7 its results   8 execution   9 its executions
--       10 executions of the worker   11 registry of failed jobs   12 expired jobs of the queue   13 schedule
--       14 its stats   15 its outstanding jobs   16 its waiting fire   17 wake channel
-- ARGV  1 {ending: {id, token, stamp, ttl, kept_until, result: RQ's fields of it, written: whether the execution has
--          records of its own, stale: fields to remove, outcome, scheduled, clean} or nil,
--          taking: {job: prefix, checkpoint: prefix, worker, stamp, token, lease_until, begun: ids to take off 3,
--          entry: an id that was popped already, else the next is, fields, bytes: most of them in a record} or nil}
-- returns, packed, {ended, lost (the run was given up), gone (its record was deleted) or none,
--          ids that were dropped and why, as a flat list,
--          none, empty, error, entry (taken, and not for this script) or job,
--          for these: what is wrong, the id, or {id, attempt, checkpoint or '', fields as a flat list}}

local c = cmsgpack.unpack(ARGV[1])

local function is_over(r)
  local held = redis.call('HMGET', KEYS[6], 'status', 'claim')
  if held[2] == r.token and held[1] == 'finished' then return 'ended' end
  if held[1] == 'queued' or (held[1] == 'started' and held[2] == r.token) then return nil end
  if held[1] ~= 'finished' then redis.call('ZREM', KEYS[5], r.id) end
  return 'lost'
end

-- First what needs memory: a server that has none refuses that, and lets the rest pass once something was written.
local function finish(r)
  local job, member = KEYS[6], r.id .. ':' .. r.token
  redis.call('ZADD', KEYS[5], r.kept_until, r.id)
  local taken_off = redis.pcall('ZREM', KEYS[4], member)
  if type(taken_off) == 'table' then
    redis.call('ZREM', KEYS[5], r.id)
    error(KEYS[4] .. ': ' .. taken_off.err)
  end
  local over = taken_off == 0 and is_over(r)
  if over then return over end
  if redis.call('HSET', job, 'status', 'finished', 'ended_at', r.stamp, 'last_heartbeat', r.stamp) == 3 then
    redis.call('DEL', job)
    redis.call('ZREM', KEYS[5], r.id)
    return 'gone'
  end
  redis.call('EXPIRE', job, r.ttl)
  redis.pcall('XADD', KEYS[7], 'MAXLEN', '~', 10, '*', unpack(r.result))
  redis.pcall('EXPIRE', KEYS[7], r.ttl)
  if r.written then
    redis.call('DEL', KEYS[8])
    redis.pcall('ZREM', KEYS[9], r.token)
    redis.pcall('SREM', KEYS[10], member)
  end
  if #r.stale > 0 then redis.call('HDEL', job, unpack(r.stale)) end
  ended({job = job, failed = KEYS[11], expired = KEYS[12], schedule = KEYS[13], stats = KEYS[14],
    outstanding = KEYS[15], waiting = KEYS[16], wake = KEYS[17]}, r)
  return 'ended'
end

local over = {started = 1, finished = 1, failed = 1, deferred = 1, scheduled = 1, stopped = 1, canceled = 1}

-- What a record says: 'job' and its fields by name, 'drop' and why, or 'entry': somebody with more patience must look.
local function look(t, id)
  if #id > 500 or not string.find(id, '^[%w_-]+$') then return 'entry' end
  local flat = redis.pcall('HGETALL', t.job .. id)
  if flat.err then return 'entry' end
  if #flat == 0 then return 'drop', 'its record is gone' end
  if #flat > 2 * t.fields then return 'entry' end
  local held = {}
  for i = 1, #flat, 2 do
    if #flat[i + 1] > t.bytes then return 'entry' end
    held[flat[i]] = flat[i + 1]
  end
  if held.status and over[held.status] then return 'drop', 'its status is ' .. held.status end
  if held.status ~= 'queued' or not string.find(held.attempt or '0', '^%d+$') or #(held.attempt or '') > 15 then
    return 'entry'
  end
  return 'job', held, flat
end

-- Write that a run begins; false and why when the registry can't be written, and then nothing else is.
-- A record has an expiry only when it has ended once before.
local function claim(t, id, held)
  local job, attempt = t.job .. id, tonumber(held.attempt or 0) + 1
  local lease = redis.pcall('ZADD', KEYS[4], t.lease_until, id .. ':' .. t.token)
  if type(lease) == 'table' then return false, KEYS[4] .. ': ' .. lease.err end
  redis.call('HSET', job, 'status', 'started', 'started_at', t.stamp, 'last_heartbeat', t.stamp,
    'worker_name', t.worker, 'claim', t.token, 'attempt', attempt)
  if held.attempt or held.ended_at then redis.call('PERSIST', job) end
  return attempt
end

-- Where an id goes that this script has no use for; one that was popped before is there already.
local function lay_aside(t, id)
  if t.entry then return 'entry', id end
  local laid = redis.pcall('RPUSH', KEYS[2], id)
  if type(laid) == 'number' then return 'entry', id end
  redis.call('LPUSH', KEYS[1], id)
  return 'error', KEYS[2] .. ': ' .. laid.err
end

local function begin(t, id, dropped)
  local kind, held, flat = look(t, id)
  if kind == 'job' then
    local attempt, err = claim(t, id, held)
    if not attempt then
      if not t.entry then redis.call('LPUSH', KEYS[1], id) end
      return 'error', err
    end
    if t.entry then redis.call('LREM', KEYS[2], 1, id) end
    local checkpoint = attempt > 1 and redis.call('GET', t.checkpoint .. id) or ''
    return 'job', {id, attempt, checkpoint, flat}
  end
  if kind == 'entry' then return lay_aside(t, id) end
  if t.entry then redis.call('LREM', KEYS[2], 1, id) end
  dropped[#dropped + 1] = id
  dropped[#dropped + 1] = held
end

-- The next id; false when there is none, and an error in its place.
local function pop(t)
  if t.entry then return t.entry end
  return redis.pcall('LPOP', KEYS[1])
end

local function take(t, dropped)
  if #t.begun > 0 then redis.pcall('ZREM', KEYS[3], unpack(t.begun)) end
  for _ = 1, t.entry and 1 or 100 do
    local id = pop(t)
    if not id then break end
    if type(id) == 'table' then return 'error', KEYS[1] .. ': ' .. id.err end
    local kind, found = begin(t, id, dropped)
    if kind then return kind, found end
  end
  return 'empty', ''
end

local dropped, was, kind, found = {}, 'none', 'none', ''
if c.ending then was = finish(c.ending) end
if c.taking then kind, found = take(c.taking, dropped) end
return cmsgpack.pack({was, dropped, kind, found})
