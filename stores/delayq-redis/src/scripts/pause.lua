#!lua flags=allow-oom
-- Pauses claims until a time, or ends a pause.
-- KEYS: the ten of model.lua.
-- ARGV: 1 end of the pause, ms; 0: no pause · 2 wake channel · 3 wake message
-- Returns: 1 if a pause became shorter · split_of().
local pause_until, channel, message = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local now = clock()
check_all()
local before = numbers_of_meta('pause')[1] or 0
local is_shorter = before > now and pause_until < before
if is_shorter then
  publish(channel, message)
end
if pause_until > now then
  call('HSET', META, 'pause', text(pause_until))
elseif call('HDEL', META, 'pause') == 0 then
  touch()
end
return { is_shorter and 1 or 0, split_of() }
