#!lua flags=no-writes
-- Reads actions, latest first.
-- KEYS: as of log.lua
-- ARGV: 1 only actions with a smaller number than this; "" for all · 2 maximum count, not 0
-- Returns: the number of the first one, and each in its stored format.
local before, most = tonumber(ARGV[1]), tonumber(ARGV[2])

local number, first = last_number(), 0
if before then
  first = math.max(0, number - before + 1)
end
local reply = { text(number - first) }
for i, action in ipairs(call('LRANGE', ACTIONS, text(first), text(first + most - 1))) do
  reply[i + 1] = action
end
return reply
