#!lua flags=allow-oom
-- Removes up to 128 scheduled or dead tasks.
-- KEYS: the ten of model.lua.
-- ARGV: 1 state: s scheduled, k dead
-- Returns: the number in the state before · the number removed.
local state = ARGV[1]
local AT_ONCE = 128

check_all()
local zset = state == 's' and DUE or DEAD
local requests = numbers_of_meta('again')[1]
local far = state == 's' and far_of()
local before = call('ZCARD', zset) + (far and far.count() or 0)
local ids = call('ZRANGE', zset, 0, AT_ONCE - 1)
record_removals(ids)
if #ids > 0 then
  call('ZREM', zset, unpack(ids))
  call('HDEL', TASKS, unpack(ids))
  call('HDEL', TRAIL, unpack(ids))
  write_ends()
  drop_requests(ids, requests)
  return { before, #ids }
end

local function note(id, record)
  record_end(id, 'x', clock(), nil, parse_trail(), record)
end

local purged = far and far.purge(recording() and note) or 0
write_ends()
if purged == 0 then
  touch()
end
return { before, purged }
