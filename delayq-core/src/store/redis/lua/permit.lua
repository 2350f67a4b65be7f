#!lua flags=allow-oom
-- Grants an instance places and starts of the limits of a type that is split: no script can count what lies in several
-- slots. Each statement says all that the instance holds, so that one whose answer was lost does no harm.
-- KEYS: 1 zset  instance -> until when it has its places, ms · 2 hash  instance -> "<number of its last statement>
--   <places>"; tat, see limit.lua; waiting: somebody had to go without a place
-- ARGV: 1 instance · 2 number of this statement · 3 places it holds · 4 tasks it wants to start · 5 places that others
--   hold without a word here · 6 how long it has its places, ms · 7 most tasks that run in the fleet, or "" · 8 starts of the fleet's
--   rate, or "" · 9 their span, microseconds · 10 its burst · 11 starts that it gives back · 12 for how long the rate is used up
--   elsewhere, microseconds · 13 1 in a cluster, else 0 · 14 wake channel · 15 wake message
-- Returns: starts granted · whether there is a place again for which somebody waited · how long until it is worth to ask again,
--   microseconds: 0 where places were granted; -1 if nobody knows, as somebody will tell.
local UNTIL, PLACES = KEYS[1], KEYS[2]
local me, number = ARGV[1], tonumber(ARGV[2])
local held, want, unstated = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local keep, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local rate = ARGV[8] ~= '' and { starts = tonumber(ARGV[8]), per = tonumber(ARGV[9]), burst = tonumber(ARGV[10]) }
local back, ahead = tonumber(ARGV[11]), tonumber(ARGV[12])
local is_in_cluster, channel, message = ARGV[13] == '1', ARGV[14], ARGV[15]
local AT_ONCE, SPARE_MS = 1000, 60000

local now, _, past = clock()
check_zset(UNTIL)
local known = call('HMGET', PLACES, me, 'waiting')
if tonumber(match(known[1] or '', '^%d+') or 0) >= number then
  -- A later one has overtaken it.
  return { 0, 0, 0 }
end

-- No more of them than there are places.
local of_others, soonest, latest = unstated, nil, now + keep
local gone = call('ZRANGEBYSCORE', UNTIL, '-inf', text(now), 'LIMIT', 0, AT_ONCE)
local present = call('ZRANGEBYSCORE', UNTIL, '(' .. text(now), '+inf', 'WITHSCORES')
local ids = {}
for i = 1, #present, 2 do
  if present[i] ~= me then
    local ends = tonumber(present[i + 1])
    ids[#ids + 1] = present[i]
    soonest, latest = math.min(soonest or ends, ends), math.max(latest, ends)
  end
end
for from = 1, #ids, AT_ONCE do
  for _, value in ipairs(call('HMGET', PLACES, unpack(ids, from, math.min(#ids, from + AT_ONCE - 1)))) do
    of_others = of_others + tonumber(match(value or '', ' (%d+)$') or 0)
  end
end

local free = most and math.max(0, most - of_others - held) or math.huge
local granted = math.min(want, free)
if rate then
  local now_us = now * 1000 + past
  pace_of(PLACES, rate, now_us)
  rate.tat = math.max(now_us, now_us + ahead, rate.tat - math.floor(back * rate.per / rate.starts))
  granted = math.min(granted, starts_left(rate))
  count_starts(rate, granted)
  latest = math.max(latest, math.ceil(rate.tat / 1000))
end

local is_free = known[2] and free > granted
if is_free then
  publish(channel, message, is_in_cluster)
end
if #gone > 0 then
  call('ZREM', UNTIL, unpack(gone))
  call('HDEL', PLACES, unpack(gone))
end
if most and held + granted > 0 then
  call('ZADD', UNTIL, text(now + keep), me)
  call('HSET', PLACES, me, text(number) .. ' ' .. text(held + granted))
else
  call('ZREM', UNTIL, me)
  call('HDEL', PLACES, me)
end
if rate then
  call('HSET', PLACES, 'tat', text(rate.tat))
end
if want > 0 and free == 0 then
  call('HSET', PLACES, 'waiting', 1)
elseif is_free then
  call('HDEL', PLACES, 'waiting')
end
-- What is left by then says nothing any more.
for _, key in ipairs(KEYS) do
  call('PEXPIRE', key, text(latest - now + SPARE_MS))
end

local again = 0
if granted < want and granted < free then
  again = math.max(0, again_at(rate) * 1000 - now * 1000 - past)
elseif granted < want and granted == 0 then
  again = soonest and (soonest - now) * 1000 or -1
end
return { granted, is_free and 1 or 0, again }
