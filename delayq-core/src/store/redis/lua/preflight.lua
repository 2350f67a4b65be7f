#!lua flags=no-writes
-- Asks whether the user may run every command that this store runs: a refusal in the middle of an edge
-- would leave it half done.
-- KEYS: none, so that any node of a cluster answers.
-- ARGV: 1 PUBLISH or SPUBLISH · 2 wake channel · 3 key of a partition
-- Returns: the commands that are refused.
local publish, channel, key = ARGV[1], ARGV[2], ARGV[3]
local denied = {}

local function need(command, ...)
  if not redis.acl_check_cmd(command, ...) then
    denied[#denied + 1] = string.lower(command)
  end
end

need('TIME')
need(publish, channel, '')
for _, command in ipairs({ 'TYPE', 'ZCARD', 'HLEN', 'UNLINK' }) do
  need(command, key)
end
for _, command in ipairs({ 'ZSCORE', 'ZREM', 'HGET', 'HMGET', 'HDEL', 'HEXISTS', 'HSCAN', 'ZSCAN', 'SSCAN',
  'SADD', 'SISMEMBER', 'PEXPIRE', 'RENAME' }) do
  need(command, key, key)
end
for _, command in ipairs({ 'ZCOUNT', 'ZREMRANGEBYRANK', 'ZRANGE', 'ZRANGEBYSCORE', 'ZADD', 'HSET', 'HSETNX' }) do
  need(command, key, 0, 0)
end
return denied
