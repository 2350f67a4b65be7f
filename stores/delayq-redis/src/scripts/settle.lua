#!lua flags=allow-oom
-- Ends up to 128 attempts of one type, in one step; their ids differ. Only the present lock's fence
-- counts. A request to run again replaces a task that ends.
-- KEYS: the ten of model.lua.
-- ARGV: 1 retention, ms · 2 maximum number of ends in one generation · 3 wake channel · 4 wake
--   message · then for each: id, fence, end: D done, E expired, K succeeded<LF>line<LF>error dead,
--   C<LF>line<LF>error dead as its record is damaged, R<ms> succeeded<LF>line<LF>error retry, L<ms>
--   succeeded<LF><LF> release; line: the beginning of the error, in one line; after succeeded, if
--   there is one, <TAB>note
-- Returns: 1 if handlers have something to do earlier: the first due time, or a free slot · 1 if
--   ends were forgotten early · the indexes of those whose lock was lost, from 0.
local retention, most, channel, message = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local FIRST_END = 5
local byte, BLANK, EXCLAMATION_MARK, AT, QUESTION_MARK = string.byte, 32, 33, 64, 63

local now, rounded_up = clock()
local now_text = text(now)
local ids, count = {}, (#ARGV - FIRST_END + 1) / 3
for i = 1, count do
  ids[i] = ARGV[FIRST_END + 3 * i - 3]
end
local locks = call('HMGET', LOCKS, unpack(ids))
local meta = numbers_of_meta('gone', 'held_back', 'again', unpack(TOTALS))
local began, is_held_back, requests = meta[1], meta[2], meta[3]
local has_requests = (requests or 0) > 0
check_zset(RUNNING)
check_hash(TASKS)
local has_trails = check_hash(TRAIL) > 0

-- True if this settlement was applied before: then the answer is the same again. A different end of
-- the same lock is not a repeat.
local function is_repeated(id, fence, kind)
  if fence == '0' then
    return false
  end
  local settled, by
  local trail = call('HGET', TRAIL, id)
  if trail then
    trail = parse_trail(trail)
    settled, by = trail.settled, trail.settled_by
  end
  if settled ~= fence then
    local ended = remembered({ id }, retention, now)[id]
    settled, by = settled_of(ended or '')
  end
  return settled == fence and (by == 0 or by == END_OF[kind])
end

local reply, settled, freed, ends, deaths, dues, histories = { 0, 0 }, {}, {}, {}, {}, {}, {}
local records, followed, totals = {}, {}, {}
local stopped, finished = 0, 0
local earliest

local function count_one(total)
  totals[total] = (totals[total] or 0) + 1
end

-- Turns the request to run again into the task.
local function follow(id, fence, kind, record)
  local due, history = started(record, fence, END_OF[kind], now)
  earliest = math.min(earliest or due, due)
  followed[#followed + 1] = id
  local at = 2 * #followed
  records[at - 1], records[at] = id, record
  dues[#dues + 1] = text(due)
  dues[#dues + 1] = id
  histories[#histories + 1] = id
  histories[#histories + 1] = history
end

-- The holder, "@" and eight letters before the crc, is not remembered.
local function finish(id, letter, kind, fence, lock)
  if byte(lock, -18) == AT then
    lock = sub(lock, 1, -19) .. sub(lock, -8)
  end
  if letter ~= 'd' then
    lock = fence .. ' ' .. string.rep('0', END_OF[kind]) .. sub(lock, #fence + 2)
  end
  finished = finished + 1
  freed[finished] = id
  ends[2 * finished - 1], ends[2 * finished] = id, letter .. now_text .. ' ' .. lock
end

local function trail_of(id)
  return parse_trail(has_trails and call('HGET', TRAIL, id) or nil)
end

-- The trail of a task that is kept, which counts the end of the attempt; and its due time, if it is
-- scheduled again.
local function kept_trail(id, fence, kind, ending, lock)
  local trail = trail_of(id)
  local after, succeeded, note, line, problem =
    match(ending, '^%a(%d*) ?([^\t\n]*)\t?([^\n]*)\n([^\n]*)\n(.*)$')
  trail.settled, trail.settled_by = fence, END_OF[kind]
  if kind == 'R' or kind == 'K' then
    trail.failures = trail.failures + 1
  end
  local due = (kind == 'R' or kind == 'L')
    and math.min((tonumber(after) > 0 and rounded_up or now) + after, LAST_MS)
  if kind == 'L' then
    trail.releases = trail.releases + 1
  else
    note_error(trail, now, line, problem, lock, due)
  end
  if kind ~= 'C' then
    trail.succeeded = succeeded
  end
  if note ~= '' then
    trail.note = note
  end
  return trail, due
end

-- Keeps the task: scheduled again, or dead.
local function keep(id, trail, due)
  if due then
    earliest = math.min(earliest or due, due)
    dues[#dues + 1] = text(due)
    dues[#dues + 1] = id
  else
    deaths[#deaths + 1] = now_text
    deaths[#deaths + 1] = id
  end
  histories[#histories + 1] = id
  histories[#histories + 1] = trail_text(trail)
end

for i = 1, count do
  local id, fence, ending, lock = ids[i], ARGV[FIRST_END + 3 * i - 2], ARGV[FIRST_END + 3 * i - 1], locks[i]
  local kind = sub(ending, 1, 1)
  if lock and sub(lock, 1, #fence) == fence and byte(lock, #fence + 1) == BLANK then
    local last = byte(lock, -1)
    local is_cancelled = last == EXCLAMATION_MARK
    if is_cancelled or last == QUESTION_MARK then
      lock = match(lock, '^[^?!]*')
    end
    stopped = stopped + 1
    settled[stopped] = id
    local is_last = kind ~= 'R' and kind ~= 'L' or is_cancelled
    local request = has_requests and is_last and requests_of({ id }, requests)[id]
    local letter = kind == 'D' and 'd' or kind == 'E' and 'e'
      or is_last and (kind == 'R' or kind == 'L') and 'c'
    if is_last then
      count_one(letter and TOTAL_OF[letter] or 'died')
    end
    if kind == 'R' or kind == 'K' then
      count_one('failed')
    end
    local trail, due
    if not letter and (not request or recording()) then
      trail, due = kept_trail(id, fence, kind, ending, lock)
    end
    if is_last and recording() then
      record_end(id, letter or 'k', now, lock, trail or trail_of(id), call('HGET', TASKS, id))
    end
    if request then
      follow(id, fence, kind, request)
    elseif letter then
      finish(id, letter, kind, fence, lock)
    else
      keep(id, trail, due)
    end
  elseif not is_repeated(id, fence, kind) then
    reply[#reply + 1] = i - 1
  end
end

if stopped == 0 then
  if #reply <= count + 1 then
    touch()
  end
  return reply
end
if #deaths > 0 then
  check_zset(DEAD)
end
if finished > 0 then
  check_hash(GONE)
end
local head = #dues > 0 and first(DUE)
if is_held_back then
  -- A claim has waited for a slot, which is now free.
  publish(channel, message)
  call('HDEL', META, 'held_back')
  reply[1] = 1
else
  reply[1] = wake_if_earlier(earliest, head, channel, message)
end
call('ZREM', RUNNING, unpack(settled))
call('HDEL', LOCKS, unpack(settled))
if finished > 0 then
  call('HDEL', TASKS, unpack(freed))
  if has_trails then
    call('HDEL', TRAIL, unpack(freed))
  end
end
if #followed > 0 then
  drop_requests(followed, requests)
  call('HSET', TASKS, unpack(records))
end
if #histories > 0 then
  call('HSET', TRAIL, unpack(histories))
end
if #dues > 0 then
  call('ZADD', DUE, unpack(dues))
end
if #deaths > 0 then
  call('ZADD', DEAD, unpack(deaths))
end
add_to_totals(totals, meta, 3)
write_ends()
reply[2] = remember(ends, retention, most, now, began) and 1 or 0
return reply
