-- Give the lease back and wake the standbys. The term stays, so that the next leader's is higher.
--
-- KEYS  1 leader   2 wake channel
-- ARGV  1 owner   2 term
-- returns 1, or 0 when the lease was not the caller's

if fenced(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'owner', '')
redis.call('PUBLISH', KEYS[2], 'released')
return 1
