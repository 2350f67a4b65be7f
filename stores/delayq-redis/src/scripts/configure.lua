#!lua flags=allow-oom
-- Changes the settings of one type.
-- KEYS: the nine of model.lua.
-- ARGV: 1 most scheduled tasks · 2 most that run in the fleet · 3 the fleet's rate: starts, their
--   span in microseconds, burst, between blanks. Each "-" for none and "" to stay as it is.
-- Returns: split_of(). The limits of the fleet are not set where it is not "".
check_hash(META)
local split, is_written = split_of(), false

-- Whether it took the setting away.
local function set(field, value)
  local is_lifted = value == '-' and call('HDEL', META, field) == 1
  if value ~= '' and value ~= '-' then
    call('HSET', META, field, value)
    is_written = true
  end
  is_written = is_written or is_lifted
  return is_lifted
end

set('max_pending', ARGV[1])
if split == '' then
  local is_lifted = set('fleet_concurrency', ARGV[2])
  is_lifted = set('fleet_rate', ARGV[3]) or is_lifted
  -- The type may get shards from now on. A worker with a limit of its own refuses that by its next
  -- claim.
  if is_lifted and call('HEXISTS', META, 'fleet_concurrency') + call('HEXISTS', META, 'fleet_rate') == 0 then
    is_written = call('HDEL', META, 'limited') == 1 or is_written
  end
end
if not is_written then
  touch()
end
return split
