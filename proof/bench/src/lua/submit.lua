#!lua
-- Stores tasks, and nothing else: the least that any delayed queue does.
-- KEYS: 1 records, a hash · 2 due times, a sorted set
-- ARGV: for each task: id, due ms, message
-- Returns: how many.
local records, due = {}, {}
for i = 1, #ARGV, 3 do
  records[#records + 1], records[#records + 2] = ARGV[i], ARGV[i + 2]
  due[#due + 1], due[#due + 2] = ARGV[i + 1], ARGV[i]
end
redis.call('HSET', KEYS[1], unpack(records))
redis.call('ZADD', KEYS[2], unpack(due))
return #ARGV / 3
