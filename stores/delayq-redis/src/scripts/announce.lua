#!lua flags=allow-oom
-- Lists an instance, and forgets up to 100 that have been silent for too long.
-- KEYS: 1 hash id -> "<last seen, ms> <its announcement>" · 2 zset id -> when it counts as gone, ms
-- ARGV: 1 id · 2 its announcement · 3 how long that is valid, ms
-- Returns: nothing.
local INSTANCES, EXPIRY = KEYS[1], KEYS[2]
local id, info, holds = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now = clock()
check_hash(INSTANCES)
local gone = call('ZRANGEBYSCORE', EXPIRY, '-inf', text(now), 'LIMIT', 0, 100)
if #gone > 0 then
  call('ZREM', EXPIRY, unpack(gone))
  call('HDEL', INSTANCES, unpack(gone))
end
call('ZADD', EXPIRY, text(now + holds), id)
call('HSET', INSTANCES, id, text(now) .. ' ' .. info)
return {}
