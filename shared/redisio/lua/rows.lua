-- Schedules as entries of the timetable, with what a plan needs to know of each; shared by the scripts that look at it.

-- One row: {id, due, revision, status, cursor, error}; error is not '' when the schedule's key can't be read.
local function row(prefix, id, due)
  local err, held = try('HMGET', prefix .. id, 'rev', 'status', 'cursor')
  held = held or {}
  return {id, due, held[1] or '', held[2] or '', held[3] or '', err or ''}
end
