#!lua flags=allow-oom
-- Changes the settings of one type.
-- KEYS: the nine of model.lua.
-- ARGV: 1 most scheduled tasks; "-": no bound, "": stays as it is
-- Returns: split_of().
local max_pending = ARGV[1]

check_hash(META)
if max_pending == '-' then
  if call('HDEL', META, 'max_pending') == 0 then
    touch()
  end
elseif max_pending ~= '' then
  call('HSET', META, 'max_pending', max_pending)
end
return split_of()
