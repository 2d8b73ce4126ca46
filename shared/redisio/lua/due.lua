-- What is due: entries of the timetable, with what a plan needs to know of each. Those that are on time come first,
-- then those that are late, the earliest first in either part. Reads only.
--
-- KEYS  1 timetable   2 schedules with a waiting fire
-- ARGV  1 the caller's clock, ms   2 most entries   3 prefix of schedules   4 how late is late, ms   5 most late entries
-- returns {Redis' clock, due time at the head of the timetable or '', how many fires wait, rows as msgpack}

local now, most = now_ms(), tonumber(ARGV[2])
local ready = math.min(now, tonumber(ARGV[1]))
local edge = digits(ready - tonumber(ARGV[4]))
local rows = {}

local function take(from, to, limit)
  local found = redis.call('ZRANGE', KEYS[1], from, to, 'BYSCORE', 'LIMIT', 0, math.min(limit, most - #rows), 'WITHSCORES')
  for i = 1, #found, 2 do
    rows[#rows + 1] = row(ARGV[3], found[i], found[i + 1])
  end
end

take(edge, digits(ready), most)
take('-inf', '(' .. edge, tonumber(ARGV[5]))
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local _, waiting = try('ZCARD', KEYS[2])
return {now, head[2] or '', waiting or 0, cmsgpack.pack(rows)}
