#!lua flags=no-writes
-- The records of ends that wait.
-- KEYS: the ten of model.lua.
-- ARGV: none.
-- Returns: their number · the end of the oldest, ms, or -1 · their size in bytes · the number
--   dropped because of the maximum · the maximum, or 0 if nothing is recorded any more.
local oldest = call('XRANGE', ENDS, '-', '+', 'COUNT', 1)[1]
local ended = oldest and match(oldest[2][2], '^%a(%d+) ')
local meta = call('HMGET', META, 'ends_bytes', 'ends_lost', 'history')
local most = tonumber(match(meta[3] or '', ' (%d+)$') or 0)
return { call('XLEN', ENDS), tonumber(ended or -1), tonumber(meta[1] or 0) or 0, tonumber(meta[2] or 0) or 0, most }
