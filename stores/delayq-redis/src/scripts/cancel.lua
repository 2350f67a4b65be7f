#!lua flags=allow-oom
-- Cancels scheduled tasks and marks running ones. Drops requests to run them again.
-- KEYS: the ten of model.lua.
-- ARGV: 1 retention, ms · 2 maximum number of ends in one generation · 3.. different ids
-- Returns: 1 if ends were forgotten early · split_of() if an id is not known, else "" · for each
--   id: "ok" cancelled, "r" running and marked, the letter of its state (k dead, d done, c
--   cancelled, e expired), or "" if not known.
local retention, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local ids = { unpack(ARGV, 3) }

local now = clock()
check_all()
local meta = numbers_of_meta('again', 'gone', unpack(TOTALS))
local records = call('HMGET', TASKS, unpack(ids))
local far = far_of()
if far then
  far.bring(ids, records)
end
local answer, gone, running, scheduled, records_of = { 0, '' }, {}, {}, {}, {}
local is_read = false
for i, id in ipairs(ids) do
  local place = records[i] and place_of(id)
  answer[i + 2] = place or ''
  if not place then
    gone[#gone + 1] = id
  elseif place == 'k' then
    is_read = true
  elseif place == 'r' then
    running[#running + 1] = id
  else
    answer[i + 2] = 'ok'
    scheduled[#scheduled + 1] = id
    records_of[#scheduled] = records[i]
  end
end
if #gone > 0 then
  local ends = remembered(gone, retention, now)
  for i, id in ipairs(ids) do
    if ends[id] then
      answer[i + 2] = sub(ends[id], 1, 1)
      is_read = true
    elseif answer[i + 2] == '' then
      answer[2] = split_of()
    end
  end
end
local ends = {}
if #scheduled > 0 then
  local trails = call('HMGET', TRAIL, unpack(scheduled))
  for i, id in ipairs(scheduled) do
    ends[2 * i - 1] = id
    local trail = parse_trail(trails[i])
    ends[2 * i] = end_text('c', now, trail, records_of[i])
    record_end(id, 'c', now, nil, trail, records_of[i])
  end
end

if is_read and #scheduled == 0 then
  touch()
end
for _, id in ipairs(running) do
  local lock = call('HGET', LOCKS, id)
  if lock then
    call('HSET', LOCKS, id, sub(lock, -1) == '!' and lock or lock .. '!')
  end
end
drop_requests(running, meta[1])
if #scheduled > 0 then
  call('ZREM', DUE, unpack(scheduled))
  call('HDEL', TASKS, unpack(scheduled))
  call('HDEL', TRAIL, unpack(scheduled))
  -- Requests dropped for running tasks must not be counted again.
  drop_requests(scheduled, #running > 0 and numbers_of_meta('again')[1] or meta[1])
  add_to_totals({ cancelled = #scheduled }, meta, 2)
  write_ends()
  answer[1] = remember(ends, retention, most, now, meta[2]) and 1 or 0
end
return answer
