-- Take one token from a bucket that all workers share; it starts full and fills evenly, by Redis' clock.
-- The bucket is kept as the instant at which it would be full again. A token may be taken before it is there: then the
-- taker waits for it, and those who come later wait longer.
--
-- KEYS  1 bucket
-- ARGV  1 tokens per second   2 most tokens in the bucket
-- returns how many microseconds to wait before the token may be used

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local step = 1000000 / tonumber(ARGV[1])
local full_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0)) + step
redis.call('SET', KEYS[1], digits(full_at), 'PX', digits(math.ceil((full_at - now) / 1000) + 1000))
return math.ceil(math.max(0, full_at - step * tonumber(ARGV[2]) - now))
