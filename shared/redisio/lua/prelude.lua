-- What several scripts share: a script is this text followed by its own. Nothing here runs by itself.

-- Redis' clock, in ms.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A whole number as digits; concatenation alone would round beyond 14 of them.
local written = {}
local function digits(n)
  local text = written[n]
  if not text then
    text = string.format('%.0f', n)
    written[n] = text
  end
  return text
end

-- The reason why `command key …` can't be run, or nil and its reply. For reads only: a script must find a wrong type
-- before its first write, since an error in the middle rolls nothing back.
local function try(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    return key .. ': ' .. reply.err
  end
  return nil, reply
end

-- Whether the lease is somebody else's.
local function fenced(leader, owner, term)
  local held = redis.call('HMGET', leader, 'owner', 'term')
  return held[1] ~= owner or held[2] ~= term
end

-- Whether what one version of the app wants to write is out of date: another one has taken over.
local function is_superseded(key, version)
  return version and redis.call('GET', key) ~= version
end

-- A new RQ job hash. `fields` is a flat list of what is the same for every job of its kind.
local function write_job(key, fields, data, status, stamp)
  redis.call('HSET', key, 'status', status, 'data', data, 'created_at', stamp, 'enqueued_at', stamp, unpack(fields))
end

-- Hand a job over to RQ's workers. `live` lists the jobs of the queue that have not begun, by when they were pushed.
local function push(queues, queue_key, live, job_id, at_front)
  redis.call(at_front and 'LPUSH' or 'RPUSH', queue_key, job_id)
  redis.call('SADD', queues, queue_key)
  redis.call('ZADD', live, digits(now_ms()), job_id)
end

-- Append to a list that keeps its newest `bound` items.
local function append(list, bound, ...)
  if redis.call('RPUSH', list, ...) > bound then redis.call('LTRIM', list, -bound, -1) end
end

-- A ledger entry: when it was decided and what came of it, then what it is about, packed: {schedule, nominal, until,
-- count, kind, job id or false, due}. It reads as a list of ten. One script knows one `now`.
local heads = {}
local function entry(now, outcome, reason, about)
  local head = heads[outcome .. reason]
  if not head then
    head = '\154' .. cmsgpack.pack(now, outcome, reason)
    heads[outcome .. reason] = head
  end
  return head .. about
end

-- Write one entry into the ledger over all schedules and into the schedule's own; both bounded.
-- `bounds` is {over all, per schedule}.
local function record(ledger, own_list, bounds, packed)
  append(ledger, bounds[1], packed)
  append(own_list, bounds[2], packed)
end
