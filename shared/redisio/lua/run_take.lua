-- Look at an id that was just popped: is it a job to run, and if not, get it out of the way.
-- An id that is not to be run leaves the list of taken ids here; one to run or to refuse stays on it.
--
-- KEYS  1 list of taken ids   2 job
-- ARGV  1 id   2 most fields of a job   3 most bytes of a field
-- returns {'ok', fields as a flat list}, {'refused', reason},
--         {'dropped', why}: its record is gone, it waits twice, or its status says that it is not waiting

local taken, job, id = KEYS[1], KEYS[2], ARGV[1]

local function drop(why)
  redis.call('LREM', taken, 1, id)
  return {'dropped', why}
end

local kind = redis.call('TYPE', job).ok
if kind == 'none' then return drop('its record is gone') end
if kind ~= 'hash' then return {'refused', 'its record is a ' .. kind .. ' where RQ keeps a hash'} end

local status = redis.call('HGET', job, 'status')
local waits_for_nobody = {started = 1, finished = 1, failed = 1, deferred = 1, scheduled = 1, stopped = 1, canceled = 1}
if status and waits_for_nobody[status] then return drop('its status is ' .. status) end
if #redis.call('LPOS', taken, id, 'COUNT', 0) > 1 then return drop('another worker took it') end
if redis.call('HLEN', job) > tonumber(ARGV[2]) then return {'refused', 'its record has too many fields'} end
for _, name in ipairs(redis.call('HKEYS', job)) do
  if redis.call('HSTRLEN', job, name) > tonumber(ARGV[3]) then
    return {'refused', 'its field ' .. string.sub(name, 1, 60) .. ' is too large'}
  end
end
if status ~= 'queued' then
  return {'refused', 'its status is ' .. string.format('%q', string.sub(status or '', 1, 60)) .. ', not queued'}
end
return {'ok', redis.call('HGETALL', job)}
