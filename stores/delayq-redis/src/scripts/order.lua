-- Positions in a sorted set, by time and id.

-- True if id `a` sorts before `b`, by bytes as Redis orders them; `<` would follow the server's
-- locale.
local function is_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- The rank of the first member after (at, id), which need not exist (any more). O(log n).
local function rank_after(zset, at, id)
  local low, high = call('ZCOUNT', zset, '-inf', '(' .. at), call('ZCOUNT', zset, '-inf', at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = call('ZRANGE', zset, middle, middle)[1]
    if other == id or is_before(other, id) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

