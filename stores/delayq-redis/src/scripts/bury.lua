#!lua flags=allow-oom
-- Moves a scheduled task with a damaged record to dead, unless it has changed since it was read.
-- KEYS: the ten of model.lua.
-- ARGV: 1 id · 2 its record · 3 the problem, in one line
-- Returns: 1 if it was moved.
local id, seen, problem = ARGV[1], ARGV[2], ARGV[3]

local now = clock()
check_all()
if call('HGET', TASKS, id) ~= seen or place_of(id) ~= 's' then
  return 0
end
local trail = parse_trail(call('HGET', TRAIL, id))
note_error(trail, now, problem, problem)
record_end(id, 'k', now, nil, trail, seen)
call('HSET', TRAIL, id, trail_text(trail))
call('ZREM', DUE, id)
call('ZADD', DEAD, text(now), id)
write_ends()
return 1
