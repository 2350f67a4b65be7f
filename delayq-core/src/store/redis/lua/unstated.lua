#!lua flags=no-writes
-- What a partition that was the only one of its type has left of limits that its claims kept by themselves.
-- KEYS: the nine of model.lua.
-- ARGV: 1 most locks to count
-- Returns: the locks that are older than its seal · for how long the rate is used up, microseconds
local most = tonumber(ARGV[1])
local AT_ONCE = 1000

local meta = call('HMGET', META, 'sealed_at', 'tat')
-- Not sealed yet, as far as it knows: any lock may be such a one.
local sealed_at = tonumber(meta[1] or math.huge)
local count, from = 0, 0
while count < most do
  local ids = call('ZRANGE', RUNNING, from, from + AT_ONCE - 1)
  if #ids == 0 then
    break
  end
  for _, lock in ipairs(call('HMGET', LOCKS, unpack(ids))) do
    local fence = lock and tonumber(match(lock, '^%d+'))
    count = count + (fence and fence <= sealed_at and 1 or 0)
  end
  from = from + AT_ONCE
end
local now, _, past = clock()
return { math.min(count, most), math.max(0, tonumber(meta[2] or 0) - now * 1000 - past) }
