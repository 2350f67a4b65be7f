#!lua flags=no-writes
-- Checks that the server lets scripts use keys which follow from stored data, and the user run the
-- commands of packed tasks.
-- KEYS: 1 any key.
-- ARGV: none.
-- Returns: the commands that are refused.
local denied = {}
redis.call('LLEN', KEYS[1] .. ':far')

local function need(command, ...)
  local is_known, is_allowed = pcall(redis.acl_check_cmd, command, ...)
  if not (is_known and is_allowed) then
    denied[#denied + 1] = string.lower(command)
  end
end

local key = KEYS[1] .. ':far'
for _, command in ipairs({ 'LINDEX', 'LPOS', 'RPUSH' }) do
  need(command, key, 0)
end
for _, command in ipairs({ 'LSET', 'LREM', 'LRANGE' }) do
  need(command, key, 0, 0)
end
return denied
