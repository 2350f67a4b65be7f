#!lua flags=no-writes
-- Counts of one type.
-- KEYS: the nine of model.lua. ARGV: none.
-- Returns: now · scheduled · due · running · dead · first due, ms, or -1 · end of the pause, ms, or -1.
local now = clock()
local pause = tonumber(call('HGET', META, 'pause') or 0)
return {
  now,
  call('ZCARD', DUE),
  call('ZCOUNT', DUE, '-inf', now),
  call('ZCARD', RUNNING),
  call('ZCARD', DEAD),
  first(DUE) or -1,
  pause > now and pause or -1,
}
