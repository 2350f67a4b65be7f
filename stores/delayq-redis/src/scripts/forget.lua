#!lua flags=allow-oom
-- Forgets some of the ended tasks in one state.
-- KEYS: the ten of model.lua.
-- ARGV: 1 generation: 9 the older, 8 the younger (the older must go first: entries hidden by the
--   younger must not reappear) · 2 cursor · 3 state: d done, c cancelled, e expired · 4 retention,
--   ms
-- Returns: the next cursor, 0 at the end · the number of forgotten tasks that a query would still
--   have found.
local key, cursor, state, retention = KEYS[tonumber(ARGV[1])], ARGV[2], ARGV[3], tonumber(ARGV[4])
local AT_ONCE = 128

local now = clock()
local scan = call('HSCAN', key, cursor, 'COUNT', AT_ONCE)
local forgotten, has_written = 0, false
for i = 1, #scan[2], 2 do
  local id, ended = scan[2][i], tonumber(match(scan[2][i + 1], '^' .. state .. '(%d+) '))
  if ended then
    has_written = true
    local is_note = sub(id, 1, #NOTE) == NOTE
    local is_hidden = is_note or key == GONE_OLD and call('HEXISTS', GONE, id) == 1
    if call('HDEL', key, id) == 1 and not is_hidden and ended + retention > now then
      forgotten = forgotten + 1
    end
  end
end
if not has_written then
  touch()
end
return { scan[1], forgotten }
