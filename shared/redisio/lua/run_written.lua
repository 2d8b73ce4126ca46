-- Write the records that RQ keeps of a run while it lasts, unless it has ended.
--
-- KEYS  1 registry of running jobs   2 execution   3 executions of the job   4 executions of the worker
-- ARGV  1 {member: id:token, token, ttl, until: when the lease ends, fields: of the execution, as a flat list}
-- returns 1, or 0 when the run has ended

local r = cmsgpack.unpack(ARGV[1])
if not redis.call('ZSCORE', KEYS[1], r.member) then return 0 end
redis.call('HSET', KEYS[2], unpack(r.fields))
redis.call('EXPIRE', KEYS[2], r.ttl)
redis.pcall('ZADD', KEYS[3], r['until'] + 60, r.token)
redis.pcall('EXPIRE', KEYS[3], r.ttl + 60)
redis.pcall('SADD', KEYS[4], r.member)
redis.pcall('EXPIRE', KEYS[4], r.ttl + 60)
return 1
