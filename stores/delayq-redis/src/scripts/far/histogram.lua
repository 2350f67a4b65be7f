#!lua flags=no-writes
-- Counts some of the packed tasks due between each bound and the next.
-- KEYS: the ten of model.lua.
-- ARGV: 1, 2, 3 the place, see walk.lua · then the bounds, ms, ascending
-- Returns: the next place (three) · the counts, one fewer than bounds.
local FIRST_BOUND = 4
local MOST, COST_OF_READING = 1000, 25
local bounds, counts = {}, {}
for i = FIRST_BOUND, #ARGV do
  bounds[#bounds + 1] = tonumber(ARGV[i])
  counts[#bounds] = 0
end
local steps = #bounds - 1

-- The step of a time, 0 before the first and steps + 1 after the last.
local function step_of(time)
  local low, high = 0, #bounds
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if bounds[middle] <= time then
      low = middle
    else
      high = middle - 1
    end
  end
  return low
end

local kind, at, chunk = walk(ARGV[1], ARGV[2], ARGV[3], { from = bounds[1], to = bounds[#bounds], most = MOST },
  function(number, first_due, stop)
    local step = step_of(first_due)
    if step == step_of(stop - 1) then
      if step >= 1 and step <= steps then
        counts[step] = counts[step] + call('LLEN', parts.stem .. number) / 2
      end
      return 1
    end
    each_of(number, first_due, function(_, _, due)
      local own = step_of(due)
      if own >= 1 and own <= steps then
        counts[own] = counts[own] + 1
      end
    end)
    return COST_OF_READING
  end)
local reply = { kind, at, chunk }
for i = 1, steps do
  reply[#reply + 1] = counts[i]
end
return reply
