#!lua flags=allow-oom
-- Makes a shard, once; it takes tasks from then on.
-- KEYS: the nine of model.lua.
-- ARGV: 1 how many shards are made together · 2 end of the pause of the type, ms, or "" · 3 most
--   scheduled tasks or ""
-- Returns: whether it was made now.
local count, pause, max_pending = ARGV[1], ARGV[2], ARGV[3]

if call('HSETNX', META, 'split', count) == 0 then
  return 0
end
call('HSET', META, 'v', 1)
if pause ~= '' then
  call('HSET', META, 'pause', pause)
end
if max_pending ~= '' then
  call('HSET', META, 'max_pending', max_pending)
end
return 1
