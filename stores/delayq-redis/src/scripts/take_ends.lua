#!lua flags=allow-oom
-- Removes records of ends that are stored elsewhere.
-- KEYS: the ten of model.lua.
-- ARGV: for each: its place · its size in bytes
-- Returns: the number that was still there.
check_hash(META)
call('XLEN', ENDS)
local removed, bytes = 0, tonumber(call('HGET', META, 'ends_bytes') or 0) or 0
for i = 1, #ARGV, 2 do
  if call('XDEL', ENDS, ARGV[i]) == 1 then
    removed = removed + 1
    bytes = bytes - (tonumber(ARGV[i + 1]) or 0)
  end
end
if removed == 0 then
  touch()
else
  -- The empty stream stays: it knows which places were given.
  bytes = call('XLEN', ENDS) > 0 and bytes or 0
  call('HSET', META, 'ends_bytes', text(math.max(bytes, 0)))
end
return removed
