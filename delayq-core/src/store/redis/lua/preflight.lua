#!lua flags=no-writes
-- Asks whether the user may run every command that this store runs: a refusal in the middle of an edge
-- would leave it half done.
-- KEYS: the nine of model.lua.
-- ARGV: 1 wake channel
-- Returns: the commands that are refused.
local channel = ARGV[1]
local denied = {}

local function need(command, ...)
  if not redis.acl_check_cmd(command, ...) then
    denied[#denied + 1] = string.lower(command)
  end
end

need('TIME')
need('PUBLISH', channel, '')
for _, command in ipairs({ 'TYPE', 'ZCARD', 'HLEN', 'UNLINK' }) do
  need(command, TASKS)
end
for _, command in ipairs({ 'ZSCORE', 'ZREM', 'HGET', 'HMGET', 'HDEL', 'HEXISTS', 'HSCAN', 'ZSCAN', 'SSCAN',
  'SADD', 'SISMEMBER', 'PEXPIRE', 'RENAME' }) do
  need(command, TASKS, TASKS)
end
for _, command in ipairs({ 'ZCOUNT', 'ZREMRANGEBYRANK', 'ZRANGE', 'ZRANGEBYSCORE', 'ZADD', 'HSET', 'HSETNX' }) do
  need(command, TASKS, 0, 0)
end
return denied
