-- Renew the lease: the counter moves on, which is all that a standby looks at.
--
-- KEYS  1 leader   2 timetable   3 schedules with a waiting fire
-- ARGV  1 owner   2 term
-- returns {1, Redis' clock, due time at the head of the timetable or '', how many fires wait} or {0}

if fenced(KEYS[1], ARGV[1], ARGV[2]) then return {0} end
redis.call('HINCRBY', KEYS[1], 'counter', 1)
local _, head = try('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local _, waiting = try('ZCARD', KEYS[3])
return {1, now_ms(), head and head[2] or '', waiting or 0}
