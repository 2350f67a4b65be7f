-- Log of actions: what its scripts share.
local ACTIONS = KEYS[1]

-- The number of the latest action: numbers have no gaps, so that of an older one leads to it if the
-- latest are damaged.
local function last_number()
  for at = 0, 9 do
    local number = match(call('LINDEX', ACTIONS, at) or '', '^(%d+) ')
    if number then
      return tonumber(number) + at
    end
  end
  return call('LLEN', ACTIONS)
end

