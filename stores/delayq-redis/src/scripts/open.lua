#!lua flags=allow-oom
-- Creates a shard, once; it takes tasks from then on.
-- KEYS: the ten of model.lua.
-- ARGV: 1 number of shards created together · 2 end of the pause of the type, ms, or "" · 3
--   max_pending or "" · 4 history or "" · 5 history_most or "" · 6 1 if the type began under a
--   release that knows packed tasks, else ""
-- Returns: 1 if it was created now.
local count, settings = ARGV[1], { pause = ARGV[2], max_pending = ARGV[3], history = ARGV[4],
  history_most = ARGV[5], born = ARGV[6] }

if call('HSETNX', META, 'split', count) == 0 then
  return 0
end
call('HSET', META, 'v', 1)
for field, value in pairs(settings) do
  if value ~= '' then
    call('HSET', META, field, value)
  end
end
return 1
