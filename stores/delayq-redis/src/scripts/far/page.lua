#!lua flags=no-writes
-- Looks at some packed tasks for a page of the scheduled ones, by time and id.
-- KEYS: the ten of model.lua.
-- ARGV: 1 maximum number of tasks · 2 after this time, ms, or "" · 3 and this id · 4 before this
--   time, ms, or "" · 5 and this id · 6, 7, 8 the place, see walk.lua
-- Returns: the next place (three) · the result of gate() · then for each, in no order: id · time,
--   ms · record.
local limit, after_at, after_id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local before_at, before_id = tonumber(ARGV[4]), ARGV[5]
local AT_ONCE = 16

local found = {}

local function sorts_before(one, other)
  if one.due ~= other.due then
    return one.due < other.due
  end
  return is_before(one.id, other.id)
end

local after = after_at and { due = after_at, id = after_id }
local before = before_at and { due = before_at, id = before_id }
local function see(id, record, due)
  local task = { id = id, due = due, record = record }
  if (not after or sorts_before(after, task)) and (not before or sorts_before(task, before)) then
    found[#found + 1] = task
  end
end

local kind, at, chunk = walk(ARGV[6], ARGV[7], ARGV[8], { from = after_at or 0, to = before_at or LAST_MS, most = AT_ONCE },
  function(number, first_due)
    each_of(number, first_due, see)
    return 1
  end)
table.sort(found, sorts_before)
local reply = { kind, at, chunk, gate() }
for i = 1, math.min(#found, limit) do
  reply[#reply + 1] = found[i].id
  reply[#reply + 1] = found[i].due
  reply[#reply + 1] = found[i].record
end
return reply
