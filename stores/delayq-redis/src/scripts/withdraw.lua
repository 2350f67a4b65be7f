#!lua flags=allow-oom
-- Removes an instance that is about to end from the list.
-- KEYS: as of announce.lua
-- ARGV: 1 id
-- Returns: nothing.
local INSTANCES, EXPIRY = KEYS[1], KEYS[2]

check_hash(INSTANCES)
call('ZREM', EXPIRY, ARGV[1])
call('HDEL', INSTANCES, ARGV[1])
return {}
