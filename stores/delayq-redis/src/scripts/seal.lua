#!lua flags=allow-oom
-- Seals a shard: from now on it takes no id that it does not know, and drains.
-- KEYS: the ten of model.lua.
-- ARGV: 1 the shard map that seals it, from which a registry that has lost its last changes is
--   restored
-- Returns: end of the pause, ms, or "" · max_pending or "" · history or "" · history_most or "" · 1
--   if it began under a release that knows packed tasks, else "" · 1 if it has never had a task, as
--   far as it knows, and so never will.
local layout = ARGV[1]

local meta = numbers_of_meta('pause', 'max_pending', 'fence')
call('HSETNX', META, 'sealed_at', text(meta[3] or 0))
local kept = call('HMGET', META, 'history', 'history_most', 'born', 'v')
call('HSET', META, 'v', 1, 'split', '-', 'next', layout)
local is_empty = not far_of() and not meta[3] and call('HLEN', TASKS) + call('HLEN', GONE) + call('HLEN', GONE_OLD) == 0
  and call('XLEN', KEYS[10]) == 0
return { meta[1] and text(meta[1]) or '', meta[2] and text(meta[2]) or '', kept[1] or '', kept[2] or '',
  (kept[3] or not kept[4]) and '1' or '', is_empty and 1 or 0 }
