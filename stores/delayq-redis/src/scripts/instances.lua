#!lua flags=no-writes
-- Lists the running instances.
-- KEYS: as of announce.lua
-- ARGV: 1 maximum number of instances
-- Returns: for each: id, when it was last seen, ms, and its announcement.
local INSTANCES, EXPIRY = KEYS[1], KEYS[2]

local ids = call('ZRANGEBYSCORE', EXPIRY, '(' .. text(clock()), '+inf', 'LIMIT', 0, ARGV[1])
local reply = {}
if #ids == 0 then
  return reply
end
for i, value in ipairs(call('HMGET', INSTANCES, unpack(ids))) do
  local seen, info = match(value or '', '^(%d+) (.*)$')
  if seen then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = ids[i], seen, info
  end
end
return reply
