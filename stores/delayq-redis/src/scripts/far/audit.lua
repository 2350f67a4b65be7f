#!lua flags=allow-oom
-- Checks some packed tasks: each must have a mark that leads to it, a readable record, a due time
-- in its slot, and no other place; and some marks: each must lead to a task.
-- KEYS: the ten of model.lua.
-- ARGV: 1, 2, 3 the place, see walk.lua; after the chunks "n", a bucket, "", to count marks; then
--   "i", a bucket, "", to check them, which takes longer than all the rest; to correct the count
--   "c", the number of changes as it was told, the number of tasks seen; to unpack a task "b", its
--   id, "" · 4 "1" to mend
-- Returns: the next place (three) · the number of changes of the count, before this step and after
--   it · the number of packed tasks by the count · the number of marks that were counted now ·
--   then for each task checked: id · record · letters of the problems: z its chunk is not among
--   those to be unpacked, m no mark leads to it, j in another place, too, d unreadable record, w in
--   the wrong slot; and for each mark: the mark in hex · "" · o it leads to no task
local kind, at, chunk, mends = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local AT_ONCE, BUCKETS_AT_ONCE = 4, 32

check_all()
local reply = { '', '', '', (select(2, far.count())), 0, 0, 0 }

local function add(id, record, wrong)
  reply[#reply + 1] = id
  reply[#reply + 1] = record
  reply[#reply + 1] = wrong
end

local function leads(id, number)
  local bucket, mark = parts.mark_of(id)
  return find(' ' .. (call('HGET', bucket, mark) or '') .. ' ', ' ' .. text(number) .. ' ', 1, true) ~= nil
end

-- `lack`: what is wrong with each of its tasks.
local function look(number, first_due, stop, lack)
  local list = call('LRANGE', parts.stem .. number, 0, parts.all)
  for i = 1, #list - 1, 2 do
    local id, wrong = list[i], lack or ''
    local record, due = parts.unpacked(list[i + 1])
    local is_double = call('HEXISTS', TASKS, id) == 1
    if not leads(id, number) then
      wrong = wrong .. 'm'
      if mends then
        parts.add_mark(id, number)
      end
    end
    if is_double then
      wrong = wrong .. 'j'
    end
    if not due then
      wrong = wrong .. 'd'
    elseif due < first_due or due >= stop then
      wrong = wrong .. 'w'
    end
    if mends and is_double then
      far.remove(id)
    elseif mends and (not due or due < first_due or due >= stop) then
      far.bring({ id }, {})
    end
    add(id, record, wrong)
  end
  if #list == 0 and mends then
    call('ZREM', parts.zset_of(number), number)
  end
  return 1
end

-- Looks at a chunk that marks lead to and that is not among those to be unpacked. `list`: what it
-- has.
local function look_at_lost(number, list)
  local first_due
  for i = 2, #list, 2 do
    local _, due = parts.unpacked(list[i])
    first_due = due and math.min(first_due or due, due) or first_due
  end
  first_due = first_due or clock()
  if mends then
    call('ZADD', parts.zset_of(number), text(first_due), number)
  end
  look(number, first_due, parts.slot_end(number, first_due), 'z')
end

-- The marks of a bucket, with their chunks.
local function marks_of(bucket)
  local cursor, marks = '0', {}
  repeat
    local scan = call('HSCAN', bucket, cursor, 'COUNT', 512)
    cursor = scan[1]
    for i = 1, #scan[2], 2 do
      marks[scan[2][i]] = scan[2][i + 1]
    end
  until cursor == '0'
  return marks
end

local function count_marks(number)
  for _, chunks in pairs(marks_of(parts.stem .. 'i' .. number)) do
    local _, count = string.gsub(chunks, '%d+', '')
    reply[7] = reply[7] + count
  end
end

local function look_at_marks(number)
  local bucket, marked = parts.stem .. 'i' .. number, {}
  for mark, chunks in pairs(marks_of(bucket)) do
    local is_used = false
    for other in string.gmatch(chunks, '%d+') do
      if not marked[other] then
        marked[other] = {}
        local list = call('LRANGE', parts.stem .. other, 0, parts.all)
        for i = 1, #list, 2 do
          local home, own = parts.mark_of(list[i])
          marked[other][own] = home == bucket
        end
        -- Once only: several buckets lead to it.
        local is_first = #list > 0 and (mends or parts.mark_of(list[1]) == bucket)
        if is_first and not call('ZSCORE', parts.zset_of(tonumber(other)), other) then
          look_at_lost(tonumber(other), list)
        end
      end
      is_used = is_used or marked[other][mark]
    end
    if not is_used then
      add(string.gsub(mark, '.', function(letter)
        return format('%02x', string.byte(letter))
      end), '', 'o')
      if mends then
        call('HDEL', bucket, mark)
      end
    end
  end
end

if kind == 'c' then
  far.correct(tonumber(at), tonumber(chunk))
  kind, at, chunk = '', '', ''
elseif kind == 'b' then
  far.bring({ at }, {})
  kind, at = '', ''
elseif kind == 'n' then
  local stop = math.min(at + BUCKETS_AT_ONCE, parts.buckets())
  for number = tonumber(at), stop - 1 do
    count_marks(number)
  end
  local is_last = stop >= parts.buckets()
  kind, at = is_last and 'i' or 'n', is_last and '0' or text(stop)
elseif kind ~= 'i' then
  if mends and kind == 'h' and at == '' then
    far.restore_buckets()
  end
  kind, at, chunk = walk(kind, at, chunk, { from = 0, to = LAST_MS, most = AT_ONCE }, look)
  if kind == '' then
    kind, at = 'n', '0'
  end
else
  look_at_marks(tonumber(at))
  local is_last = tonumber(at) + 1 >= parts.buckets()
  kind, at = is_last and '' or 'i', is_last and '' or text(at + 1)
end
reply[1], reply[2], reply[3] = kind, at, chunk
reply[6], reply[5] = far.count()
return reply
