#!lua flags=allow-oom
-- Checks some tasks: each must be in one index, have a lock if and only if it is running, and a
-- readable trail.
-- KEYS: the ten of model.lua.
-- ARGV: 1 cursor · 2 "1" to mend
-- Returns: the next cursor, 0 at the end · then for each task checked: id · the letter of its
--   state, as found or as mended · record · letters of the problems: n in no index, i in several, l
--   runs without a lock, s has a lock without running, t unreadable trail, f fence above the
--   largest issued
local cursor, mends = ARGV[1], ARGV[2] == '1'
local AT_ONCE = 64

local now = clock()
check_all()
local largest = numbers_of_meta('fence')[1] or 0
local scan = call('HSCAN', TASKS, cursor, 'COUNT', AT_ONCE)
local reply = { scan[1] }

-- The indexes that contain a task, the one to keep first: a running task ends by itself, a
-- scheduled one runs, a dead one waits for an operator.
local function places_of(id)
  local places = {}
  for _, zset in ipairs({ RUNNING, DUE, DEAD }) do
    if call('ZSCORE', zset, id) then
      places[#places + 1] = zset
    end
  end
  return places
end

local function move(id, places, zset, at)
  if mends then
    for _, place in ipairs(places) do
      call('ZREM', place, id)
    end
    call('ZADD', zset, text(at), id)
  end
  return { zset }
end

local function look(id, record)
  local places, wrong = places_of(id), ''
  local lock = call('HGET', LOCKS, id)
  if #places == 0 then
    wrong = wrong .. 'n'
    local submitted, kind, number = parse_record(record)
    -- A remaining lock is treated as an expired one: its holder may still settle.
    places = lock and move(id, places, RUNNING, now)
      or move(id, places, DUE, submitted and due_of(submitted, kind, number) or now)
  elseif #places > 1 then
    wrong = wrong .. 'i'
    local keep = places[1]
    places = move(id, places, keep, call('ZSCORE', keep, id))
  end
  if places[1] == RUNNING and not lock then
    wrong = wrong .. 'l'
    places = move(id, places, DUE, now)
  elseif places[1] ~= RUNNING and lock then
    wrong = wrong .. 's'
    if mends then
      call('HDEL', LOCKS, id)
    end
  end
  local trail = call('HGET', TRAIL, id)
  if trail and not find(trail, '^1 %d+ %d+ %d+ %d+ %d+ [^\n]*\n[-+]') then
    wrong = wrong .. 't'
    if mends then
      call('HDEL', TRAIL, id)
    end
  end
  local fence = tonumber(match(lock or '', '^(%d+) ') or 0)
  if fence > largest then
    wrong = wrong .. 'f'
    if mends then
      call('HSET', META, 'fence', text(fence))
      largest = fence
    end
  end
  local letter = places[1] == RUNNING and 'r' or places[1] == DEAD and 'k' or 's'
  for _, part in ipairs({ id, letter, record, wrong }) do
    reply[#reply + 1] = part
  end
end

for i = 1, #scan[2], 2 do
  look(scan[2][i], scan[2][i + 1])
end
return reply
