-- Claim a once-mark before its effect. Sent twice with one claim, it has the effect of once.
--
-- KEYS  1 mark
-- ARGV  1 claim: who claims   2 how long the mark is remembered, ms
--       3 what to do about a claim that was neither finished nor released: raise, skip or repeat
-- returns first (do it now), done (it was done, or is taken as done), doubt (nobody can know)

local held = redis.call('GET', KEYS[1])
if not held or held == ARGV[1] or (held ~= 'done' and ARGV[3] == 'repeat') then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 'first'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if held == 'done' or ARGV[3] == 'skip' then return 'done' end
return 'doubt'
