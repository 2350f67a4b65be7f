#!lua flags=allow-oom
-- Cancels a scheduled task, or marks a running one; a request to run it again is dropped.
-- KEYS: the nine of model.lua.
-- ARGV: 1 id · 2 retention, ms · 3 ends that one generation holds
-- Returns: "ok" cancelled, "ok!" and ends were forgotten early, "r" running and marked, the letter
--   of its state (k dead, d done, c cancelled, e expired), or "" and split_of() for an id that is
--   not known.
local id, retention, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = clock()
check_all()
local meta = numbers_of_meta('again', 'gone', unpack(TOTALS))
local requests = meta[1]
local record = call('HGET', TASKS, id)
if not record then
  local ended = remembered({ id }, retention, now)[id]
  if ended then
    touch()
  end
  return ended and sub(ended, 1, 1) or { '', split_of() }
end
local place = place_of(id)
if place == 'k' then
  touch()
  return 'k'
end
if place == 'r' then
  local lock = call('HGET', LOCKS, id)
  if lock then
    call('HSET', LOCKS, id, sub(lock, -1) == '!' and lock or lock .. '!')
  end
  drop_requests({ id }, requests)
  return 'r'
end
local trail = parse_trail(call('HGET', TRAIL, id))
call('ZREM', DUE, id)
call('HDEL', TASKS, id)
call('HDEL', TRAIL, id)
drop_requests({ id }, requests)
local value = end_text('c', now, trail, record)
add_to_totals({ cancelled = 1 }, meta, 2)
return remember({ id, value }, retention, most, now, meta[2]) and 'ok!' or 'ok'
