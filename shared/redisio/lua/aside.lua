-- Set a schedule aside for a while: it keeps its status and cursor, shows its error, and is looked at again later.
--
-- KEYS  1 timetable   2 leader   3 schedule
-- ARGV  1 owner   2 term   3 id   4 when to look again, ms   5 the error, one line
-- returns 1, or 0 when fenced

if fenced(KEYS[2], ARGV[1], ARGV[2]) then return 0 end
local err, present = try('HEXISTS', KEYS[3], 'rev')
if present == 1 then
  redis.call('HSET', KEYS[3], 'error', ARGV[5])
end
if present == 0 then
  redis.call('ZREM', KEYS[1], ARGV[3])
else
  redis.call('ZADD', KEYS[1], 'XX', ARGV[4], ARGV[3])
end
return 1
