#!lua flags=allow-oom
-- Keeps the reply of an attempt, unless there is one with a larger fence.
-- KEYS: 1 hash f -> fence, a -> when it was kept (ms), t -> content type, b -> body; it expires
-- ARGV: 1 fence · 2 retention, ms · 3 content type · 4 body
-- Returns: 1 if it was kept.
local REPLY, fence = KEYS[1], tonumber(ARGV[1])

check_hash(REPLY)
if fence < tonumber(call('HGET', REPLY, 'f') or '0') then
  return 0
end
call('HSET', REPLY, 'f', ARGV[1], 'a', text(clock()), 't', ARGV[3], 'b', ARGV[4])
call('PEXPIRE', REPLY, ARGV[2])
return 1
