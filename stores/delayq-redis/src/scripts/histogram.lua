#!lua flags=no-writes
-- Counts the scheduled tasks due between each bound and the next.
-- KEYS: the ten of model.lua.
-- ARGV: bounds, ms, ascending
-- Returns: the counts, one fewer than bounds.
local counts = {}
for i = 1, #ARGV - 1 do
  counts[i] = call('ZCOUNT', DUE, ARGV[i], '(' .. ARGV[i + 1])
end
return counts
