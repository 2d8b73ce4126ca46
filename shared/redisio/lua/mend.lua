-- Write a range of nominal times that nothing was decided about into the ledger, as missed(error).
--
-- KEYS  1 ledger   2 the schedule's own ledger   3 schedule   4 control log
-- ARGV  1 {id, count, about: the entry's second part, bounds, actor, bound}
-- returns 1, or 0 when there is no such schedule

local m = cmsgpack.unpack(ARGV[1])
if redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
record(KEYS[1], KEYS[2], m.bounds, entry(now_ms(), 'missed', 'error', m.about))
redis.call('XADD', KEYS[4], 'MAXLEN', '~', m.bound, '*', 'action', 'mend', 'schedule', m.id, 'actor', m.actor,
  'reason', m.count .. ' nominal times were in no ledger entry')
return 1
