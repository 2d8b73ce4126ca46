-- Leave a once-block: the effect is done, or an exception released the claim. Sent twice, it has the effect of once.
--
-- KEYS  1 mark
-- ARGV  1 claim: who claimed   2 how long the mark is remembered, ms   3 done or released
-- returns 1

if ARGV[3] == 'done' then
  redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
elseif redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
