#!lua flags=allow-oom
-- Seals a partition: from now on it takes no id that it does not know, and drains.
-- KEYS: the nine of model.lua. ARGV: none.
-- Returns: end of the pause, ms, or "" · most scheduled tasks or "".
call('HSET', META, 'v', 1, 'split', '-')
local meta = call('HMGET', META, 'pause', 'max_pending')
return { meta[1] or '', meta[2] or '' }
