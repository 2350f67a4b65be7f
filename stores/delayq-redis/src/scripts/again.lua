-- Requests to run again, each kept until the task running under its id ends.

-- They are stored in META, because scripts of earlier releases ignore its unknown fields: "again
-- <id>" -> a record, and "again" -> their number.
local AGAIN = 'again '

local function fields_of(ids)
  local fields = {}
  for i, id in ipairs(ids) do
    fields[i] = AGAIN .. id
  end
  return fields
end

-- The requests for these ids, by id. `count`: meta.again.
local function requests_of(ids, count)
  local found = {}
  if #ids > 0 and (count or 0) > 0 then
    for i, record in ipairs(call('HMGET', META, unpack(fields_of(ids)))) do
      found[ids[i]] = record or nil
    end
  end
  return found
end

-- Removes the requests for these ids, if they have any.
local function drop_requests(ids, count)
  if #ids > 0 and (count or 0) > 0 then
    local dropped = call('HDEL', META, unpack(fields_of(ids)))
    call('HSET', META, 'again', text(math.max(count - dropped, 0)))
  end
end

local function due_of_request(record)
  local submitted, kind, number = parse_record(record)
  return submitted and due_of(submitted, kind, number) or 0
end

-- Turns a request into a task when its task ends. `settled` is the last settled fence, and `by` the
-- way it was settled, see END_OF. Returns the due time, and the trail, by which a repeated
-- settlement is recognised.
local function started(record, settled, by, now)
  local trail = parse_trail()
  trail.settled, trail.settled_by = settled, by
  return math.max(due_of_request(record), now), trail_text(trail)
end

-- The id in a META field that holds a request for a task which is neither running nor scheduled: a
-- process of an earlier release, which does not know requests, has ended the task.
local function left_alone(field)
  local id = match(field, '^' .. AGAIN .. '(.*)$')
  local place = id and place_of(id)
  return id and place ~= 'r' and place ~= 's' and id or nil
end

-- Schedules such a request, unless its task was cancelled.
local function adopt(id, record, now)
  local ended = call('HGET', GONE, id) or call('HGET', GONE_OLD, id) or ''
  local settled, by = settled_of(ended)
  local due, history = started(record, settled, by, now)
  check_hash(GONE_OLD)
  if sub(ended, 1, 1) ~= 'c' then
    call('ZREM', DEAD, id)
    call('HDEL', GONE, id)
    call('HDEL', GONE_OLD, id)
    call('HSET', TASKS, id, record)
    call('HSET', TRAIL, id, history)
    call('ZADD', DUE, text(due), id)
  end
  drop_requests({ id }, numbers_of_meta('again')[1] or 1)
end

-- Adopts the requests found in one slice of META. If META is a table, a slice is a part of it, and
-- the cursor of the next one is stored.
local function adopt_slice(most, now)
  local from = call('HGET', META, 'again_scan') or '0'
  local scan = call('HSCAN', META, find(from, '^%d+$') and from or '0', 'COUNT', most)
  local cursor, found = scan[1], scan[2]
  for i = 1, #found, 2 do
    local id = left_alone(found[i])
    if id then
      adopt(id, found[i + 1], now)
    end
  end
  if cursor == '0' and from ~= '0' then
    call('HDEL', META, 'again_scan')
  elseif cursor ~= from then
    call('HSET', META, 'again_scan', cursor)
  end
end
