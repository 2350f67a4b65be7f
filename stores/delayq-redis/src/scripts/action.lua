-- Log of actions: code shared by its scripts.
local ACTIONS = KEYS[1]

-- The number of the latest action. Numbers have no gaps, so if the latest entries are damaged, the
-- number follows from an older one.
local function last_number()
  for at = 0, 9 do
    local number = match(call('LINDEX', ACTIONS, at) or '', '^(%d+) ')
    if number then
      return tonumber(number) + at
    end
  end
  return call('LLEN', ACTIONS)
end

