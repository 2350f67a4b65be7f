#!lua flags=allow-oom
-- Records the error of a task that was settled as done before it started.
-- KEYS: the ten of model.lua.
-- ARGV: 1 id · 2 the fence that settled it · 3 a plus and the error, in hex
-- Returns: 1 if it was recorded; 0 if another lock has settled the task, or it has an error
--   already.
local id, fence, problem = ARGV[1], ARGV[2], ARGV[3]

check_all()
local meta, began = numbers_of_meta(unpack(TOTALS)), numbers_of_meta('gone')[1]
for _, key in ipairs({ GONE, GONE_OLD }) do
  local ended = call('HGET', key, id)
  if ended then
    local head, settled = match(ended, '^(d%d+ (%d+) )')
    if settled ~= fence or note_of(id, ended) ~= '' then
      return 0
    end
    call('HSET', key, NOTE .. id, head .. '0 ' .. problem)
    if key == GONE and began then
      call('HSET', META, 'noted', text(began) .. ' ' .. text(notes_in('noted', began) + 1))
    end
    add_to_totals({ failed = 1 }, meta, 0)
    return 1
  end
end
return 0
