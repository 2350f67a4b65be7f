#!lua flags=allow-oom
-- Writes or removes a document, and counts the folder's changes.
-- KEYS: 1 hash name -> "<revision> <body>"; the field "" has the revision of the folder
-- ARGV: 1 name · 2 required state: "any", "absent" or a revision · 3 maximum number of documents ·
--   4 the body; without it the document is removed
-- Returns: "written" and the revision · "conflict" and that of the present document, 0 for none ·
--   "full" and 0 · "removed" and the revision · "absent" and 0
local FOLDER = KEYS[1]
local name, expected, most, body = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

check_hash(FOLDER)
local present = call('HGET', FOLDER, name)
local revision, stored = match(present or '', '^(%d+) (.*)$')
local next = text(tonumber(call('HGET', FOLDER, '') or '0') + 1)
if not body then
  if not present then
    return { 'absent', '0' }
  end
  call('HSET', FOLDER, '', next)
  call('HDEL', FOLDER, name)
  return { 'removed', next }
end
if revision and stored == body then
  return { 'written', revision }
end
local is_met = expected == 'any' or expected == (revision or 'absent')
if not is_met then
  return { 'conflict', revision or '0' }
end
if not present and call('HLEN', FOLDER) > most then
  return { 'full', '0' }
end
call('HSET', FOLDER, '', next, name, next .. ' ' .. body)
return { 'written', next }
