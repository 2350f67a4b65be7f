#!lua flags=allow-oom
-- Changes the settings of one type.
-- KEYS: the nine of model.lua.
-- ARGV: 1 most scheduled tasks · 2 most that run in the fleet · 3 the fleet's rate: starts, their
--   span in microseconds, burst, between blanks. Each "-" for none and "" to stay as it is.
-- Returns: split_of(). The limits of the fleet are not set where it is not "".
check_hash(META)
local split, is_written = split_of(), false

local function set(field, value)
  if value == '-' then
    is_written = call('HDEL', META, field) == 1 or is_written
  elseif value ~= '' then
    call('HSET', META, field, value)
    is_written = true
  end
end

set('max_pending', ARGV[1])
if split == '' then
  set('fleet_concurrency', ARGV[2])
  set('fleet_rate', ARGV[3])
end
if not is_written then
  touch()
end
return split
