#!lua flags=allow-oom
-- Creates a shard, once; it takes tasks from then on.
-- KEYS: the ten of model.lua.
-- ARGV: 1 number of shards created together · 2 end of the pause of the type, ms, or "" · 3
--   max_pending or "" · 4 history or ""
-- Returns: 1 if it was created now.
local count, pause, max_pending, history = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if call('HSETNX', META, 'split', count) == 0 then
  return 0
end
call('HSET', META, 'v', 1, 'born', 1)
if pause ~= '' then
  call('HSET', META, 'pause', pause)
end
if max_pending ~= '' then
  call('HSET', META, 'max_pending', max_pending)
end
if history ~= '' then
  call('HSET', META, 'history', history)
end
return 1
