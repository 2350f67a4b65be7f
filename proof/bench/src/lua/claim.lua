#!lua
-- Takes the tasks that are due, and nothing else.
-- KEYS: 1 records, a hash · 2 due times, a sorted set · 3 ends of locks, a sorted set
-- ARGV: 1 now, ms · 2 most tasks to take · 3 end of the locks, ms
-- Returns: their ids · their messages.
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then
  return { {}, {} }
end
local locks = {}
for _, id in ipairs(ids) do
  locks[#locks + 1], locks[#locks + 2] = ARGV[3], id
end
redis.call('ZREM', KEYS[2], unpack(ids))
redis.call('ZADD', KEYS[3], unpack(locks))
return { ids, redis.call('HMGET', KEYS[1], unpack(ids)) }
