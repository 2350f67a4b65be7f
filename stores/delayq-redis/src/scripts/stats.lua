#!lua flags=no-writes
-- Counts of one type.
-- KEYS: the ten of model.lua.
-- ARGV: none.
-- Returns: present time · scheduled · due · running · dead · first due, ms, or -1 · end of the
--   pause, ms, or -1 · max_pending, if the shard takes new tasks, or -1 · tasks refused because of
--   it · fleet concurrency by the settings, or -1 · fleet rate by the settings, or "" · split, as
--   in split_of() · the totals, in order · the number of remembered ends · the time since which all
--   are remembered, apart from the retention, ms · history, see ends.lua, or "" · 1 if packed tasks
--   are due, which are not counted among the due ones.
local now = clock()
local meta, split = numbers_of_meta('pause', 'max_pending', 'refused', 'fleet_concurrency'), split_of()
local totals, began = numbers_of_meta(unpack(TOTALS)), numbers_of_meta('gone')[1]
local pause = meta[1] or 0
local far, next_due = far_of(), first(DUE)
local packed, first_packed = far and far.count() or 0, far and far.first()
if next_due and first_packed then
  next_due = math.min(next_due, first_packed)
end
local remembered = call('HLEN', GONE) + call('HLEN', GONE_OLD)
if remembered > 0 then
  remembered = math.max(remembered - notes_in('noted', began) - notes_in('noted_old', began), 0)
end
return {
  now,
  call('ZCARD', DUE) + packed,
  call('ZCOUNT', DUE, '-inf', now),
  call('ZCARD', RUNNING),
  call('ZCARD', DEAD),
  next_due or first_packed or -1,
  pause > now and pause or -1,
  split ~= '-' and meta[2] or -1,
  meta[3] or 0,
  meta[4] or -1,
  call('HGET', META, 'fleet_rate') or '',
  split,
  totals[1] or 0,
  totals[2] or 0,
  totals[3] or 0,
  totals[4] or 0,
  totals[5] or 0,
  remembered,
  known_since(began),
  call('HGET', META, 'history') or '',
  first_packed and first_packed <= now and 1 or 0,
}
