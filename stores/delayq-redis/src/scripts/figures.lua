#!lua flags=allow-oom
-- Replaces chunks of figures, if each still is what was read.
-- KEYS: 1 hash slot -> chunk, see figures.rs
-- ARGV: 1 how long they are kept, ms · for each slot: its name · what was read, "" for none · the
--   new chunk
-- Returns: whether they were replaced: not if another instance came between.
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
