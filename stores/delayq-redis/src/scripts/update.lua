#!lua flags=allow-oom
-- Replaces the message of a scheduled task, and the part of its record between its time and its
-- checksum, if that part is as the caller has seen it.
-- KEYS: the ten of model.lua.
-- ARGV: 1 id · 2 the record's part between its time and its checksum · 3 the new record from that
--   part on · 4 retention, ms · 5 as of far_of()
-- Returns: "ok", or the letter of its state, or "", or "changed" · due, ms · with "changed": the
--   part to use, with "": split_of().
local id, fixed, tail, retention = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

check_all()
local far = far_of(ARGV[5])
local records = { call('HGET', TASKS, id) }
if far then
  far.bring({ id }, records)
end
local record = records[1]
if not record then
  local ended = remembered({ id }, retention, clock())[id]
  return { ended and sub(ended, 1, 1) or '', 0, split_of() }
end
local place, due = place_of(id)
if place == 'r' or place == 'k' then
  return { place, 0, '' }
end
local submitted, kind, number, rest = parse_record(record)
local head = find(record, '\n', 1, true)
-- ,"c":"xxxxxxxx"} is 16 bytes.
if not submitted or not head or not find(record, '^,"c":"%x%x%x%x%x%x%x%x"}\n', head - 16) then
  return { 'damaged', 0, '' }
end
local present = sub(record, rest, head - 17)
if present ~= fixed then
  return { 'changed', 0, present }
end
record = sub(record, 1, rest - 1) .. tail
call('HSET', TASKS, id, record)
if far and place == 's' then
  far.send(id, record, due, clock())
end
return { 'ok', place == 's' and due or due_of(submitted, kind, number), '' }
