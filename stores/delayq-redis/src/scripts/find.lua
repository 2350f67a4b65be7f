#!lua flags=no-writes
-- Returns the facts about one task.
-- KEYS: the ten of model.lua.
-- ARGV: 1 id · 2 retention, ms
-- Returns: letter of its state · its time, ms · record · trail · lock · when the request to run it
--   again is due, ms, or -1 · the result of gate(). For an ended task: its letter · 0 · "" · its
--   error, in hex, or "" · its record · -1. For an unknown id: "" and split_of().
local id, retention = ARGV[1], tonumber(ARGV[2])

local record = call('HGET', TASKS, id)
local far = not record and far_of()
if far then
  local packed, due = far.find(id)
  if packed then
    return { 's', due, packed, '', '', -1, gate() }
  end
end
if record then
  local place, at = place_of(id)
  local waiting = requests_of({ id }, numbers_of_meta('again')[1])[id]
  local again = waiting and due_of_request(waiting) or -1
  return { place, at, record, call('HGET', TRAIL, id) or '', call('HGET', LOCKS, id) or '', again, gate() }
end
local ended = remembered({ id }, retention, clock())[id]
return ended and { sub(ended, 1, 1), 0, '', note_of(id, ended), ended, -1 } or { '', split_of() }
