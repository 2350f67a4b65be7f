#!lua flags=allow-oom
-- Makes up to 128 locks of one type last longer, in one step, and marks them as those of a holder
-- that runs nothing else, or not. Only the present lock's fence counts.
-- KEYS: the ten of model.lua.
-- ARGV: 1 length of the locks from now, ms · 2 "?" to mark them, or "" · then for each: id, fence
-- Returns: the new end of the locks, ms · then for each 0 lock lost, 1 extended, 2 extended, cancel
--   requested.
local lock_for, mark = tonumber(ARGV[1]), ARGV[2]
local FIRST_LOCK = 3

local lock_until = math.min(clock() + lock_for, LAST_MS)
local ids = {}
for i = FIRST_LOCK, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end
local locks = call('HMGET', LOCKS, unpack(ids))
check_zset(RUNNING)

local reply, run, until_text, marked = { lock_until }, {}, text(lock_until), {}
for i, id in ipairs(ids) do
  local fence, lock = ARGV[FIRST_LOCK + 2 * i - 1], locks[i] or ''
  local outcome = 0
  if match(lock, '^%d+') == fence then
    outcome = sub(lock, -1) == '!' and 2 or 1
    run[#run + 1] = until_text
    run[#run + 1] = id
    local plain, cancel = match(lock, '^([^?!]*)%??(!?)$')
    if plain and plain .. mark .. cancel ~= lock then
      marked[#marked + 1] = id
      marked[#marked + 1] = plain .. mark .. cancel
    end
  end
  reply[#reply + 1] = outcome
end
if #run > 0 then
  call('ZADD', RUNNING, unpack(run))
end
if #marked > 0 then
  call('HSET', LOCKS, unpack(marked))
end
return reply
