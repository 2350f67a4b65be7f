#!lua flags=allow-oom
-- Moves a scheduled task to another time.
-- KEYS: the ten of model.lua.
-- ARGV: 1 id · 2 "a" (a delay) or "d" (a time) · 3 its ms · 4 retention, ms · 5 wake channel · 6
--   wake message · 7 as of far_of()
-- Returns: 1 if the first due time became earlier · "ok", or the letter of its state, or "" · due,
--   ms · with "": split_of().
local id, kind, number, retention = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, message = ARGV[5], ARGV[6]

local now, rounded_up = clock()
check_all()
local far = far_of(ARGV[7])
local records = { call('HGET', TASKS, id) }
if far then
  far.bring({ id }, records)
end
local record = records[1]
if not record then
  local ended = remembered({ id }, retention, now)[id]
  return { 0, ended and sub(ended, 1, 1) or '', 0, split_of() }
end
local place = place_of(id)
if place == 'r' or place == 'k' then
  return { 0, place, 0 }
end
local submitted, _, _, rest = parse_record(record)
if not submitted then
  return { 0, 'damaged', 0 }
end
local due = due_of(kind == 'a' and number > 0 and rounded_up or now, kind, number)
-- The submit time may have been rounded up, or the clock has gone back since. The record is read as
-- due at its submit time or later.
submitted = math.min(submitted, due)
local woken = wake_if_earlier(due, far and far.head() or first(DUE), channel, message)
record = format('1{"s":%.0f,"d":%.0f', submitted, due) .. sub(record, rest)
call('HSET', TASKS, id, record)
call('ZADD', DUE, due, id)
if far then
  far.send(id, record, due, now)
end
return { woken, 'ok', due }
