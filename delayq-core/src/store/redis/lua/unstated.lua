#!lua flags=allow-oom
-- What a partition that was the only one of its type has left of limits that its claims kept by themselves.
-- KEYS: the nine of model.lua.
-- ARGV: 1 most locks to count · 2 starts of the rate, or "" · 3 its span, microseconds · 4 its burst
-- Returns: the locks that are older than its seal, and have not expired: whoever settles one tells all · for how long
--   the rate is used up, microseconds
local most = tonumber(ARGV[1])
local rate = ARGV[2] ~= '' and { starts = tonumber(ARGV[2]), per = tonumber(ARGV[3]), burst = tonumber(ARGV[4]) }
local AT_ONCE = 1000

-- Not sealed yet, as far as it knows: any lock may be such a one.
local sealed_at = tonumber(call('HGET', META, 'sealed_at') or math.huge)
local now, _, past = clock()
local count, from = 0, 0
while count < most do
  local ids = call('ZRANGEBYSCORE', RUNNING, '(' .. text(now), '+inf', 'LIMIT', from, AT_ONCE)
  if #ids == 0 then
    break
  end
  for _, lock in ipairs(call('HMGET', LOCKS, unpack(ids))) do
    local fence = lock and tonumber(match(lock, '^%d+'))
    count = count + (fence and fence <= sealed_at and 1 or 0)
  end
  from = from + AT_ONCE
end
if count > 0 then
  call('HSET', META, 'held_back', 1)
end
if rate then
  pace_of(META, rate, now * 1000 + past)
end
-- Also to a claim without a rate: the next one may have one.
local tat = tonumber(call('HGET', META, 'tat') or 0)
return { math.min(count, most), math.max(0, tat - now * 1000 - past) }
