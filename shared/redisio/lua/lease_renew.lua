-- Renew the lease: the counter moves on, which is all that a standby looks at.
--
-- KEYS  1 leader   2 timetable
-- ARGV  1 owner   2 term
-- returns {1, Redis' clock, due time at the head of the timetable or ''} or {0}

local held = redis.call('HMGET', KEYS[1], 'owner', 'term')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then
  return {0}
end
redis.call('HINCRBY', KEYS[1], 'counter', 1)
local err, head = try('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {1, now_ms(), head and head[2] or ''}
