#!lua flags=allow-oom
-- Changes the shard map of a type if it is still as it was read.
-- KEYS: 1 hash, type -> shard map
-- ARGV: 1 type · 2 its shard map as it was read, "" for none · 3 the new one
-- Returns: 1 if it was changed.
local layouts, name, before, after = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if (redis.call('HGET', layouts, name) or '') ~= before then
  return 0
end
redis.call('HSET', layouts, name, after)
return 1
