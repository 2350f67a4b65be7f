-- Stored forms, and the steps that several operations share. It stands in front of every operation.
--
-- KEYS, the same nine for every operation, all of one hash slot: 1 due       zset  id -> due, ms
--   2 running  zset  id -> end of the lock, ms 3 locks     hash  id -> "<fence> <attempt> <crc>",
--   with "@<holder> " before the crc where that is known, and a "!" behind it once a cancel was
--   asked for 4 dead      zset  id -> died, ms        5
--   tasks    hash  id -> record 6 trail     hash  id -> "1 <failures> <expiries> <releases>
--   <requeues> <settled> <succeeded>\n<error>";
--                           only for tasks with a history; error: "-" for none, else "+" and its
--   text; behind it "\30" and the last errors, newest first, see note_error, then the note, see
--   split_note; in front of requeues zeros that say how the fence was settled, see END_OF
--   7 meta      hash  v (format), fence (the largest given), pause (its end, ms), gone
--                           (generation's begin, ms), tat, held_back, limited, fleet_concurrency
--                           and fleet_rate (see limit.lua),
--                           gone_from (what is known of the elder one, see known_since), done,
--                           died, cancelled, expired, failed (how many ever, see TOTALS),
--                           max_pending (scheduled tasks), refused (by that), split (see split_of),
--                           next (the shard map that sealed it), sealed_at (the fence then),
--                           noted, noted_old (notes in gone and gone_old, see notes_in),
--                           again, again_scan (see again.lua)
--   8 gone, 9 gone_old  hash  id -> "<d|c|e><ended, ms> <fence> <attempt> <crc>" (done, cancelled,
-- expired), in front of attempt zeros as in a trail, but for "d", which says it all; "! <id>" ->
-- "d<ended, ms> <fence> 0 <+error, in hex>": why one failed that was settled as done before it
-- started. In this form for the audits of earlier releases.
-- Record: 1{"s":<submitted ms>,"a":<delay ms> | "d":<due
-- ms>[,"x":..|,"xa":..][,"h":{..}],"c":"<crc>"}\n<message>
--
-- Lua does not roll back: an operation reads and decides first, then publishes (which an ACL may
-- forbid), and writes last. What claim.lua publishes is a courtesy, and comes behind its writes.
-- Numbers above 10^14 become text through string.format: tostring would round them.
local DUE, RUNNING, LOCKS, DEAD, TASKS, TRAIL, META, GONE, GONE_OLD = unpack(KEYS)
local call, format, match, find, sub = redis.call, string.format, string.match, string.find, string.sub
local LAST_MS = 253402207199999 -- Timestamp::MAX

local MAX_EXACT = 9007199254740992 -- 2^53: from here on numbers are not exact

local function text(number)
  return format('%.0f', number)
end

-- Fields of META that count what has ended.
local TOTALS = { 'done', 'died', 'cancelled', 'expired', 'failed' }
local IS_TOTAL = { done = true, died = true, cancelled = true, expired = true, failed = true }

-- Fields of META as numbers, in their order; false for one that is not there. Garbage fails the
-- operation before it has written anything, and names the field: a fence that is not exact would be
-- given twice. A total is not worth an attempt: it begins anew.
local function numbers_of_meta(...)
  local values = call('HMGET', META, ...)
  for i, field in ipairs({ ... }) do
    local value = values[i]
    if value then
      local number = find(value, '^%d+$') and tonumber(value)
      if IS_TOTAL[field] and (not number or number >= MAX_EXACT) then
        number = false
      elseif not number or number >= MAX_EXACT then
        error({ err = 'DAMAGED ' .. META .. ' ' .. field .. ' ' .. sub(value, 1, 40) })
      end
      values[i] = number
    end
  end
  return values
end

-- The time, ms: rounded down, and rounded up for delays to count from, so that none is cut short;
-- and what the former cut off, microseconds.
local function clock()
  local time = call('TIME')
  local seconds, ms = time[1] * 1000, time[2] / 1000
  return seconds + math.floor(ms), seconds + math.ceil(ms), time[2] % 1000
end

-- Each fails on a key of another type: called before anything has been written, for each key that
-- will be.
local function check_zset(key)
  return call('ZCARD', key)
end

local function check_hash(key)
  return call('HLEN', key)
end

local function check_all()
  for _, key in ipairs({ DUE, RUNNING, DEAD }) do
    check_zset(key)
  end
  for _, key in ipairs({ LOCKS, TASKS, TRAIL, META, GONE }) do
    check_hash(key)
  end
end

-- Submitted, "a" or "d", its number, and where the rest begins; nothing of a damaged record.
local function parse_record(record)
  local submitted, kind, number, rest = match(record, '^1{"s":(%d+),"([ad])":(%d+)()')
  return tonumber(submitted), kind, tonumber(number), rest
end

local function due_of(submitted, kind, number)
  if kind == 'a' then
    return math.min(submitted + number, LAST_MS)
  end
  return math.max(submitted, number)
end

-- When the task stops being worth running, if ever.
local function expiry_of(record, rest, due)
  local kind, number = match(record, '^,"(xa?)":(%d+)', rest)
  if not kind then
    return nil
  end
  return kind == 'x' and tonumber(number) or math.min(due + number, LAST_MS)
end

local function crc_of(record)
  local head = find(record, '\n', 1, true) or 0
  return match(record, '^"c":"(%x+)"}', head - 15) or '0'
end

local function is_newer_version(record)
  return find(record, '^[2-9]{') ~= nil
end

-- How a lock was settled, by the letter of settle.lua: the number of its EndKind in delayq-core. So
-- many zeros stand in front of a count; none: it is not known. An earlier release reads the same
-- count, and writes it without zeros.
local END_OF = { D = 1, E = 2, K = 3, C = 3, R = 4, L = 5 }

-- The note of a task, JSON without a line feed, is the very end of its trail: "\29<note>\n". To a
-- process of an earlier release it is a line of the log that is none, or the rest of an error: it
-- shows or skips it, and keeps it until it cuts the log or writes an error in its place.
local function split_note(error)
  if find(error, '\29', 1, true) then
    local rest, note = match(error, '^(.*)\29("[^\n]*")\n$')
    if rest then
      return rest, note
    end
  end
  return error, ''
end

local function parse_trail(trail)
  local t = {}
  t.failures, t.expiries, t.releases, t.requeues, t.settled, t.succeeded, t.error =
    match(trail or '', '^1 (%d+) (%d+) (%d+) (%d+) (%d+) ([^\n]*)\n([-+].*)$')
  t.settled_by = #match(t.requeues or '0', '^(0*)%d')
  for _, count in ipairs({ 'failures', 'expiries', 'releases', 'requeues' }) do
    t[count] = tonumber(t[count] or 0)
  end
  t.settled, t.succeeded = t.settled or '0', t.succeeded or ''
  t.error, t.note = split_note(t.error or '-')
  return t
end

-- The error of a trail, and the log of the last errors behind it. A process of an earlier release
-- shows both as the last error, and writes a new one in the place of both.
local function split_error(error)
  local at, later = nil, find(error, '\30', 1, true)
  while later do
    at, later = later, find(error, '\30', later + 1, true)
  end
  if at and find(error, '^%d+ %d+ %d+ ', at + 1) then
    return sub(error, 1, at - 1), sub(error, at + 1)
  end
  return error, ''
end

-- Notes how the last attempt has ended, in the log: five lines "<now, ms> <attempt> <releases>
-- <line>\31<fence> <due> <holder>", as in the ErrorLog of delayq-core; and `problem` as the last
-- error, if there is one. `lock`: that of the attempt, if one was made. `due`: when the one after
-- it is due, if there is one.
local function note_error(trail, now, line, problem, lock, due)
  local last, log = split_error(trail.error)
  local attempt, stop = trail.failures + trail.expiries, 0
  local fence, holder = match(lock or '', '^%d+') or '0', match(lock or '', ' @(%w+) ') or '-'
  local tried = '\31' .. fence .. ' ' .. (due and text(due) or '-') .. ' ' .. holder
  log = format('%.0f %.0f %.0f ', now, attempt, trail.releases) .. line .. tried .. '\n' .. log
  for _ = 1, 5 do
    stop = find(log, '\n', stop + 1, true) or #log
  end
  trail.error = (problem and '+' .. problem or last) .. '\30' .. sub(log, 1, stop)
end

-- Concatenated, as %s would cut a text at a zero byte.
local function trail_text(t)
  return format('1 %.0f %.0f %.0f ', t.failures, t.expiries, t.releases)
    .. string.rep('0', t.settled_by) .. text(t.requeues) .. ' ' .. t.settled .. ' ' .. t.succeeded .. '\n'
    .. t.error .. (t.note ~= '' and '\29' .. t.note .. '\n' or '')
end

-- What is remembered of a task that ends by no settlement: as the letter of a state says.
local function end_text(letter, now, trail, record)
  local attempts = string.rep('0', trail.settled_by) .. text(trail.failures + trail.expiries)
  return letter .. text(now) .. ' ' .. trail.settled .. ' ' .. attempts .. ' ' .. crc_of(record)
end

-- The fence settled last of a task with this remembered end, and how, see END_OF.
local function settled_of(ended)
  local letter, fence, zeros = match(ended, '^(%a)%d+ (%d+) (0*)%d')
  return fence or '0', letter == 'd' and END_OF.D or #(zeros or '')
end

-- The remembered ends of these ids, within the retention; an id that is not known is left out.
local function remembered(ids, retention, now)
  local found = {}
  if retention == 0 then
    return found
  end
  for _, key in ipairs({ GONE_OLD, GONE }) do
    if call('HLEN', key) > 0 then
      for i, value in ipairs(call('HMGET', key, unpack(ids))) do
        local ended = value and tonumber(match(value, '^%a(%d+) '))
        if ended and ended + retention > now then
          found[ids[i]] = value
        end
      end
    end
  end
  return found
end

-- Why the task failed whose remembered end is `ended`; "" for no such note.
local NOTE = '! '

local function note_of(id, ended)
  for _, key in ipairs({ GONE, GONE_OLD }) do
    local note = call('HGET', key, NOTE .. id)
    if note and match(note, '^%a%d+ %d+ ') == match(ended, '^%a%d+ %d+ ') then
      return match(note, ' (%x+)$') or ''
    end
  end
  return ''
end

local TOTAL_OF = { d = 'done', c = 'cancelled', e = 'expired' }

-- Adds numbers by name to the totals, which stand in `meta` behind the index `at`.
local function add_to_totals(more, meta, at)
  local fields = {}
  for i, name in ipairs(TOTALS) do
    if more[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = text((meta[at + i] or 0) + more[name])
    end
  end
  if #fields > 0 then
    call('HSET', META, unpack(fields))
  end
end

-- From when on all ends are known, ms, as far as only their number counts. gone_from holds that and
-- the generation's begin: an earlier release that starts a generation does not write it.
local function known_since(began)
  local from, at = match(call('HGET', META, 'gone_from') or '', '^(%d+) (%d+)$')
  return tonumber(at) == began and tonumber(from) or began or 0
end

-- How many notes stand in a generation: META's `field` holds when the younger one began, and that.
-- Notes take the place of no end.
local function notes_in(field, began)
  local at, notes = match(call('HGET', META, field) or '', '^(%d+) (%d+)$')
  return tonumber(at) == began and tonumber(notes) or 0
end

-- Remembers ends (id, value, ...). Two generations make forgetting O(1): when the younger one is
-- older than the retention or holds as many as have to be remembered, the elder is dropped and the
-- younger takes its place. `began`: meta.gone, if the caller has read it already. Whether ends were
-- forgotten before their retention was over.
local function remember(ends, retention, most, now, began)
  if retention == 0 or #ends == 0 then
    return false
  end
  local kept, is_early = call('HLEN', GONE), false
  began = began or numbers_of_meta('gone')[1]
  local since, notes = began or 0, 0
  local is_full = kept >= most and kept - notes_in('noted', began) >= most
  if kept > 0 and (is_full or since + retention <= now) then
    notes = notes_in('noted', began)
    local dropped = call('UNLINK', GONE_OLD) > 0
    is_early = dropped and since + retention > now
    since = dropped and since or known_since(began)
    call('RENAME', GONE, GONE_OLD)
    kept = 0
  elseif kept == 0 then
    since = known_since(began)
  end
  call('HSET', GONE, unpack(ends))
  if kept == 0 then
    call('HSET', META, 'gone', text(now), 'gone_from', text(since) .. ' ' .. text(now))
    if notes > 0 then
      call('HSET', META, 'noted_old', text(now) .. ' ' .. text(notes))
    end
    -- Frees the memory of a type that has come to rest: the last end of this generation is younger
    -- than one retention and is asked for during one more.
    call('PEXPIRE', GONE, text(2 * retention + 1000))
  end
  return is_early
end

-- Writes what is there already, before an answer that rests on an earlier call: replicas may not
-- have that one yet, and since Redis 7.2 a wait for them is only for what its own connection has
-- written. Where nothing is written down of the type, nothing is afterwards.
local function touch()
  local is_empty = check_hash(META) == 0
  call('HSET', META, 'fence', call('HGET', META, 'fence') or 0)
  if is_empty then
    call('HDEL', META, 'fence')
  end
end

-- Tells the other instances. In a cluster each shard has a channel of its own, whose name has a
-- slash, and which the node of its slot alone knows.
local function publish(channel, message)
  call(find(channel, '/', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, message)
end

-- Tells the other instances when the first due time becomes earlier than `head`; whether it does.
local function wake_if_earlier(earliest, head, channel, message)
  if not earliest or (head and earliest >= head) then
    return 0
  end
  publish(channel, message)
  return 1
end

local function first(zset)
  return tonumber(call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2])
end

-- Which shard these keys are: "" the only one of a type that was never sharded; else how many
-- shards were made with this one; "-" sealed: it takes no id that it does not know.
local function split_of()
  return call('HGET', META, 'split') or ''
end

-- "r" running, "k" dead, "s" scheduled, "?" in no index; and the time of it.
local function place_of(id)
  local at = call('ZSCORE', RUNNING, id)
  if at then
    return 'r', tonumber(at)
  end
  at = call('ZSCORE', DEAD, id)
  if at then
    return 'k', tonumber(at)
  end
  at = call('ZSCORE', DUE, id)
  return at and 's' or '?', tonumber(at or 0)
end

