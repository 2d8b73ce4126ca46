-- Stand for leader: by compare-and-set on the lease as it was last seen.
--
-- KEYS  1 leader
-- ARGV  1 owner   2 term seen   3 beat counter seen ('' for both when nobody led)
-- returns {1, new term} or {0, term, counter, owner}

local held = redis.call('HMGET', KEYS[1], 'owner', 'term', 'counter')
local owner, term, counter = held[1] or '', held[2] or '', held[3] or ''
if term == ARGV[2] and (owner == '' or counter == ARGV[3]) then
  local next_term = (tonumber(term) or 0) + 1
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'term', next_term, 'counter', 0)
  return {1, digits(next_term)}
end
return {0, term, counter, owner}
