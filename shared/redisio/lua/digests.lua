-- What schedules' definitions come to, to be compared without being sent. Reads only.
--
-- KEYS  none
-- ARGV  1 prefix of schedules   2… ids
-- returns a list with one SHA-1 in hex per id; '' for one that is absent or can't be read

local digests = {}
for i = 2, #ARGV do
  local err, definition = try('HGET', ARGV[1] .. ARGV[i], 'definition')
  digests[i - 1] = not err and definition and redis.sha1hex(definition) or ''
end
return digests
