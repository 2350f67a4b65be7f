#!lua flags=allow-oom
-- Schedules dead tasks again, with their attempts reset.
-- KEYS: the ten of model.lua.
-- ARGV: 1 wake channel · 2 wake message · 3 due time of the first, ms, or "" for now · 4 interval,
--   ms · 5.. the selection, see dead.lua
-- Returns: 1 if the first due time became earlier · due time of the next one, ms · where to
--   continue: time or -1 · and id · then the ids requeued.
local channel, message, due, interval = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local FIRST_OF_FILTER = 5

due = due or clock()
check_all()
local ids, next_at, next_id = dead_meant(FIRST_OF_FILTER)
local head = first(DUE)
local requeued, records, dues, histories = {}, {}, {}, {}
for _, id in ipairs(ids) do
  local record = call('HGET', TASKS, id) or ''
  local submitted, _, _, rest = parse_record(record)
  -- A damaged record would only go to dead again.
  if submitted then
    local trail = parse_trail(call('HGET', TRAIL, id))
    trail.failures, trail.expiries, trail.releases = 0, 0, 0
    trail.requeues = trail.requeues + 1
    requeued[#requeued + 1] = id
    records[#records + 1] = id
    records[#records + 1] = format('1{"s":%.0f,"d":%.0f', submitted, due) .. sub(record, rest)
    dues[#dues + 1] = due
    dues[#dues + 1] = id
    histories[#histories + 1] = id
    histories[#histories + 1] = trail_text(trail)
    due = math.min(due + interval, LAST_MS)
  end
end

local woken = 0
if #requeued > 0 then
  woken = wake_if_earlier(dues[1], head, channel, message)
  call('HSET', TASKS, unpack(records))
  call('HSET', TRAIL, unpack(histories))
  call('ZREM', DEAD, unpack(requeued))
  call('ZADD', DUE, unpack(dues))
else
  touch()
end
return { woken, due, next_at, next_id, unpack(requeued) }
