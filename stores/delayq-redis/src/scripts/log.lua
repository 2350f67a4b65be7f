#!lua flags=allow-oom
-- Adds an operator's action to the log, and forgets the oldest beyond the limit.
-- KEYS: 1 list of "<number> <logged, ms> <action>", latest first
-- ARGV: 1 the action · 2 maximum number of actions
-- Returns: nothing.
local action, most = ARGV[1], tonumber(ARGV[2])

local number = text(last_number() + 1)
-- Trims first: without the right to do so, the script fails before it has added anything.
call('LTRIM', ACTIONS, 0, most - 2)
call('LPUSH', ACTIONS, number .. ' ' .. text(clock()) .. ' ' .. action)
return {}
