-- Let a version of the app be the one whose declared schedules are stored, if the one that was seen still is.
--
-- KEYS  1 the app's version
-- ARGV  1 the version   2 the one seen, '' for none
-- returns 1, or 0 where it is another by now

if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
