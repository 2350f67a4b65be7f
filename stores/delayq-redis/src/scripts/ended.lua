#!lua flags=no-writes
-- Returns some of the remembered ends in one state, in no order.
-- KEYS: the ten of model.lua.
-- ARGV: 1 generation: 8 the younger, 9 the older (the younger must be read first: it may become the
--   older one meanwhile) · 2 cursor · 3 state: d done, c cancelled, e expired · 4 retention, ms · 5
--   not before this time, ms · 6 not after this one, ms
-- Returns: the next cursor, 0 at the end · then for each: id · its record · its error, in hex, or
--   "".
local key, cursor, state = KEYS[tonumber(ARGV[1])], ARGV[2], ARGV[3]
local retention, from, to = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local AT_ONCE = 500

from = math.max(from, clock() - retention + 1)
local scan = call('HSCAN', key, cursor, 'COUNT', AT_ONCE)
local reply = { scan[1] }
for i = 1, #scan[2], 2 do
  local id, value = scan[2][i], scan[2][i + 1]
  local ended = tonumber(match(value, '^' .. state .. '(%d+) '))
  if ended and ended >= from and ended <= to and sub(id, 1, #NOTE) ~= NOTE then
    reply[#reply + 1] = id
    reply[#reply + 1] = value
    reply[#reply + 1] = state == 'd' and note_of(id, value) or ''
  end
end
return reply
