#!lua flags=no-writes
-- Counts of one type.
-- KEYS: the nine of model.lua.
-- ARGV: none.
-- Returns: now · scheduled · due · running · dead · first due, ms, or -1 · end of the pause, ms, or
--   -1 · most scheduled tasks, if new ones are taken, or -1 · tasks refused for that · most that
--   run in the fleet, by the settings, or -1 · the fleet's rate by them, or "" · split, as
--   split_of() tells.
local now = clock()
local meta, split = numbers_of_meta('pause', 'max_pending', 'refused', 'fleet_concurrency'), split_of()
local pause = meta[1] or 0
return {
  now,
  call('ZCARD', DUE),
  call('ZCOUNT', DUE, '-inf', now),
  call('ZCARD', RUNNING),
  call('ZCARD', DEAD),
  first(DUE) or -1,
  pause > now and pause or -1,
  split ~= '-' and meta[2] or -1,
  meta[3] or 0,
  meta[4] or -1,
  call('HGET', META, 'fleet_rate') or '',
  split,
}
