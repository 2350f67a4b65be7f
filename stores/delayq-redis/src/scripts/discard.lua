#!lua flags=allow-oom
-- Removes dead tasks for good.
-- KEYS: the ten of model.lua.
-- ARGV: the selection, see dead.lua
-- Returns: where to continue: time or -1 · and id · then the ids removed.
check_all()
local ids, next_at, next_id = dead_meant(1)
record_removals(ids)
if #ids > 0 then
  call('ZREM', DEAD, unpack(ids))
  call('HDEL', TASKS, unpack(ids))
  call('HDEL', TRAIL, unpack(ids))
  write_ends()
else
  touch()
end
return { next_at, next_id, unpack(ids) }
