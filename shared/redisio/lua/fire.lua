-- Fire a schedule by hand: jobs beside its cursor, which does not move.
-- The id of the request is part of each job's id, which makes it idempotent: sent twice, it enqueues once.
--
-- KEYS  1 schedule   2 RQ's set of queues   3 ledger   4 its own ledger   5 its outstanding jobs   6 control log
-- ARGV  1 {id, kind, stamp, head, tail, queue, live, job, fired (prefixes), bounds, actor, reason, bound, again, instances}
--         head: the schedule's own as the caller knows it, for which contexts may be signed; again: also what was
--         enqueued already; instances: most live jobs, 0 for any number
--       2 fires: a list of {nominal, job id, context, the job id of the scheduled fire of that time}
-- returns {code, a list with one outcome per fire: enqueued, already, skipped}: done, gone, or error and the key in the way

local f = cmsgpack.unpack(ARGV[1])
local fires = cmsgpack.unpack(ARGV[2])
local LIVE = {queued = true, started = true, scheduled = true, deferred = true}
local policy = redis.call('HGET', KEYS[1], 'policy')
if not policy then return {'gone', {}} end
local p = cmsgpack.unpack(policy)
local queue_key, live_key = f.queue .. p.queue, f.live .. p.queue
local blocked = try('LLEN', queue_key) or try('ZCARD', live_key) or try('LLEN', KEYS[3]) or try('LLEN', KEYS[4]) or try('ZCARD', KEYS[5])
if blocked then return {'error', blocked} end

local function live()
  local count = 0
  for _, job_id in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    local err, status = try('HGET', f.job .. job_id, 'status')
    if not err and LIVE[status] then count = count + 1 end
  end
  return count
end

local taken = f.instances > 0 and live() or 0

local function is_enqueued(nominal, scheduled_id)
  return not f.again and redis.call('EXISTS', f.fired .. f.id .. ':' .. nominal, f.job .. scheduled_id) > 0
end

local function enqueue(nominal, job_id, context)
  write_job(f.job .. job_id, p.fields, f.head .. context .. f.tail, 'queued', f.stamp)
  push(KEYS[2], queue_key, live_key, job_id, p.front)
  if p.instances > 0 then redis.call('ZADD', KEYS[5], nominal, job_id) end
  taken = taken + 1
end

local function settle(nominal, job_id, context, scheduled_id)
  if redis.call('EXISTS', f.job .. job_id) == 1 or is_enqueued(digits(nominal), scheduled_id) then return 'already' end
  local outcome, reason = 'enqueued', ''
  if f.instances > 0 and taken >= f.instances then outcome, reason = 'skipped', 'overlap' end
  if outcome == 'enqueued' then enqueue(digits(nominal), job_id, context) end
  local now = now_ms()
  local about = cmsgpack.pack(f.id, nominal, nominal, 1, f.kind, job_id, now)
  record(KEYS[3], KEYS[4], f.bounds, entry(now, outcome, reason, about))
  return outcome
end

local outcomes = {}
for i, fire in ipairs(fires) do
  outcomes[i] = settle(unpack(fire))
end
redis.call('XADD', KEYS[6], 'MAXLEN', '~', f.bound, '*', 'action', f.kind, 'schedule', f.id, 'actor', f.actor,
  'reason', f.reason)
return {'done', outcomes}
