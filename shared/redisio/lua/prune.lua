-- Forget completed schedules that were made at run time, once their time has come.
--
-- KEYS  1 completed schedules, by when they are forgotten   2 schedules
-- ARGV  1 {schedule, stats, outstanding, own_ledger (prefixes), most}
-- returns how many were forgotten

local c = cmsgpack.unpack(ARGV[1])
local due = redis.call('ZRANGE', KEYS[1], '-inf', digits(now_ms()), 'BYSCORE', 'LIMIT', 0, c.most)
local forgotten = 0
for _, id in ipairs(due) do
  local err, status = try('HGET', c.schedule .. id, 'status')
  if not err and status == 'completed' then
    redis.call('DEL', c.schedule .. id, c.stats .. id, c.outstanding .. id, c.own_ledger .. id)
    redis.call('SREM', KEYS[2], id)
    forgotten = forgotten + 1
  end
  redis.call('ZREM', KEYS[1], id)
end
return forgotten
