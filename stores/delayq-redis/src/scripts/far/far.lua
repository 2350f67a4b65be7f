-- Far tasks, packed by time. Only the files of this folder know how.
--
-- A packed task is scheduled, without a history, and in neither DUE nor TASKS. Its keys, next to
-- the ten of model.lua and with the same hash tag:
--
--   far:hours, far:minutes
--                 zset  chunk -> the first due time in it, ms. The tasks of a chunk are due in the
--                       same hour, or in the same minute
--   far:<chunk>   list  id, packed record, id, packed record, ..: one node of a list. Even numbers
--                       are in far:hours, odd ones in far:minutes
--   far:open      hash  "h<hour>" or "m<minute>" -> "<chunk> <bytes> <chunks made>": the chunk that
--                       the next task of this slot goes to
--   far:i<bucket> hash  mark of an id -> the numbers of the chunks that may have it, with spaces
--                       between. One number, unless two ids have the same mark
--
-- An hour gets WIDE chunks; its further tasks go to those of their minute. So few tasks are
-- unpacked long before they are due. The buckets grow by linear hashing, so that each stays one
-- small list.
--
-- In META: far (number of packed tasks), far_chunk (the last number given), far_buckets,
-- far_changes (how often far was changed).
--
-- Packed record: kind (1: a, 2: d, as in the record; 2 more if the next part is there), submit
-- time, number, checksum; the part between the time and the checksum and a line feed; the message.

local FAR_FIELDS = { 'far', 'far_chunk', 'far_buckets', 'far_changes' }

-- The operations on packed tasks; nil if there are none, and `settings` pack none now. They are
-- made only then: that takes as long as a few calls. `settings`: "<lead, ms>", and to pack " <least
-- wait, ms> <tasks that stay unpacked>", for tests then " <chunks of an hour>", and at the end
-- " new" if no shard begins to pack that is older than packing. `known`: the values of FAR_FIELDS,
-- if the caller has read them.
local function far_of(settings, is_needed, known)
  local lead, near, least, wide, only = match(settings or '120000', '^(%d+) ?(%d*) ?(%d*) ?(%d*) ?(%a*)$')
  lead, near, least = tonumber(lead), tonumber(near), tonumber(least)
  local meta = known or numbers_of_meta(unpack(FAR_FIELDS))
  if not (is_needed or meta[1] or near and check_zset(DUE) >= least) then
    return nil
  end
  local far = {}
  local STEM = sub(DUE, 1, -4) .. 'far:'
  local HOURS, MINUTES, OPEN = STEM .. 'hours', STEM .. 'minutes', STEM .. 'open'
  local HOUR_MS, MINUTE_MS, WIDE = 3600000, 60000, tonumber(wide) or 60
  -- A node of a list has up to 8192 bytes, its own header included.
  local CHUNK_BYTES, LONGEST = 8150, 2000
  -- A chunk has at most 127 tasks, however short they are: it is unpacked in one step.
  local LEAST_BYTES = 64
  local PER_BUCKET, ALL = 32, 16384
  local HEAD, HEAD_BYTES = '>BI6I6I4', 17
  local KIND_OF, LETTER_OF = { a = 1, d = 2 }, { 'a', 'd', 'a', 'd' }
  local count, chunk_number, buckets, whole = meta[1] or 0, meta[2] or 0, math.max(meta[3] or 1, 1), 1
  local changes = meta[4] or 0
  while whole < buckets do
    whole = whole * 2
  end
  -- The number whose last bits name the bucket of an id, by id.
  local number_of = {}

  -- The number of packed tasks; and how often it was changed.
  function far.count()
    return count, changes
  end

  local function save()
    changes = changes + 1
    if count <= 0 and call('ZCARD', HOURS) + call('ZCARD', MINUTES) == 0 then
      -- Every bucket is empty.
      count, buckets, whole = 0, 1, 1
      call('HDEL', META, 'far', 'far_buckets')
      call('HSET', META, 'far_changes', text(changes))
    else
      -- After damage the count may be too low. Without one, no packed task would be found.
      count = math.max(count, 1)
      call('HSET', META, 'far', text(count), 'far_buckets', text(buckets), 'far_changes', text(changes))
    end
  end

  local function packed(record)
    local submitted, kind, number, rest = parse_record(record)
    local head = find(record, '\n', 1, true)
    local crc = head and match(sub(record, head - 16, head), '^,"c":"(%x%x%x%x%x%x%x%x)"}\n$')
    if not submitted or not crc or #record > LONGEST or head - 17 < rest - 1 then
      return nil
    end
    local fixed = sub(record, rest, head - 17)
    local is_bare = fixed == ''
    return struct.pack(HEAD, KIND_OF[kind] + (is_bare and 0 or 2), submitted, number, tonumber(crc, 16))
      .. (is_bare and '' or fixed .. '\n') .. sub(record, head + 1)
  end

  -- The record, and its due time; a damaged one as it is, and nil.
  local function unpacked(value)
    local letter = #value >= HEAD_BYTES and LETTER_OF[string.byte(value)]
    if not letter then
      return value
    end
    local kind, submitted, number, crc = struct.unpack(HEAD, value)
    local fixed, message = '', sub(value, HEAD_BYTES + 1)
    if kind > 2 then
      local stop = find(message, '\n', 1, true) or 0
      fixed, message = sub(message, 1, stop - 1), sub(message, stop + 1)
    end
    local head = format('1{"s":%.0f,"%s":%.0f', submitted, letter, number)
    return head .. fixed .. format(',"c":"%08x"}\n', crc) .. message, due_of(submitted, letter, number)
  end

  local function zset_of(chunk)
    return chunk % 2 == 0 and HOURS or MINUTES
  end

  local function slot_of(chunk, due)
    return chunk % 2 == 0 and 'h' .. math.floor(due / HOUR_MS) or 'm' .. math.floor(due / MINUTE_MS)
  end

  -- The bucket and the mark of an id: 40 bits of its SHA-1. The bucket is the mark modulo `whole`,
  -- or, if that one has not been split yet, modulo half of it.
  local function mark_of(id)
    local number = number_of[id]
    if not number then
      number = tonumber(sub(redis.sha1hex(id), 1, 10), 16)
      number_of[id] = number
    end
    local bucket = number % whole
    if bucket >= buckets then
      bucket = bucket - whole / 2
    end
    return STEM .. 'i' .. bucket, struct.pack('>I5', number)
  end

  local function unmark(id, chunk)
    local bucket, mark = mark_of(id)
    local chunks = call('HGET', bucket, mark) or ''
    if tonumber(chunks) == chunk then
      call('HDEL', bucket, mark)
    elseif chunks ~= '' then
      local rest = {}
      for other in string.gmatch(chunks, '%d+') do
        if tonumber(other) ~= chunk then
          rest[#rest + 1] = other
        end
      end
      call('HSET', bucket, mark, table.concat(rest, ' '))
    end
  end

  local function add_mark(id, chunk)
    local bucket, mark = mark_of(id)
    if call('HSETNX', bucket, mark, text(chunk)) == 0 then
      local chunks = call('HGET', bucket, mark)
      if not find(' ' .. chunks .. ' ', ' ' .. text(chunk) .. ' ', 1, true) then
        call('HSET', bucket, mark, chunks .. ' ' .. text(chunk))
      end
    end
  end

  -- Splits the next bucket.
  local function grow()
    if buckets == whole then
      whole = whole * 2
    end
    local from, to = STEM .. 'i' .. (buckets - whole / 2), STEM .. 'i' .. buckets
    local moved, gone, cursor = {}, {}, '0'
    repeat
      local scan = call('HSCAN', from, cursor, 'COUNT', 4 * PER_BUCKET)
      cursor = scan[1]
      for i = 1, #scan[2], 2 do
        if #scan[2][i] == 5 and struct.unpack('>I5', scan[2][i]) % whole == buckets then
          gone[#gone + 1] = scan[2][i]
          moved[#moved + 1] = scan[2][i]
          moved[#moved + 1] = scan[2][i + 1]
        end
      end
    until cursor == '0'
    if #gone > 0 then
      call('HSET', to, unpack(moved))
      call('HDEL', from, unpack(gone))
    end
    buckets = buckets + 1
  end

  -- The chunk of a packed task, and the index of its id there; nothing for another task.
  local function seek(id)
    local bucket, mark = mark_of(id)
    for chunk in string.gmatch(call('HGET', bucket, mark) or '', '%d+') do
      local at = call('LPOS', STEM .. chunk, id)
      if at and at % 2 == 0 then
        return tonumber(chunk), at
      end
    end
  end

  local function slot_end(chunk, due)
    local width = chunk % 2 == 0 and HOUR_MS or MINUTE_MS
    return (math.floor(due / width) + 1) * width
  end

  -- The number of the chunk that the next task goes to, in the slot of a chunk, as text.
  local function open_at(chunk, due)
    return match(call('HGET', OPEN, slot_of(chunk, due)) or '', '^%d+')
  end

  local function forget_chunk(chunk)
    local zset = zset_of(chunk)
    local due = tonumber(call('ZSCORE', zset, chunk))
    call('ZREM', zset, chunk)
    if due and open_at(chunk, due) == text(chunk) then
      call('HDEL', OPEN, slot_of(chunk, due))
    end
  end

  local function size_of(value)
    local length = #value + (#value < 64 and 1 or 2)
    return length + (length < 128 and 1 or 2)
  end

  -- Places that tasks are about to be put into: `open` by slot, as in OPEN; `tasks` and `first` due
  -- time by chunk. They are written once for all tasks of a call: see far.add.
  local function new_places()
    return { open = {}, tasks = {}, first = {} }
  end

  local function put(places, id, value, due)
    local bytes = math.max(size_of(id) + size_of(value), LEAST_BYTES)
    local function open_of(slot)
      return match(places.open[slot] or call('HGET', OPEN, slot) or '', '^(%d+) (%d+) (%d+)$')
    end
    local odd, slot = 0, 'h' .. math.floor(due / HOUR_MS)
    local chunk, used, made = open_of(slot)
    if made and tonumber(made) >= WIDE and used + bytes > CHUNK_BYTES then
      odd, slot = 1, 'm' .. math.floor(due / MINUTE_MS)
      chunk, used, made = open_of(slot)
    end
    chunk, used = tonumber(chunk), tonumber(used or 0)
    if not chunk or used + bytes > CHUNK_BYTES then
      repeat
        chunk_number = chunk_number + 1
        chunk_number = chunk_number + (chunk_number % 2 == odd and 0 or 1)
        local is_free = call('LLEN', STEM .. chunk_number) == 0
        -- After damage the last number may be too low.
        chunk_number = is_free and chunk_number or 2 * chunk_number
      until is_free
      chunk, used, made = chunk_number, 0, (made or 0) + 1
    end
    local tasks = places.tasks[chunk] or {}
    tasks[#tasks + 1], tasks[#tasks + 2] = id, value
    places.tasks[chunk], places.first[chunk] = tasks, math.min(places.first[chunk] or due, due)
    places.open[slot] = chunk .. ' ' .. (used + bytes) .. ' ' .. made
    add_mark(id, chunk)
    count = count + 1
    -- Two at most: after damage there may be many to split.
    for _ = 1, 2 do
      if count > PER_BUCKET * buckets then
        grow()
      end
    end
  end

  local function write(places)
    local open = {}
    for slot, value in pairs(places.open) do
      open[#open + 1], open[#open + 2] = slot, value
    end
    for chunk, tasks in pairs(places.tasks) do
      call('RPUSH', STEM .. chunk, unpack(tasks))
      call('ZADD', zset_of(chunk), 'LT', text(places.first[chunk]), chunk)
    end
    call('HSET', OPEN, unpack(open))
    call('HSET', META, 'far_chunk', text(chunk_number))
    save()
  end

  -- Removes a packed task. Returns its record and its due time.
  local function take_out(id, chunk, at)
    local list = STEM .. chunk
    local record, due = unpacked(call('LINDEX', list, at + 1) or '')
    local first_due = tonumber(call('ZSCORE', zset_of(chunk), chunk))
    due = due or first_due or 0
    -- Removes nothing, and fails before any write if the user may not run it.
    call('LREM', list, 0, '')
    call('LSET', list, at, '')
    call('LSET', list, at + 1, '')
    call('LREM', list, 2, '')
    unmark(id, chunk)
    count = count - 1
    if call('LLEN', list) == 0 then
      forget_chunk(chunk)
    elseif due == first_due then
      local earliest
      for i, value in ipairs(call('LRANGE', list, 0, ALL)) do
        local other = i % 2 == 0 and select(2, unpacked(value))
        earliest = other and math.min(earliest or other, other) or earliest
      end
      call('ZADD', zset_of(chunk), text(earliest or first_due), chunk)
    end
    return record, due
  end

  -- Removes a chunk, with its tasks. Returns their ids and packed records, by turns, and the first
  -- due time.
  local function empty(chunk)
    local list = STEM .. chunk
    local pairs_of, due = call('LRANGE', list, 0, ALL), tonumber(call('ZSCORE', zset_of(chunk), chunk))
    forget_chunk(chunk)
    call('UNLINK', list)
    for i = 1, #pairs_of - 1, 2 do
      unmark(pairs_of[i], chunk)
    end
    count = count - math.floor(#pairs_of / 2)
    return pairs_of, due or 0
  end

  -- The chunk with the first packed task, and the time when that is due.
  local function first_chunk()
    local hour, minute = call('ZRANGE', HOURS, 0, 0, 'WITHSCORES'), call('ZRANGE', MINUTES, 0, 0, 'WITHSCORES')
    if #hour == 0 or #minute > 0 and tonumber(minute[2]) < tonumber(hour[2]) then
      hour = minute
    end
    return tonumber(hour[1]), tonumber(hour[2])
  end

  -- The first due time of all packed tasks, if there are any.
  function far.first()
    return count > 0 and select(2, first_chunk()) or nil
  end

  -- The record and the due time of a packed task; nothing for another one. Writes nothing.
  function far.find(id)
    local chunk, at = nil, nil
    if count > 0 then
      chunk, at = seek(id)
    end
    if not chunk then
      return nil
    end
    local record, due = unpacked(call('LINDEX', STEM .. chunk, at + 1) or '')
    return record, due or tonumber(call('ZSCORE', zset_of(chunk), chunk)) or 0
  end

  -- Unpacks the tasks without a record in `records`, where theirs are added.
  function far.bring(ids, records)
    local brought, dues = {}, {}
    for i, id in ipairs(count > 0 and ids or {}) do
      local chunk, at = nil, nil
      if not records[i] then
        chunk, at = seek(id)
      end
      if chunk then
        local record, due = take_out(id, chunk, at)
        records[i] = record
        brought[#brought + 1], brought[#brought + 2] = id, record
        dues[#dues + 1], dues[#dues + 2] = text(due), id
      end
    end
    if #brought > 0 then
      call('HSET', TASKS, unpack(brought))
      call('ZADD', DUE, unpack(dues))
      save()
    end
  end

  -- Removes a packed task.
  function far.remove(id)
    local chunk, at = seek(id)
    if chunk then
      take_out(id, chunk, at)
      save()
    end
  end

  -- True if a task with this due time is far enough.
  function far.is_late(due, now)
    return near ~= nil and due > now + near
  end

  -- The packed form of a record that is due at `due`; nil if it is too near, or has no such form.
  function far.form(record, due, now)
    return far.is_late(due, now) and packed(record) or nil
  end

  -- True if the type has so many scheduled tasks that further ones are packed.
  function far.is_full()
    return near ~= nil and check_zset(DUE) + count >= least
  end

  -- True if the type is to be marked as one that packs tasks. `born`: the field of META.
  function far.is_wanted(born)
    return far.is_full() and (only ~= 'new' or born)
  end

  -- True if the type packs tasks: it is marked for that, and full.
  function far.packs(split)
    return sub(split, 1, 1) == 'P' and far.is_full()
  end

  -- Adds tasks: id, packed form and due time of each. They must not be known.
  function far.add(tasks)
    local places = new_places()
    for i = 1, #tasks, 3 do
      put(places, tasks[i], tasks[i + 1], tasks[i + 2])
    end
    if #tasks > 0 then
      write(places)
    end
  end

  -- Packs a scheduled task without a history, if it is far.
  function far.send(id, record, due, now)
    local value = far.packs(split_of()) and far.form(record, due, now)
    if value and call('HEXISTS', TRAIL, id) == 0 then
      call('HDEL', TASKS, id)
      call('ZREM', DUE, id)
      far.add({ id, value, due })
    end
  end

  -- When a packed task that is due then has to be unpacked.
  function far.event(due)
    return math.max(due - lead, 0)
  end

  -- The earlier of the first due time and the time of the next unpacking, if there is one.
  function far.head()
    local due, packed_due = first(DUE), far.first()
    packed_due = packed_due and far.event(packed_due)
    return due and packed_due and math.min(due, packed_due) or due or packed_due
  end

  -- Unpacks about 100 of the tasks that are due soon, unless ENOUGH others are due before them.
  -- Returns the first due time of those that are left, and when the next ones have to be unpacked;
  -- nothing if there are none, no time if enough others are due.
  function far.open(now)
    local AT_ONCE, ENOUGH = 100, 256
    local opened, chunk, due = 0, first_chunk()
    while chunk and due <= now + lead do
      if call('ZCOUNT', DUE, '-inf', text(math.min(now, due - 1))) >= ENOUGH then
        return due
      elseif opened >= AT_ONCE then
        break
      end
      local tasks, first_due = empty(chunk)
      local records, dues = {}, {}
      for i = 1, #tasks - 1, 2 do
        local record, at = unpacked(tasks[i + 1])
        records[i], records[i + 1] = tasks[i], record
        dues[i], dues[i + 1] = text(at or first_due), tasks[i]
      end
      if #records > 0 then
        call('HSET', TASKS, unpack(records))
        call('ZADD', DUE, unpack(dues))
      end
      opened = opened + math.max(#records / 2, 1)
      chunk, due = first_chunk()
    end
    if opened > 0 then
      save()
    end
    return due, due and far.event(due)
  end

  -- Removes the packed tasks of about one chunk. Returns their number. `seen`, if given, is called
  -- with the id and the record of each.
  function far.purge(seen)
    local chunk = first_chunk()
    if count == 0 or not chunk then
      return 0
    end
    local before = count
    local tasks = empty(chunk)
    for i = 1, seen and #tasks - 1 or 0, 2 do
      seen(tasks[i], (unpacked(tasks[i + 1])))
    end
    local purged = before - count
    save()
    return purged
  end

  -- Corrects the count, unless it has changed since.
  function far.correct(told_changes, seen)
    if changes == told_changes then
      count = seen
      save()
    end
  end

  -- If the number of buckets was lost, takes one at which no bucket is large: the marks have to be
  -- made again.
  function far.restore_buckets()
    local chunks = call('ZCARD', HOURS) + call('ZCARD', MINUTES)
    if chunks > PER_BUCKET * buckets then
      while whole < chunks do
        whole = whole * 2
      end
      buckets = chunks
      save()
    end
  end

  -- Removes what is left when there are no packed tasks.
  function far.drop()
    call('UNLINK', HOURS, MINUTES, OPEN)
  end

  -- The parts of the layout, for the scripts that look through it.
  far.parts = { stem = STEM, hours = HOURS, minutes = MINUTES, hour = HOUR_MS, minute = MINUTE_MS, all = ALL,
    unpacked = unpacked, mark_of = mark_of, add_mark = add_mark, open_at = open_at,
    zset_of = zset_of, slot_end = slot_end,
    buckets = function()
      return buckets
    end }
  return far
end

