#!lua flags=allow-oom
-- Removes everything about a type that has no tasks and was never sharded, except its largest
-- fence, and the records of its ends with their setting. A later submit finds the type unknown.
-- KEYS: the ten of model.lua · 11 the figures of the type.
-- ARGV: none.
-- Returns: scheduled · running · dead tasks; the type is removed if there are none · split_of();
--   the type is not removed if that is not "".
check_all()
local meta = numbers_of_meta('fence', 'again')
local fence, requests = meta[1], meta[2] or 0
local running, dead, split = check_zset(RUNNING), check_zset(DEAD), split_of()
-- A task in no index counts as scheduled, and so does a request to run again.
local scheduled = math.max(check_zset(DUE), check_hash(TASKS) - running - dead) + requests
local far = far_of()
scheduled = scheduled + (far and far.count() or 0)
if bare(split) ~= '' or scheduled + running + dead > 0 then
  return { scheduled, running, dead, split }
end
if far then
  far.drop()
end
local kept = {}
for _, field in ipairs({ 'history', 'history_most', 'ends_bytes', 'ends_lost' }) do
  local value = call('HGET', META, field)
  if value then
    kept[#kept + 1] = field
    kept[#kept + 1] = value
  end
end
call('UNLINK', LOCKS, TRAIL, META, GONE, GONE_OLD, KEYS[11])
if fence then
  call('HSET', META, 'fence', text(fence))
else
  touch()
end
if #kept > 0 then
  call('HSET', META, unpack(kept))
end
return { 0, 0, 0, split }
