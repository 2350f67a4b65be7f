-- The facts that let due tasks of the type start, or hold them back, for the answers of queries:
-- present time · end of the pause, ms, or -1 · fleet concurrency by the settings, or -1 · fleet
-- rate by the settings, or "" · the rate's tat, see limit.lua · 1 if a claim found no free slot ·
-- number of running tasks.
local function gate()
  local now = clock()
  local meta = numbers_of_meta('pause', 'fleet_concurrency', 'tat', 'held_back')
  local pause = meta[1] or 0
  return now, pause > now and pause or -1, meta[2] or -1, call('HGET', META, 'fleet_rate') or '', meta[3] or 0,
    meta[4] and 1 or 0, call('ZCARD', RUNNING)
end

