-- Stored formats, and steps shared by several operations. Inserted before every operation.
--
-- KEYS, the same ten for every operation, all in one hash slot:
--   1 due       zset  id -> due, ms
--   2 running   zset  id -> end of the lock, ms
--   3 locks     hash  id -> "<fence> <attempt> <crc>", with "@<holder> " before the crc if the
--                     holder is known, and at the end a "?" while its holder runs nothing else, and
--                     a "!" once a cancel was requested
--   4 dead      zset  id -> died, ms
--   5 tasks     hash  id -> record
--   6 trail     hash  id -> "1 <failures> <expiries> <releases> <requeues> <settled> <succeeded>",
--                     a line feed and "<error>", only for tasks with a history. Error: "-" for
--                     none, else "+" and its text; then "\30" and the last errors, newest first,
--                     see note_error; then the note, see split_note. Zeros before requeues: how
--                     the fence was settled, see END_OF
--   7 meta      hash  v (format), fence (the largest issued), pause (its end, ms), gone (start of
--                     the generation, ms), tat, held_back, limited, fleet_concurrency and
--                     fleet_rate (see limit.lua), gone_from (what is known of the older
--                     generation, see known_since), done, died, cancelled, expired, failed (totals,
--                     see TOTALS), max_pending (scheduled tasks), refused (because of it), split
--                     (see split_of), next (the shard map that sealed it), sealed_at (the fence
--                     then), noted, noted_old (notes in gone and gone_old, see notes_in), again,
--                     again_scan (see again.lua), history, ends_bytes, ends_lost (see ends.lua),
--                     history_most (the maximum in history, while that is off), far, far_chunk,
--                     far_buckets, far_changes (see far/far.lua), born (1 if the shard began under
--                     a release that knows packed tasks)
--   8 gone, 9 gone_old
--               hash  id -> "<d|c|e><ended, ms> <fence> <attempt> <crc>" (done, cancelled,
--                     expired). Zeros before attempt as in a trail, except for "d", which needs
--                     none. "! <id>" -> "d<ended, ms> <fence> 0 <+error, in hex>": the error of a
--                     task that was settled as done before it started; in this format because of
--                     the audits of earlier releases
--  10 ends      stream of the records of ends, see ends.lua
--
-- Packed tasks are in other keys, see far/far.lua.
--
-- Record: 1{"s":<submitted, ms>,"a":<delay, ms> | "d":<due, ms>[,"x":..|,"xa":..][,"h":{..}],
--   "c":"<crc>"}, a line feed and the message.
--
-- Lua does not roll back: an operation reads and decides first, then publishes (which an ACL may
-- forbid), and writes last. Only claim.lua publishes after its writes, as its message is optional.
-- Numbers above 10^14 become text through string.format: tostring would round them.
local DUE, RUNNING, LOCKS, DEAD, TASKS, TRAIL, META, GONE, GONE_OLD = unpack(KEYS)
local call, format, match, find, sub = redis.call, string.format, string.match, string.find, string.sub
local LAST_MS = 253402207199999 -- Timestamp::MAX

local MAX_EXACT = 9007199254740992 -- 2^53: from here on numbers are not exact

local function text(number)
  return format('%.0f', number)
end

-- Fields of META that count ended tasks.
local TOTALS = { 'done', 'died', 'cancelled', 'expired', 'failed' }
local IS_TOTAL = { done = true, died = true, cancelled = true, expired = true, failed = true }

-- Fields of META as numbers, in order; false for a missing one. Garbage fails the operation before
-- any write, and the error names the field: an inexact fence would be issued twice. A damaged total
-- does not fail the operation: it restarts from zero.
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

-- The time, ms, rounded down; rounded up, as the start of delays, so that none is cut short; and
-- the part cut off by rounding down, microseconds.
local function clock()
  local time = call('TIME')
  local seconds, ms = time[1] * 1000, time[2] / 1000
  return seconds + math.floor(ms), seconds + math.ceil(ms), time[2] % 1000
end

-- Each check fails on a key of another type. Called before any write, for each key that will be
-- written.
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

-- Submit time, "a" or "d", its number, and the position of the rest; nothing for a damaged record.
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

-- The time when the task stops being worth running, if it has an expiry.
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

-- How a lock was settled, by the letter of settle.lua: the number of its EndKind in delayq-core.
-- That many zeros precede a count; none means not known. An earlier release reads the same count,
-- and writes it without zeros.
local END_OF = { D = 1, E = 2, K = 3, C = 3, R = 4, L = 5 }

-- The note of a task, JSON without a line feed, is the very end of its trail: "\29<note>\n". To a
-- process of an earlier release it is a malformed line of the log, or the rest of an error: it
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

-- The error of a trail, and the log of the last errors after it. A process of an earlier release
-- shows both as the last error, and replaces both by a new one.
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

-- Adds the end of the last attempt to the log: five lines "<now, ms> <attempt> <releases>
-- <line>\31<fence> <due> <holder>", as in the ErrorLog of delayq-core; and sets `problem` as the
-- last error, if there is one. `lock` is that of the attempt, if one was made. `due` is the due
-- time of the next attempt, if there is one. `attempt` is its number, if it was not counted.
local function note_error(trail, now, line, problem, lock, due, attempt)
  local last, log = split_error(trail.error)
  attempt = attempt or trail.failures + trail.expiries
  local stop = 0
  local fence, holder = match(lock or '', '^%d+') or '0', match(lock or '', ' @(%w+) ') or '-'
  local tried = '\31' .. fence .. ' ' .. (due and text(due) or '-') .. ' ' .. holder
  log = format('%.0f %.0f %.0f ', now, attempt, trail.releases) .. line .. tried .. '\n' .. log
  for _ = 1, 5 do
    stop = find(log, '\n', stop + 1, true) or #log
  end
  trail.error = (problem and '+' .. problem or last) .. '\30' .. sub(log, 1, stop)
end

-- Concatenated, because %s would cut a text at a zero byte.
local function trail_text(t)
  return format('1 %.0f %.0f %.0f ', t.failures, t.expiries, t.releases)
    .. string.rep('0', t.settled_by) .. text(t.requeues) .. ' ' .. t.settled .. ' ' .. t.succeeded .. '\n'
    .. t.error .. (t.note ~= '' and '\29' .. t.note .. '\n' or '')
end

-- The record of a task that ends without a settlement, in the state of the letter.
local function end_text(letter, now, trail, record)
  local attempts = string.rep('0', trail.settled_by) .. text(trail.failures + trail.expiries)
  return letter .. text(now) .. ' ' .. trail.settled .. ' ' .. attempts .. ' ' .. crc_of(record)
end

-- The last settled fence in the record of an ended task, and how it was settled, see END_OF.
local function settled_of(ended)
  local letter, fence, zeros = match(ended, '^(%a)%d+ (%d+) (0*)%d')
  return fence or '0', letter == 'd' and END_OF.D or #(zeros or '')
end

-- The records of these ended ids within the retention; unknown ids are left out.
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

-- The noted error of the task whose record is `ended`; "" if there is none.
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

-- Adds numbers by name to the totals, which are in `meta` after the index `at`.
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

-- The time from which on all ends are known, ms, as far as only their number counts. gone_from
-- holds that time and the start of the generation: an earlier release that starts a generation does
-- not write it.
local function known_since(began)
  local from, at = match(call('HGET', META, 'gone_from') or '', '^(%d+) (%d+)$')
  return tonumber(at) == began and tonumber(from) or began or 0
end

-- The number of notes in a generation: META's `field` holds the start of the younger one, and that
-- number. Notes do not count as ends.
local function notes_in(field, began)
  local at, notes = match(call('HGET', META, field) or '', '^(%d+) (%d+)$')
  return tonumber(at) == began and tonumber(notes) or 0
end

-- Remembers ends (id, value, ...). Two generations make forgetting O(1): when the younger one is
-- older than the retention or holds as many as have to be remembered, the older one is dropped and
-- the younger takes its place. `began` is meta.gone, if the caller has already read it. Returns
-- true if ends were forgotten before their retention was over.
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
    -- Frees the memory of a type that is no longer used: the last end of this generation is younger
    -- than one retention, and may be queried for another one.
    call('PEXPIRE', GONE, text(2 * retention + 1000))
  end
  return is_early
end

-- Writes an existing value, before an answer that depends on an earlier call: replicas may not have
-- that call's writes yet, and since Redis 7.2 a wait for replicas covers only the writes of its own
-- connection. If nothing was stored for the type, nothing is afterwards.
local function touch()
  local is_empty = check_hash(META) == 0
  call('HSET', META, 'fence', call('HGET', META, 'fence') or 0)
  if is_empty then
    call('HDEL', META, 'fence')
  end
end

-- Tells the other instances. In a cluster each shard has a channel of its own, whose name contains
-- a slash, and which only the node of its slot knows.
local function publish(channel, message)
  call(find(channel, '/', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, message)
end

-- Tells the other instances if the first due time becomes earlier than `head`. Returns 1 if it
-- does.
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

-- The kind of shard of these keys: "" for the only one of an unsharded type; the number of shards
-- created together with this one; a "P" before that once the type may pack tasks, which the shard
-- map says, too; "-" if sealed: it takes no id that it does not know.
local function split_of()
  return call('HGET', META, 'split') or ''
end

-- The same without the mark.
local function bare(split)
  return sub(split, 1, 1) == 'P' and sub(split, 2) or split
end

-- "r" running, "k" dead, "s" scheduled, "?" in no index; and the time in that index.
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

