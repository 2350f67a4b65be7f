#!lua flags=no-writes
-- Returns one page of the tasks in one state, by time and id.
-- KEYS: the ten of model.lua.
-- ARGV: 1 state: s scheduled, r running, k dead · 2 maximum number of tasks · 3 after this
--   time, ms, or "" · 4 and this id
-- Returns: 1 if there are more · the result of gate() · then for each: id · time, ms · record or ""
--   · trail or "" · lock or "" · when the request to run it again is due, ms, or -1.
local state, limit, after_at, after_id = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- A page ends early at this size, so that large messages do not block all others.
local MAX_BYTES = 4194304

local zset = state == 's' and DUE or state == 'r' and RUNNING or DEAD
local from = after_at ~= '' and rank_after(zset, after_at, after_id) or 0
local page = call('ZRANGE', zset, from, from + limit, 'WITHSCORES')
local reply, bytes = { 0, gate() }, 0
local requests = numbers_of_meta('again')[1]
for i = 1, #page, 2 do
  if i > 2 * limit or bytes > MAX_BYTES then
    reply[1] = 1
    break
  end
  local id = page[i]
  local record = call('HGET', TASKS, id) or ''
  bytes = bytes + #record
  reply[#reply + 1] = id
  reply[#reply + 1] = tonumber(page[i + 1])
  reply[#reply + 1] = record
  reply[#reply + 1] = call('HGET', TRAIL, id) or ''
  reply[#reply + 1] = call('HGET', LOCKS, id) or ''
  local waiting = requests_of({ id }, requests)[id]
  bytes = bytes + #(waiting or '')
  reply[#reply + 1] = waiting and due_of_request(waiting) or -1
end
return reply
