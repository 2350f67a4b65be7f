-- What lets due tasks of the type start, or holds them, for the answers of queries: now · end of
-- the pause, ms, or -1 · most that run in the fleet, by the settings, or -1 · the fleet's rate by
-- them, or "" · the rate's tat, see limit.lua · 1 if a claim found no free slot · how many run.
local function gate()
  local now = clock()
  local meta = numbers_of_meta('pause', 'fleet_concurrency', 'tat', 'held_back')
  local pause = meta[1] or 0
  return now, pause > now and pause or -1, meta[2] or -1, call('HGET', META, 'fleet_rate') or '', meta[3] or 0,
    meta[4] and 1 or 0, call('ZCARD', RUNNING)
end

