#!lua flags=allow-oom
-- Replaces chunks of figures, if each is still as it was read.
-- KEYS: 1 hash slot -> chunk, see figures.rs
-- ARGV: 1 how long they are kept, ms · for each slot: its name · the chunk as read, "" for none ·
--   the new chunk
-- Returns: 1 if they were replaced, 0 if another instance has changed one.
local FIGURES, lives = KEYS[1], ARGV[1]

for at = 2, #ARGV, 3 do
  if (call('HGET', FIGURES, ARGV[at]) or '') ~= ARGV[at + 1] then
    return 0
  end
end
for at = 2, #ARGV, 3 do
  call('HSET', FIGURES, ARGV[at], ARGV[at + 2])
end
call('PEXPIRE', FIGURES, lives)
return 1
