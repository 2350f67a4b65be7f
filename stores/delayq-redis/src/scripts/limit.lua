-- The fleet limits: the number of tasks that a claim may start. Inserted between model.lua and
-- claim.lua.
--
-- Concurrency counts the locks. If a claim leaves due tasks because no slot is free, it sets
-- meta.held_back, so that the settlement that frees one wakes all handlers. Rate is the generic
-- cell rate algorithm (ITU-T I.371, virtual scheduling), as in the RateLimiter of delayq-core: tat,
-- in meta, is the theoretical arrival time of the next start, microseconds. All products stay below
-- 2^53, so they are exact. meta.limited is 1 while the last claim had a limit: the type cannot be
-- sharded then. meta.fleet_concurrency and meta.fleet_rate are settings of the type: they override
-- the claimer's limits, except if the type has several shards.
local GATHER = 50000

-- The rate in meta.fleet_rate.
local function rate_of(setting)
  local starts, per, burst = match(setting, '^([1-9]%d*) ([1-9]%d*) ([1-9]%d*)$')
  if not starts then
    error({ err = 'DAMAGED ' .. META .. ' fleet_rate ' .. sub(setting, 1, 40) })
  end
  return { starts = tonumber(starts), per = tonumber(per), burst = tonumber(burst) }
end

-- No limit if `most` is nil.
local function free_slots(most)
  return most and math.max(0, most - check_zset(RUNNING)) or math.huge
end

-- `rate`: starts, per (microseconds), burst. A `tat` that is further ahead than any claim leaves it
-- is from another rate, or the clock was set back: then the burst counts as just used up.
local function pace_of(rate, tat, now)
  local furthest = now + math.ceil(rate.burst * rate.per / rate.starts)
  rate.now = now
  rate.tat = math.max(now, math.min(tat, furthest))
  if tat > furthest then
    call('HSET', META, 'tat', text(furthest))
  end
end

-- The number of starts that conform now.
local function starts_left(rate)
  return math.max(0, math.floor((rate.burst * rate.per - (rate.tat - rate.now) * rate.starts) / rate.per))
end

local function count_starts(rate, starts)
  rate.tat = rate.tat + math.ceil(starts * rate.per / rate.starts)
end

-- The time of the next claim if no start is left, ms: when there are a few, or every instance would
-- claim for each single one.
local function again_at(rate)
  local wanted = math.max(1, math.min(math.floor(rate.starts * GATHER / rate.per), math.floor(rate.burst / 2)))
  local at = rate.tat - math.floor((rate.burst - wanted) * rate.per / rate.starts)
  return math.min(math.ceil(at / 1000), LAST_MS)
end
