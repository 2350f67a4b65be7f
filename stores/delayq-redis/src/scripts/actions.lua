#!lua flags=no-writes
-- Reads actions, the latest first.
-- KEYS: as of log.lua
-- ARGV: 1 only those with a smaller number than this; "" for all · 2 most, not 0
-- Returns: the number of the first one, and each as it is stored.
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
