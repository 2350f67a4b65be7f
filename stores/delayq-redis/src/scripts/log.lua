#!lua flags=allow-oom
-- Adds an operator's action to the log, and forgets the oldest beyond the bound.
-- KEYS: 1 list of "<number> <logged, ms> <action>", the latest first
-- ARGV: 1 the action · 2 most actions
-- Returns: nothing.
local action, most = ARGV[1], tonumber(ARGV[2])

local number = text(last_number() + 1)
-- First: a user that may not do so has then added nothing.
call('LTRIM', ACTIONS, 0, most - 2)
call('LPUSH', ACTIONS, number .. ' ' .. text(clock()) .. ' ' .. action)
return {}
