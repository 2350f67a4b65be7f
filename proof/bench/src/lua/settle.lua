#!lua
-- Ends tasks that were taken, and nothing else.
-- KEYS: 1 records, a hash · 2 ends of locks, a sorted set
-- ARGV: ids
-- Returns: how many.
redis.call('ZREM', KEYS[2], unpack(ARGV))
return redis.call('HDEL', KEYS[1], unpack(ARGV))
