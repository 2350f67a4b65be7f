#!lua flags=no-writes
-- How many scheduled tasks are due between each bound and the next.
-- KEYS: the nine of model.lua.
-- ARGV: bounds, ms, ascending
-- Returns: one count less than bounds.
local counts = {}
for i = 1, #ARGV - 1 do
  counts[i] = call('ZCOUNT', DUE, ARGV[i], '(' .. ARGV[i + 1])
end
return counts
