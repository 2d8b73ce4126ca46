-- What comes next: the first entries of the timetable, due or not. Reads only.
--
-- KEYS  1 timetable
-- ARGV  1 until when (due time, ms)   2 how many entries to skip   3 most entries   4 prefix of schedules
-- returns rows as msgpack, the earliest first

local skip = tonumber(ARGV[2])
local found = redis.call('ZRANGE', KEYS[1], skip, skip + ARGV[3] - 1, 'WITHSCORES')
local rows = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) > tonumber(ARGV[1]) then break end
  rows[#rows + 1] = row(ARGV[4], found[i], found[i + 1])
end
return cmsgpack.pack(rows)
