-- Fire a schedule by hand: one job more, beside its cursor, which does not move.
-- The id of the request makes it idempotent: sent twice, it enqueues once.
--
-- KEYS  1 schedule   2 RQ's set of queues   3 ledger   4 its own ledger   5 its outstanding jobs   6 control log
--       7 the job
-- ARGV  1 {id, nominal, kind, job id, context, stamp, tail, queue (prefix), bounds, actor, reason, bound}
-- returns {code, detail}: done, already, gone, or error naming the key in the way

local f = cmsgpack.unpack(ARGV[1])
local s = redis.call('HMGET', KEYS[1], 'queue', 'head', 'fields', 'front', 'instances')
if not s[1] then return {'gone', ''} end
if redis.call('EXISTS', KEYS[7]) == 1 then return {'already', ''} end
local queue_key = f.queue .. s[1]
local blocked = try('LLEN', queue_key) or try('XLEN', KEYS[3]) or try('LLEN', KEYS[4]) or try('ZCARD', KEYS[5])
if blocked then return {'error', blocked} end

write_job(KEYS[7], cmsgpack.unpack(s[3]), s[2] .. f.context .. f.tail, 'queued', f.stamp)
push(KEYS[2], queue_key, f.job_id, s[4] == '1')
if tonumber(s[5]) > 0 then redis.call('ZADD', KEYS[5], digits(f.nominal), f.job_id) end
record(KEYS[3], KEYS[4], f.bounds, {f.id, f.nominal, f.nominal, 1, now_ms(), 'enqueued', '', f.kind, f.job_id, f.nominal})
redis.call('XADD', KEYS[6], 'MAXLEN', '~', f.bound, '*', 'action', f.kind, 'schedule', f.id, 'actor', f.actor,
  'reason', f.reason)
return {'done', ''}
