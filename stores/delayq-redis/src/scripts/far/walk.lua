-- Goes through the chunks in small steps, for the scripts that look at all packed tasks. A place is
-- "h" or "m" for the hours or the minutes, then the first due time and the number of the last
-- chunk seen in order, or "" for the beginning; after a space that of the chunk of its slot which
-- was seen ahead of the others. The hours come first; the place after the last chunk is "".
local far = far_of(nil, true)
local parts = far.parts

local function zset_at(kind)
  return kind == 'h' and parts.hours or parts.minutes, kind == 'h' and parts.hour or parts.minute
end

-- Calls `look(chunk, first due, end of its slot)` for chunks with tasks due in [from, to], until it
-- has returned a sum of `most`. Returns the next place. A chunk that stays is seen, whatever is
-- packed and unpacked meanwhile: the first due time of the open chunk of a slot may become earlier,
-- so that one is seen first; the others are seen in order, and their times only become later.
local function walk(kind, at, chunk, span, look)
  local most = span.most
  local zset, width = zset_at(kind)
  local last, ahead = match(chunk, '^(%d*) ?(%d*)$')
  local rank = at == '' and call('ZCOUNT', zset, '-inf', '(' .. text(math.max(span.from - width, 0)))
    or rank_after(zset, at, last)
  local slot = at ~= '' and math.floor(at / width)
  while most > 0 do
    local page = call('ZRANGE', zset, rank, rank + 15, 'WITHSCORES')
    for i = 1, #page, 2 do
      local number, due = page[i], tonumber(page[i + 1])
      if due > span.to then
        page = {}
        break
      end
      local stop = (math.floor(due / width) + 1) * width
      if slot ~= math.floor(due / width) then
        slot, ahead = math.floor(due / width), parts.open_at(tonumber(number), due) or ''
        local own = ahead ~= '' and stop > span.from and tonumber(call('ZSCORE', zset, ahead))
        most = most - (own and look(tonumber(ahead), own, stop) or 0)
      end
      if number ~= ahead and stop > span.from then
        most = most - look(tonumber(number), due, stop)
      end
      at, chunk = page[i + 1], number .. ' ' .. ahead
      if most <= 0 then
        return kind, at, chunk
      end
    end
    if #page < 32 then
      return kind == 'h' and 'm' or '', '', ''
    end
    rank = rank + 16
  end
  return kind, at, chunk
end

-- Calls `see(id, record, due)` for each task of a chunk.
local function each_of(chunk, first_due, see)
  local list = call('LRANGE', parts.stem .. chunk, 0, parts.all)
  for i = 1, #list - 1, 2 do
    local record, due = parts.unpacked(list[i + 1])
    see(list[i], record, due or first_due)
  end
end

