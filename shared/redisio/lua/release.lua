-- Fires that wait for an earlier job of their schedule (overlap buffer): send on those that may go.
--
-- KEYS  1 timetable   2 leader   3 ledger   4 RQ's set of queues   5 schedules with a waiting fire   6 jobs to be stopped
-- ARGV  1 the header of a commit   2 most schedules to look at
-- returns {'fenced'} or {'ok', a list of {id, nominal, outcome, reason}}

local h = cmsgpack.unpack(ARGV[1])
if fenced(KEYS[2], h.owner, h.term) then return {'fenced'} end
local c = surroundings(KEYS, h)

local function go_on(s)
  if s.p.instances > 0 then count_live(c, s) end
  local nominal, outcome, reason = release(c, s)
  if not nominal then return nil end
  write_schedule(s)
  return {s.id, nominal, outcome, reason}
end

local released = {}
for _, id in ipairs(redis.call('ZRANGE', c.waiters, 0, ARGV[2] - 1)) do
  local err, s = read_schedule(c, id)
  if not err and not s then
    redis.call('DEL', h.waiting .. id)
    redis.call('ZREM', c.waiters, id)
  elseif s and (s.status == 'active' or s.status == 'completed') and not obstacle(c, s) then
    released[#released + 1] = go_on(s)
  end
end
flush(c)
return {'ok', released}
