-- Selects the dead tasks that an operator means.

-- ARGV from `at` on: "ids", then ids; or "page", after this time or "" and this id, died before,
-- maximum number, text in the last error or "". Looks at up to 128. Returns the ids selected and,
-- with "page", where to continue.
local function dead_meant(at)
  local LOOK_AT = 128
  local meant, next_at, next_id = {}, -1, ''
  if ARGV[at] == 'ids' then
    for i = at + 1, #ARGV do
      if call('ZSCORE', DEAD, ARGV[i]) then
        meant[#meant + 1] = ARGV[i]
      end
    end
    return meant, next_at, next_id
  end
  local after_at, after_id, before = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local limit, needle = tonumber(ARGV[at + 4]), ARGV[at + 5]
  local from = after_at ~= '' and rank_after(DEAD, after_at, after_id) or 0
  local page = call('ZRANGE', DEAD, from, from + LOOK_AT - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local id, died = page[i], tonumber(page[i + 1])
    if died >= before then
      return meant, -1, ''
    elseif #meant >= limit then
      return meant, next_at, next_id
    end
    local problem = needle ~= '' and split_error(parse_trail(call('HGET', TRAIL, id)).error) or ''
    if needle == '' or find(problem, needle, 2, true) then
      meant[#meant + 1] = id
    end
    next_at, next_id = died, id
  end
  if #page < 2 * LOOK_AT then
    next_at = -1
  end
  return meant, next_at, next_id
end

