#!lua flags=allow-oom
-- Checks some entries of one key other than the records: each must belong to a record, or to an
-- ended task.
-- KEYS: the ten of model.lua.
-- ARGV: 1 which key: 1 due, 2 running, 3 locks, 4 dead, 6 trail, 7 meta (requests to run again), 8
--   gone, 9 gone_old · 2 cursor · 3 "1" to mend
-- Returns: the next cursor, 0 at the end · then the ids of bad entries
local which, cursor, mends = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local AT_ONCE = 128

local now = clock()
check_all()
local key = KEYS[which]
local is_zset = key == DUE or key == RUNNING or key == DEAD
local remembers = key == GONE or key == GONE_OLD
local scan = call(is_zset and 'ZSCAN' or 'HSCAN', key, cursor, 'COUNT', AT_ONCE)
local reply = { scan[1] }
for i = 1, #scan[2], 2 do
  local id, value = scan[2][i], scan[2][i + 1]
  local is_good
  if key == META then
    id = left_alone(id)
    is_good = id == nil
  elseif remembers then
    is_good = find(value, '^[dce]%d+ %d+ %d+ %x+$')
  else
    is_good = call('HEXISTS', TASKS, id) == 1
  end
  if not is_good then
    reply[#reply + 1] = id
    if mends and key == META then
      adopt(id, value, now)
    elseif mends then
      call(is_zset and 'ZREM' or 'HDEL', key, id)
    end
  end
end
return reply
