#!lua flags=allow-oom
-- Locks due tasks, in one step: first tasks whose lock has expired, then due ones, by due time and
-- id.
-- KEYS: the ten of model.lua · 11 hash, result of the caller's last claim: number (of the claim),
--   fence (the first), tasks, ends (of the locks, ms), dues (<id> <due, ms> for those due at
--   another time than in their records)
-- ARGV: 1 maximum number of tasks · 2 length of the locks, ms · 3 the caller's clock and its guard,
--   ms · 4 lock expiries that make a task poison · 5 retention, ms · 6 maximum number of ends in
--   one generation · 7 the number of this claim · 8 the numbers of the caller's claims whose
--   answers were lost, each between spaces · 9 maximum number of tasks running in the fleet, or ""
--   · 10 starts of the fleet's rate, or "" · 11 their span, microseconds · 12 its burst · 13 wake
--   channel, or "" to publish nothing · 14 wake message · 15 "@<holder> ", the short identity of
--   the claimer, or "" · 16 lock expiries that make a task poison that ran alone · 17 the number of
--   releases from which on locks of others than the claimer count · 18 as of far_of()
-- Returns: the server's time · the part cut off it, microseconds · the time that due times were
--   compared with · the time of the next call or -1 · the first fence, followed by the others · ids
--   of the locked tasks · their records · those with a history {index among the locked ones, due or
--   -1 for the record's, trail} · ended ones {id, letter: e expired, c cancelled, p poison, m
--   missing record} · ids of records of a newer version, postponed by a second · the largest fence
--   issued before · split, as in split_of(), or "--" for a shard that is sealed and empty, which is
--   final.
-- Published, if it took something: the wake message, to wake all, if there is more; otherwise the
--   message, two spaces, and the facts for others: the time of the next call or -1, the last fence,
--   the time that due times were compared with.
local limit, lock_for, caller_now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_expiries, retention, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local CLAIM, number, unanswered = KEYS[11], ARGV[7], ARGV[8]
local most_running = tonumber(ARGV[9])
local channel, message, holder = ARGV[13], ARGV[14], ARGV[15]
local max_alone, uncounted = tonumber(ARGV[16]), tonumber(ARGV[17])
local rate = ARGV[10] ~= '' and { starts = tonumber(ARGV[10]), per = tonumber(ARGV[11]), burst = tonumber(ARGV[12]) }
-- Records are read in slices, and only up to this many bytes, so that large messages do not block
-- all others.
local SLICE, MAX_BYTES = 16, 4194304
local PUT_OFF_MS = 1000
-- The largest fence derived from a time alone, as in delayq-core.
local MAX_TIME_FENCE = MAX_EXACT - 1 - 1099511627776
local BATCH, LONG = 16, string.rep(' ', 65)
local byte, VERSION_1 = string.byte, 49 -- '1'

local now, _, past = clock()
local guarded = math.min(now, caller_now)
local meta = numbers_of_meta('pause', 'fence', 'tat', 'gone', 'again', 'fleet_concurrency', unpack(FAR_FIELDS))
local pause, high_water, tat = meta[1] or 0, meta[2] or 0, meta[3] or 0
local words = call('HMGET', META, 'split', 'limited', 'fleet_rate')
local split, is_limited = words[1] or '', words[2] == '1'
-- A claim packs nothing, and needs the operations on packed tasks only if there are some.
local far = meta[7] and far_of(ARGV[18], false, { unpack(meta, 7) })
if bare(split) == '' then
  most_running = meta[6] or most_running
  rate = words[3] and rate_of(words[3]) or rate
end
-- The fences of a batch must stay exact.
if high_water + 1000 >= MAX_EXACT then
  error({ err = 'DAMAGED ' .. META .. ' fence ' .. text(high_water) })
end

-- A sealed shard that is empty stays empty.
local function split_told()
  local has_packed = far and far.count() > 0
  local is_empty = split == '-' and not has_packed and call('HLEN', TASKS) + call('HLEN', GONE) + call('HLEN', GONE_OLD) == 0
    and call('XLEN', ENDS) == 0
  return is_empty and '--' or split
end

-- Returns tasks of locks that the claimer never heard of: they are due as before, and no attempt
-- has begun. A cancelled one waits for the end of its lock.
local function give_back(first_fence, count, lock_ends, moved)
  local dues, back, due_at = {}, {}, {}
  for id, due in string.gmatch(moved, '(%S+) (%d+)') do
    due_at[id] = tonumber(due)
  end
  -- Tasks locked by others in the same moment for the same time may be among them.
  for _, id in ipairs(call('ZRANGEBYSCORE', RUNNING, lock_ends, lock_ends, 'LIMIT', 0, 1000)) do
    local fence, rest = match(call('HGET', LOCKS, id) or '', '^(%d+)(.*)$')
    local nth = fence and fence - first_fence
    if nth and nth >= 0 and nth < count and sub(rest, -1) ~= '!' then
      local submitted, kind, number = parse_record(call('HGET', TASKS, id) or '')
      local due = due_at[id] or submitted and due_of(submitted, kind, number) or now
      dues[#dues + 1] = text(math.min(due, now))
      dues[#dues + 1] = id
      back[#back + 1] = id
    end
  end
  if #back > 0 then
    check_zset(DUE)
    call('ZADD', DUE, unpack(dues))
    call('ZREM', RUNNING, unpack(back))
    call('HDEL', LOCKS, unpack(back))
  end
end

if unanswered ~= '' then
  local last = call('HMGET', CLAIM, 'number', 'fence', 'tasks', 'ends', 'dues')
  if last[1] and find(unanswered, ' ' .. last[1] .. ' ', 1, true) then
    give_back(tonumber(last[2]), tonumber(last[3]), last[4], last[5])
    call('UNLINK', CLAIM)
  end
end

local has_limit = most_running ~= nil or rate ~= false
-- Checked only here: a pause may outlast the locks returned above. The caller refuses a limit on a
-- sealed shard.
if pause > now or has_limit and sub(split, 1, 1) == '-' then
  return { now, past, guarded, pause < LAST_MS and pause or -1, 0, {}, {}, {}, {}, {}, high_water, split_told() }
end

if has_limit ~= is_limited then
  if has_limit then
    call('HSET', META, 'limited', 1)
  else
    call('HDEL', META, 'limited')
  end
end
if rate then
  pace_of(rate, tat, now * 1000 + past)
  limit = math.min(limit, starts_left(rate))
end
-- No task is taken before a packed one that is due earlier.
local bound, next_packed = guarded, nil
if far and far.count() > 0 then
  check_all()
  local first_packed
  first_packed, next_packed = far.open(now)
  bound = math.min(guarded, (first_packed or guarded + 1) - 1)
end
local ids = call('ZRANGEBYSCORE', RUNNING, '-inf', text(now), 'LIMIT', 0, limit)
local lost = #ids
local slots = math.min(limit - lost, free_slots(most_running))
local due_ids = call('ZRANGEBYSCORE', DUE, '-inf', text(bound), 'LIMIT', 0, slots)
if lost == 0 then
  ids = due_ids
else
  for i, id in ipairs(due_ids) do
    ids[lost + i] = id
  end
end

-- The time of the next call. Never a time at which the limits would let no task start: a slot that
-- becomes free is announced instead.
local function next_call()
  local next_due, next_expiry = first(DUE), first(RUNNING)
  if next_due and next_due <= guarded and free_slots(most_running) == 0 then
    call('HSET', META, 'held_back', 1)
    next_due = nil
  end
  if next_packed then
    next_due = math.min(next_due or next_packed, next_packed)
  end
  local next_time = math.min(next_due or next_expiry or -1, next_expiry or next_due or -1)
  if rate and next_time >= 0 and starts_left(rate) == 0 then
    return math.max(next_time, again_at(rate))
  end
  return next_time
end

local requests = meta[5]
if #ids == 0 then
  if requests and requests > 0 then
    check_all()
    adopt_slice(128, now)
  end
  return { now, past, guarded, next_call(), 0, {}, {}, {}, {}, {}, high_water, split_told() }
end

check_hash(LOCKS)
local records, bytes, count = {}, 0, 0
local trails = check_hash(TRAIL) > 0 and call('HMGET', TRAIL, unpack(ids)) or {}
local locks = lost > 0 and call('HMGET', LOCKS, unpack(ids, 1, lost)) or {}
while count < #ids and bytes <= MAX_BYTES do
  local upto = math.min(count + SLICE, #ids)
  local slice = call('HMGET', TASKS, unpack(ids, count + 1, upto))
  for i = 1, upto - count do
    local record = slice[i]
    records[count + i] = record
    bytes = bytes + (record and #record or 0)
  end
  count = upto
end

local first_fence = math.max(high_water + 1, math.min(now * 1000, MAX_TIME_FENCE))
local until_text, now_text = text(math.min(now + lock_for, LAST_MS)), text(now)
local taken, taken_ids, taken_records, reply_trails, ended, newer, moved = 0, {}, {}, {}, {}, {}, {}
-- The first pair is for batches, see below. No id contains a space.
local run, held = { until_text, LONG }, { LONG, '' }
local put_off_due, put_off_run = {}, {}
local freed, stopped, ends, deaths, histories = {}, {}, {}, {}, {}
local followed, requested, totals = {}, {}, {}

local function keep_history(id, history)
  histories[#histories + 1] = id
  histories[#histories + 1] = history
  return history
end

-- Turns the request to run again into the task.
local function follow(id, request, trail)
  local due, history = started(request, trail.settled, trail.settled_by, now)
  followed[#followed + 1] = id
  requested[#requested + 1] = id
  requested[#requested + 1] = request
  put_off_due[#put_off_due + 1] = text(due)
  put_off_due[#put_off_due + 1] = id
  keep_history(id, history)
end

-- Removes a task from its index: it is dead (p), or ends. For an ended task the state is
-- remembered, with the last settled fence: the present holder has lost its lock.
local function finish(id, letter, trail, record, state, lock)
  stopped[#stopped + 1] = id
  ended[#ended + 1] = id
  ended[#ended + 1] = letter
  local total = letter == 'p' and 'died' or TOTAL_OF[letter]
  if total then
    totals[total] = (totals[total] or 0) + 1
  end
  if trail then
    record_end(id, state or 'k', now, lock, trail, record)
  end
  local request = requests_of({ id }, requests)[id]
  if request then
    return follow(id, request, trail or parse_trail())
  end
  if letter == 'p' then
    keep_history(id, trail_text(trail))
    deaths[#deaths + 1] = now_text
    deaths[#deaths + 1] = id
    return
  end
  freed[#freed + 1] = id
  if state then
    ends[#ends + 1] = id
    ends[#ends + 1] = end_text(state, now, trail, record)
  end
end

-- Formatting a number is slow, so the last three digits of the fences are put together by hand.
local DIGITS = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }
local low = first_fence % 1000
local above = first_fence - low
local above_text = text(above / 1000)

-- `attempt` has a space on each side, and the holder after it.
local function take(id, record, attempt, crc)
  taken = taken + 1
  run[2 * taken + 1], run[2 * taken + 2] = until_text, id
  local ones, tens = low % 10, low % 100
  held[2 * taken + 1] = id
  held[2 * taken + 2] = above_text .. DIGITS[(low - tens) / 100] .. DIGITS[(tens - ones) / 10] .. DIGITS[ones]
    .. attempt .. crc
  taken_ids[taken], taken_records[taken] = id, record
  low = low + 1
  if low == 1000 then
    low, above = 0, above + 1000
    above_text = text(above / 1000)
  end
end

local function tell_history(i, id, history)
  local due = -1
  if i > lost then
    -- Only a task with a history can be due at another time than in its record.
    due = tonumber(call('ZSCORE', DUE, id))
    moved[#moved + 1] = id .. ' ' .. text(due)
  end
  local at = #reply_trails
  reply_trails[at + 1], reply_trails[at + 2], reply_trails[at + 3] = taken - 1, due, history
end

local NO_HISTORY = parse_trail()

-- Handles a task with a history, an expiry or an expired lock, or with a missing or unusual record.
local function look(i, id, record)
  local is_lost = i <= lost
  if not record then
    return finish(id, 'm')
  elseif is_newer_version(record) then
    newer[#newer + 1] = id
    local put_off = is_lost and put_off_run or put_off_due
    put_off[#put_off + 1] = now + PUT_OFF_MS
    put_off[#put_off + 1] = id
    return
  end
  local trail = (trails[i] or is_lost) and parse_trail(trails[i]) or NO_HISTORY
  local lock = is_lost and locks[i] or ''
  local is_own = (match(lock, '@%w+ ') or '') == holder
  local counts = is_lost and (is_own or trail.releases >= uncounted)
  trail.expiries = trail.expiries + (counts and 1 or 0)
  trail.releases = trail.releases + (is_lost and not counts and 1 or 0)
  local is_alone = find(lock, '?', 1, true)
  local submitted, kind, number, rest = parse_record(record)
  local expiry = submitted and expiry_of(record, rest, due_of(submitted, kind, number))
  if sub(lock, -1) == '!' then
    finish(id, 'c', trail, record, 'c', lock)
  elseif counts and trail.expiries >= (is_alone and max_alone or max_expiries) then
    local company = is_alone and ', at last while it ran alone' or ''
    local problem =
      format('poison: its lock expired %.0f times%s; its process may have crashed', trail.expiries, company)
    note_error(trail, now, problem, problem, lock)
    finish(id, 'p', trail, record, nil, lock)
  elseif expiry and expiry <= guarded then
    finish(id, 'e', trail, record, 'e', is_lost and lock or nil)
  else
    if is_lost then
      local former = match(lock, ' @(%w+) ')
      local line = 'its lock expired' .. (former and ', held by ' .. former or '')
      local attempt = trail.failures + trail.expiries + (counts and 0 or 1)
      note_error(trail, now, line, nil, lock, tonumber(call('ZSCORE', RUNNING, id)), attempt)
    end
    local history = is_lost and keep_history(id, trail_text(trail)) or trails[i] or nil
    take(id, record, ' ' .. text(trail.failures + trail.expiries + 1) .. ' ' .. holder, crc_of(record))
    if history then
      tell_history(i, id, history)
    end
  end
end

local FIRST_ATTEMPT = ' 1 ' .. holder

-- Nearly all records are plain, which is tested without a pattern: version 1, and the checksum,
-- ,"c":"12345678"}, stands after the first comma after the time, which begins at the 25th byte.
for i = 1, count do
  local id, record = ids[i], records[i]
  local head = i > lost and not trails[i] and record and find(record, '\n', 1, true)
  if head and find(record, ',', 25, true) == head - 16 and byte(record) == VERSION_1 then
    take(id, record, FIRST_ATTEMPT, sub(record, head - 10, head - 3))
  else
    look(i, id, record)
  end
end

if #deaths > 0 then
  check_zset(DEAD)
end
if #ends > 0 then
  check_hash(GONE)
end
local totals_before = #ended > 0 and numbers_of_meta(unpack(TOTALS))
if taken > 0 then
  call('HSET', META, 'fence', text(first_fence + taken - 1))
  if rate then
    count_starts(rate, taken)
    call('HSET', META, 'tat', text(rate.tat))
  end
  call('HSET', CLAIM, 'number', number, 'fence', text(first_fence), 'tasks', taken, 'ends', until_text,
    'dues', table.concat(moved, ' '))
  call('PEXPIRE', CLAIM, text(lock_for))
  -- Redis keeps a small key as one list, which each access walks through: for a batch that takes
  -- longer than all the rest. A member above 64 bytes turns the key into a table for as long as it
  -- exists.
  local is_batch = taken >= BATCH and check_zset(RUNNING) <= limit
  local from = is_batch and 1 or 3
  call('ZADD', RUNNING, unpack(run, from))
  call('HSET', LOCKS, unpack(held, from))
  if is_batch then
    call('ZREM', RUNNING, LONG)
    call('HDEL', LOCKS, LONG)
  end
end
if count > lost then
  -- Removes all of them, whatever happened to them. By name, although they are the first ones: if a
  -- power loss has left a hole in the append-only file, the first ones are others, which would then
  -- be in no index.
  call('ZREM', DUE, unpack(ids, lost + 1, count))
end
if #stopped > 0 then
  if lost > 0 then
    -- After damage, an expired one may be in both.
    call('ZREM', DUE, unpack(stopped))
  end
  call('ZREM', RUNNING, unpack(stopped))
  call('HDEL', LOCKS, unpack(stopped))
end
if #freed > 0 then
  call('HDEL', TASKS, unpack(freed))
  call('HDEL', TRAIL, unpack(freed))
end
if #deaths > 0 then
  call('ZADD', DEAD, unpack(deaths))
end
if #histories > 0 then
  call('HSET', TRAIL, unpack(histories))
end
if #followed > 0 then
  drop_requests(followed, requests)
  call('HSET', TASKS, unpack(requested))
end
if #put_off_due > 0 then
  call('ZADD', DUE, unpack(put_off_due))
end
if #put_off_run > 0 then
  call('ZADD', RUNNING, unpack(put_off_run))
end
if #ended > 0 then
  add_to_totals(totals, totals_before, 0)
end
write_ends()
remember(ends, retention, most, now, meta[4])
local next_time = next_call()
if channel ~= '' and taken > 0 then
  if next_time < 0 or next_time > guarded then
    local left = { text(next_time), text(first_fence + taken - 1), text(guarded) }
    message = message .. '  ' .. table.concat(left, ' ')
  end
  -- All writes are done: if an ACL forbids publishing, the others find the tasks by themselves.
  pcall(publish, channel, message)
end
return { now, past, guarded, next_time, first_fence, taken_ids, taken_records, reply_trails, ended, newer, high_water,
  split }
