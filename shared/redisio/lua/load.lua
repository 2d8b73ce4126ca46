-- Revisions and definitions of schedules. Reads only.
--
-- KEYS  none
-- ARGV  1 prefix of schedules   2… ids
-- returns msgpack of a list with one row per id: {revision, definition}, {} for one that is absent,
--         {false, why} for one that can't be read

local rows = {}
for i = 2, #ARGV do
  local err, row = try('HMGET', ARGV[1] .. ARGV[i], 'rev', 'definition')
  if err then
    rows[#rows + 1] = {false, err}
  elseif row[1] then
    rows[#rows + 1] = {row[1], row[2] or ''}
  else
    rows[#rows + 1] = {}
  end
end
return cmsgpack.pack(rows)
