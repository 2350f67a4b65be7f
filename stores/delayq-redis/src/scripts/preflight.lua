#!lua flags=no-writes
-- Checks that the user may run every command of this store: a refusal in the middle of an operation
-- would leave it half done. It takes no keys, so that any node of a cluster can answer.
-- KEYS: none.
-- ARGV: 1 a key of a type · 2 the set of types · 3.. further commands with their arguments,
--   separated by spaces
-- Returns: the commands that are refused, or that are unknown to the server.
local of_type, types = ARGV[1], ARGV[2]
local denied = {}

local function need(command, ...)
  local is_known, is_allowed = pcall(redis.acl_check_cmd, command, ...)
  if not (is_known and is_allowed) then
    denied[#denied + 1] = string.lower(command)
  end
end

need('TIME')
for _, command in ipairs({ 'TYPE', 'ZCARD', 'HLEN', 'UNLINK' }) do
  need(command, of_type)
end
for _, command in ipairs({ 'ZSCORE', 'ZREM', 'HGET', 'HMGET', 'HDEL', 'HEXISTS', 'HSCAN', 'ZSCAN', 'PEXPIRE',
  'RENAME' }) do
  need(command, of_type, of_type)
end
for _, command in ipairs({ 'ZCOUNT', 'ZRANGE', 'ZRANGEBYSCORE', 'ZADD', 'HSET', 'HSETNX' }) do
  need(command, of_type, 0, 0)
end
need('XLEN', of_type)
need('XDEL', of_type, '0-1')
need('XRANGE', of_type, '-', '+')
need('XADD', of_type, '*', 'a', 0)
for _, command in ipairs({ 'SADD', 'SISMEMBER', 'SSCAN' }) do
  need(command, types, 0)
end
for further = 3, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[further], '%S+') do
    words[#words + 1] = word
  end
  need(unpack(words))
end
return denied
