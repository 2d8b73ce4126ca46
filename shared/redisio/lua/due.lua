-- What is due: the earliest entries of the timetable, with what a plan needs to know of each.
-- Reads only.
--
-- KEYS  1 timetable   2 schedules with a waiting fire
-- ARGV  1 the caller's clock, ms   2 most entries   3 prefix of schedules
-- returns {Redis' clock, due time at the head of the timetable or '', how many fires wait, rows}
--         row: {id, due, revision, status, cursor, error}; error is not '' when the schedule's key can't be read

local now = now_ms()
local ready = digits(math.min(now, tonumber(ARGV[1])))
local found = redis.call('ZRANGE', KEYS[1], '-inf', ready, 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
local rows = {}
for i = 1, #found, 2 do
  local err, row = try('HMGET', ARGV[3] .. found[i], 'rev', 'status', 'cursor')
  row = row or {}
  rows[#rows + 1] = {found[i], found[i + 1], row[1] or '', row[2] or '', row[3] or '', err or ''}
end
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local _, waiting = try('ZCARD', KEYS[2])
return {now, head[2] or '', waiting or 0, rows}
