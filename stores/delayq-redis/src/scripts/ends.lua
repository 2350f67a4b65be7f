-- Records of ends, for a history: each is written in the step that ends its task.

-- META's history: "<bytes of a message to keep> <maximum size of the records>"; none: nothing is
-- recorded. META's ends_bytes: the size of the records that wait; ends_lost: those dropped because
-- of the maximum.
-- ENDS is a stream of four fields: "a" "<letter><ended, ms> <1 if it was running> <fence>
-- <attempts> <holder or -> <bytes of the message>" · "i" id · "r" the record, its message cut off ·
-- "h" the trail, or "". Letters: d done, c cancelled, e expired, k dead, x removed by an operator.
local ENDS = KEYS[10]
local recorder

-- The settings; false if nothing is recorded. Called before any write.
local function recording()
  if recorder == nil then
    local kept, most = match(call('HGET', META, 'history') or '', '^(%d+) (%d+)$')
    recorder = kept and { kept = tonumber(kept), most = tonumber(most) } or false
    if recorder then
      call('XLEN', ENDS)
    end
  end
  return recorder
end

-- Notes an end. `lock` is that of the attempt that ends with it, if one does.
local function record_end(id, letter, now, lock, trail, record)
  if not recording() or not record then
    return
  end
  local head = find(record, '\n', 1, true) or #record
  local fence, attempts = trail.settled, trail.failures + trail.expiries
  local holder = '-'
  if lock then
    local own_fence, own_attempt = match(lock, '^(%d+) (%d+)')
    fence = own_fence or fence
    if letter == 'd' or letter == 'c' or letter == 'e' then
      attempts = math.max(attempts, tonumber(own_attempt) or 0)
    end
    holder = match(lock, ' @(%w+) ') or holder
  end
  local about = letter .. text(now) .. (lock and ' 1 ' or ' 0 ') .. fence .. ' ' .. text(attempts) .. ' ' .. holder
    .. ' ' .. text(#record - head)
  recorder[#recorder + 1] = { about, id, sub(record, 1, head + recorder.kept), trail_text(trail) }
end

-- Notes that an operator removes these tasks.
local function record_removals(ids)
  if not recording() or #ids == 0 then
    return
  end
  local now = clock()
  local records, trails = call('HMGET', TASKS, unpack(ids)), call('HMGET', TRAIL, unpack(ids))
  for i, id in ipairs(ids) do
    record_end(id, 'x', now, nil, parse_trail(trails[i]), records[i])
  end
end

local PLACE_BYTES = 64
-- More than one step writes, so a bound that was lowered is reached, too.
local DROPS_AT_ONCE = 256

-- Writes what was noted, and drops the oldest records beyond the maximum.
local function write_ends()
  if not recorder or #recorder == 0 then
    return
  end
  local bytes = tonumber(call('HGET', META, 'ends_bytes') or 0) or 0
  for _, one in ipairs(recorder) do
    call('XADD', ENDS, '*', 'a', one[1], 'i', one[2], 'r', one[3], 'h', one[4])
    bytes = bytes + PLACE_BYTES + #one[1] + #one[2] + #one[3] + #one[4]
  end
  local lost = 0
  while bytes > recorder.most and lost < DROPS_AT_ONCE do
    local oldest = call('XRANGE', ENDS, '-', '+', 'COUNT', 1)[1]
    if not oldest then
      bytes = 0
      break
    end
    local fields = oldest[2]
    bytes = bytes - PLACE_BYTES - #fields[2] - #fields[4] - #fields[6] - #fields[8]
    call('XDEL', ENDS, oldest[1])
    lost = lost + 1
  end
  call('HSET', META, 'ends_bytes', text(math.max(bytes, 0)))
  if lost > 0 then
    lost = lost + (tonumber(call('HGET', META, 'ends_lost') or 0) or 0)
    call('HSET', META, 'ends_lost', text(lost))
  end
end

