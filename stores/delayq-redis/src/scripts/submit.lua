#!lua
-- Accepts up to 128 tasks of one shard, in one step; their ids differ. Refused when Redis is full.
-- KEYS: the ten of model.lua.
-- ARGV: 1 one letter per task, for a taken id (r reject, k keep, p replace, b debounce; a capital:
--   again after a running one), followed for each debounced one by " <its number, from 1>:<longest
--   wait, ms>" · 2 retention, ms · 3 wake channel · 4 wake message · 5 split while the shard takes
--   ids that it does not know, see split_of() · 6 a fence that those of new tasks must exceed, or 0
--   · 7 as of far_of() · then for each task: its id, and its record after the submit time,
--   `"a":60000,..}\n..`
-- Returns: the sum of 1 if the type was unknown and 2 if the shard would pack tasks if it was
--   marked for that · 1 if its first due time became earlier · then for each run of tasks with the
--   same result: the outcome (a accepted, p replaced, g runs again after the present run, or x
--   exists, y conflict and the letter of the state, or f full, <scheduled>/<limit>, or m if another
--   shard has to take it, as this one is sealed) · their number · their due time, ms, or 0; with m
--   the largest fence issued here.
local policies, retention, channel, message = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local open, least_fence = ARGV[5], tonumber(ARGV[6])
local FIRST_TASK = 8

local now, rounded_up = clock()
local ids, count = {}, (#ARGV - FIRST_TASK + 1) / 2
for i = 1, count do
  ids[i] = ARGV[FIRST_TASK + 2 * i - 2]
end
local stored = call('HMGET', TASKS, unpack(ids))
local ends = remembered(ids, retention, now)
local meta = numbers_of_meta('max_pending', 'refused', 'fence', 'again', unpack(FAR_FIELDS))
local words = call('HMGET', META, 'v', 'split', 'born')
local split, fence = words[2] or '', meta[3] or 0
-- The caller knows from the registry that the shard may pack.
local is_marked_now = open == 'P' .. split
if is_marked_now then
  split = open
end
local is_closed = split ~= open
local may_pack = sub(split, 1, 1) == 'P' or words[3] or sub(ARGV[7], -3) ~= 'new'
local packed, far = {}, far_of(may_pack and ARGV[7] or nil, false, { unpack(meta, 5) })
if far and far.count() > 0 then
  for i, id in ipairs(ids) do
    if not stored[i] then
      stored[i] = far.find(id) or false
      packed[id] = stored[i] ~= false
    end
  end
end
local head = far and far.head() or first(DUE)
local packs = far and far.packs(split)
-- Packed ones: id, packed record and due time of each.
local sent, wants_to_pack = {}, false
-- The same of replaced ones, with their whole records.
local moved = {}
-- The number of tasks that may still be scheduled, if there is a limit.
local most = meta[1]
local free = most and most - check_zset(DUE) - (far and far.count() or 0)
local refused = 0

-- True for the same request: equal bytes after the time, and the same time. A past absolute time
-- means the present.
local function is_same(record, body)
  local submitted, kind, number, rest = parse_record(record)
  local new_kind, new_number, new_rest = match(body, '^"([ad])":(%d+)()')
  if kind ~= new_kind or sub(record, rest) ~= sub(body, new_rest) then
    return false
  end
  return due_of(submitted, kind, number) == due_of(submitted, kind, tonumber(new_number))
end

local replaced, forgotten = {}, {}
-- Submit times of the tasks replaced by debounced ones.
local waiting_since = {}
-- Requests to run again: kept ones with their due times; new ones to write, and how many more that
-- makes.
local kept_due, requests, more_requests = {}, {}, 0

local function full()
  refused = refused + 1
  return format('f%.0f/%.0f', most - free, most)
end

local function is_untried(id)
  local trail = parse_trail(call('HGET', TRAIL, id))
  return trail.failures + trail.expiries + trail.releases == 0
end

-- The record of the debounced task number `i`, which would be due at `due` and whose body begins
-- with `time`; and its due time, limited by the first submit.
local function debounced(i, first_submit, body, time, due)
  local longest = tonumber(match(policies, ' ' .. i .. ':(%d+)'))
  due = math.max(math.min(due, first_submit + longest, LAST_MS), now, first_submit)
  return format('1{"s":%.0f,"a":%.0f', first_submit, due - first_submit) .. sub(body, #time), due
end

-- A request to run again after the task that is running now.
local function run_again(id, policy)
  local waiting = requests_of({ id }, meta[4])[id]
  if not waiting then
    more_requests = more_requests + 1
  elseif policy == 'K' then
    kept_due[id] = due_of_request(waiting)
  elseif policy == 'B' then
    waiting_since[id] = parse_record(waiting)
  end
  return 'g'
end

-- The outcome for a task whose id is or was taken.
local function outcome_of(i, id, body)
  local old, policy = stored[i], sub(policies, i, i)
  local runs_again = find(policy, '%u') ~= nil
  if old then
    local place = packed[id] and 's' or place_of(id)
    if runs_again and place == 'r' then
      return run_again(id, policy)
    end
    policy = string.lower(policy)
    local replaces = policy == 'p' or policy == 'b'
    -- A delay counts from now, so a repeated request means a later time.
    local moves = replaces and place ~= 'r' and sub(body, 2, 2) == 'a'
    if policy == 'k' or not moves and is_same(old, body) then
      return 'x' .. place
    elseif replaces and place ~= 'r' then
      if policy == 'b' and place == 's' and is_untried(id) then
        waiting_since[id] = parse_record(old)
      end
      replaced[#replaced + 1] = id
      if free and place == 'k' then
        free = free - 1
      end
      return 'p'
    end
    return 'y' .. place
  end
  local ended, crc = match(ends[id], '^(%a).* (%x+)$')
  if (policy == 'r' or policy == 'k') and crc == crc_of(body) then
    return 'x' .. ended
  end
  if free and free <= 0 then
    return full()
  end
  forgotten[#forgotten + 1] = id
  return 'a'
end

local reply, records, dues, accepted = { 0, 0 }, {}, {}, 0
local is_known, earliest
-- Many tasks of a batch have the same delay, so its due time is formatted only once. No body begins
-- with a space.
local time, prefix, due, due_text, is_far = ' ', '', 0, '', false
local told, told_of, run = '', 0, 0
for i = 1, count do
  local id, body = ids[i], ARGV[FIRST_TASK + 2 * i - 1]
  local outcome, of = 'a', 0
  if stored[i] or ends[id] then
    outcome = outcome_of(i, id, body)
    is_known = is_known or kept_due[id] or sub(outcome, 1, 1) == 'x'
    of = kept_due[id] or 0
  elseif is_closed then
    outcome, of = 'm', fence
  elseif free and free <= 0 then
    outcome = full()
  end
  if outcome == 'a' or outcome == 'p' or outcome == 'g' and of == 0 then
    if free and outcome == 'a' then
      free = free - 1
    end
    if sub(body, 1, #time) ~= time then
      time = match(body, '^"[ad]":%d+,')
      local kind, number = sub(time, 2, 2), tonumber(sub(time, 5, -2))
      local submitted = kind == 'a' and number > 0 and rounded_up or now
      prefix, due = '1{"s":' .. text(submitted) .. ',', due_of(submitted, kind, number)
      due_text = text(due)
      local is_late = far and far.is_late(due, now)
      is_far, wants_to_pack = packs and is_late, wants_to_pack or is_late
      local event = is_far and far.event(due) or due
      earliest = math.min(earliest or event, event)
    end
    local at = 2 * accepted
    local form = outcome == 'a' and is_far and far.form(prefix .. body, due, now)
    if form then
      sent[#sent + 1], sent[#sent + 2], sent[#sent + 3] = id, form, due
      of = due
    elseif outcome == 'a' then
      records[at + 1], records[at + 2] = id, prefix .. body
      dues[at + 1], dues[at + 2] = due_text, id
      of, accepted = due, accepted + 1
    else
      local record
      record, of = prefix .. body, due
      if waiting_since[id] then
        record, of = debounced(i, waiting_since[id], body, time, due)
        earliest = math.min(earliest, of)
      end
      if outcome == 'p' then
        records[at + 1], records[at + 2] = id, record
        dues[at + 1], dues[at + 2] = text(of), id
        accepted = accepted + 1
        moved[#moved + 1], moved[#moved + 2], moved[#moved + 3] = id, record, of
      else
        requests[#requests + 1] = AGAIN .. id
        requests[#requests + 1] = record
      end
    end
  end
  if outcome ~= told or of ~= told_of then
    told, told_of, run = outcome, of, #reply + 2
    reply[run - 1], reply[run], reply[run + 1] = outcome, 0, of
  end
  reply[run] = reply[run] + 1
end

local function count_refused()
  if refused > 0 then
    call('HSET', META, 'refused', text((meta[2] or 0) + refused))
  end
end

local function keep_requests()
  if #requests > 0 then
    call('HSET', META, 'again', text((meta[4] or 0) + more_requests), unpack(requests))
  end
end

if accepted == 0 and #sent == 0 then
  count_refused()
  keep_requests()
  if is_known then
    touch()
  end
  return reply
end
if #replaced > 0 then
  check_hash(TRAIL)
end
if wants_to_pack and sub(split, 1, 1) ~= 'P' and sub(split, 1, 1) ~= '-' and far.is_wanted(words[3]) then
  reply[1] = 2
end
reply[2] = wake_if_earlier(earliest, head, channel, message)
count_refused()
keep_requests()
if meta[4] and meta[4] > 0 then
  local taken = {}
  for at = 1, 2 * accepted, 2 do
    taken[#taken + 1] = records[at]
  end
  for at = 1, #sent, 3 do
    taken[#taken + 1] = sent[at]
  end
  drop_requests(taken, meta[4] + more_requests)
end
if not words[1] then
  reply[1] = reply[1] + call('HSETNX', META, 'v', 1)
  call('HSET', META, 'born', 1)
end
if least_fence > fence then
  call('HSET', META, 'fence', text(least_fence))
end
if is_marked_now then
  call('HSET', META, 'split', split)
end
for _, id in ipairs(replaced) do
  if packed[id] then
    far.remove(id)
  end
end
if accepted > 0 then
  call('HSET', TASKS, unpack(records))
  call('ZADD', DUE, unpack(dues))
end
if #replaced > 0 then
  call('ZREM', DEAD, unpack(replaced))
  call('HDEL', TRAIL, unpack(replaced))
end
if #forgotten > 0 then
  call('HDEL', GONE, unpack(forgotten))
  call('HDEL', GONE_OLD, unpack(forgotten))
end
if far then
  far.add(sent)
end
for at = 1, far and #moved or 0, 3 do
  far.send(moved[at], moved[at + 1], moved[at + 2], now)
end
return reply
