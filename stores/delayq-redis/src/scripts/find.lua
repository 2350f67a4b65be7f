#!lua flags=no-writes
-- What is known of one task.
-- KEYS: the nine of model.lua.
-- ARGV: 1 id · 2 retention, ms
-- Returns: state's letter · its time, ms · record · trail · lock · when the request to run it again
--   is due, ms, or -1 · what gate() tells; of an ended task: its letter · 0 · "" · why it failed,
--   in hex, or "" · what is remembered · -1; "" and split_of() for an id that is not known.
local id, retention = ARGV[1], tonumber(ARGV[2])

local record = call('HGET', TASKS, id)
if record then
  local place, at = place_of(id)
  local waiting = requests_of({ id }, numbers_of_meta('again')[1])[id]
  local again = waiting and due_of_request(waiting) or -1
  return { place, at, record, call('HGET', TRAIL, id) or '', call('HGET', LOCKS, id) or '', again, gate() }
end
local ended = remembered({ id }, retention, clock())[id]
return ended and { sub(ended, 1, 1), 0, '', note_of(id, ended), ended, -1 } or { '', split_of() }
