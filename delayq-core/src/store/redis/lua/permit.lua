#!lua flags=allow-oom
-- Grants an instance places and starts of the limits of a type that is split: no script can count what lies in several
-- slots. Each statement says all that the instance holds, so that one whose answer was lost does no harm.
-- KEYS: 1 zset  instance -> until when it has its places, ms · 2 hash  instance -> "<number of its last statement>
--   <places>"; tat, see limit.lua; waiting: somebody had to go without a place
-- ARGV: 1 instance · 2 number of this statement · 3 places it holds · 4 tasks it wants to start · 5 places that others
--   hold without a word here · 6 how long it has its places, ms · 7 most tasks that run in the fleet, or "" · 8 starts of the fleet's
--   rate, or "" · 9 their span, microseconds · 10 its burst · 11 starts that it gives back · 12 when they were granted, as was returned ·
--   13 for how long the rate is used up elsewhere, microseconds · 14 1 in a cluster, else 0 · 15 wake channel · 16 wake message
-- Returns: starts granted · whether there is a place again for which somebody waited · how long until it is worth to ask again,
--   microseconds: 0 where places were granted; -1 if nobody knows, as somebody will tell · the time, microseconds, or 0
--   if a later statement has overtaken this one, which then changed nothing.
local UNTIL, PLACES = KEYS[1], KEYS[2]
local me, number = ARGV[1], tonumber(ARGV[2])
local held, want, unstated = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local keep, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local rate = ARGV[8] ~= '' and { starts = tonumber(ARGV[8]), per = tonumber(ARGV[9]), burst = tonumber(ARGV[10]) }
local back, granted_at, ahead = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local is_in_cluster, channel, message = ARGV[14] == '1', ARGV[15], ARGV[16]
-- So long a number is known of an instance that holds nothing: a call takes no longer.
local NUMBER_MS, SPARE_MS, AT_ONCE = 60000, 60000, 1000

local now, _, past = clock()
local now_us = now * 1000 + past
check_zset(UNTIL)
local known = call('HMGET', PLACES, me, 'waiting', 'tat')
local last, before = match(known[1] or '', '^(%d+) (%d+)$')
if tonumber(last or 0) >= number then
  return { 0, 0, 0, 0 }
end

local gone = call('ZRANGEBYSCORE', UNTIL, '-inf', text(now), 'LIMIT', 0, AT_ONCE)
local present = call('ZRANGEBYSCORE', UNTIL, '(' .. text(now), '+inf', 'WITHSCORES')
local of_others, soonest = unstated, nil
local latest = math.max(now + keep, now + NUMBER_MS, math.ceil(tonumber(known[3] or 0) / 1000))
-- As many as there are instances.
for from = 1, #present, 2 * AT_ONCE do
  local upto = math.min(#present, from + 2 * AT_ONCE - 1)
  local ids = {}
  for i = from, upto, 2 do
    ids[#ids + 1] = present[i]
  end
  for i, value in ipairs(call('HMGET', PLACES, unpack(ids))) do
    local places, ends = tonumber(match(value or '', ' (%d+)$') or 0), tonumber(present[from + 2 * i - 1])
    latest = math.max(latest, ends)
    if ids[i] ~= me and places > 0 then
      of_others, soonest = of_others + places, math.min(soonest or ends, ends)
    end
  end
end

local free = most and math.max(0, most - of_others - held) or math.huge
local granted = math.min(want, free)
if rate then
  local whole = math.ceil(rate.burst * rate.per / rate.starts)
  pace_of(PLACES, rate, now_us)
  rate.tat = math.max(rate.tat, now_us + math.min(ahead, whole))
  -- What a grant took from the rate has come back by itself meanwhile, or a part of it.
  local taken = math.floor(back * rate.per / rate.starts) - math.max(0, now_us - granted_at)
  rate.tat = math.max(now_us, rate.tat - math.max(0, taken))
  granted = math.min(granted, starts_left(rate))
  count_starts(rate, granted)
  latest = math.max(latest, math.ceil(rate.tat / 1000))
end

local is_free = known[2] and (#gone > 0 or held + granted < tonumber(before or 0))
if is_free then
  publish(channel, message, is_in_cluster)
end
if #gone > 0 then
  call('ZREM', UNTIL, unpack(gone))
  call('HDEL', PLACES, unpack(gone))
end
if most then
  call('ZADD', UNTIL, text(now + (held + granted > 0 and keep or NUMBER_MS)), me)
  call('HSET', PLACES, me, text(number) .. ' ' .. text(held + granted))
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
  again = math.max(0, again_at(rate) * 1000 - now_us)
elseif granted < want and granted == 0 then
  again = soonest and (soonest - now) * 1000 or -1
end
return { granted, is_free and 1 or 0, again, now_us }
