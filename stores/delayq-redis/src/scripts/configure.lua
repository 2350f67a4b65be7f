#!lua flags=allow-oom
-- Changes the settings of one type.
-- KEYS: the ten of model.lua.
-- ARGV: 1 max_pending · 2 fleet concurrency · 3 fleet rate: starts, their span in microseconds,
--   burst, separated by spaces · 4 history, see ends.lua; a maximum after "?" is only for a shard
--   without one. Each "-" for none and "" to keep it.
-- Returns: split_of(). The fleet limits are not set if it is not "".
check_hash(META)
local split, is_written = split_of(), false

-- Applies a setting. Returns true if the setting was removed.
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
local history = ARGV[4]
local kept, first_most = match(history, '^(%d+) %?(%d+)$')
if kept or history == '-' then
  local most = match(call('HGET', META, 'history') or '', ' (%d+)$')
  if kept then
    history = kept .. ' ' .. (most or call('HGET', META, 'history_most') or first_most)
  elseif most then
    -- The maximum outlives the setting.
    call('HSET', META, 'history_most', most)
  end
end
set('history', history)
if bare(split) == '' then
  local is_lifted = set('fleet_concurrency', ARGV[2])
  is_lifted = set('fleet_rate', ARGV[3]) or is_lifted
  -- The type may get shards from now on. If a worker has a limit of its own, its next claim refuses
  -- that.
  if is_lifted and call('HEXISTS', META, 'fleet_concurrency') + call('HEXISTS', META, 'fleet_rate') == 0 then
    is_written = call('HDEL', META, 'limited') == 1 or is_written
  end
end
if not is_written then
  touch()
end
return split
