-- acknowledge: forgets what has been flushed, and only that: what was counted since the collecting stays.
--
-- KEYS[1]   state of the tenant;  KEYS[2]  its closed hours;  KEYS[3]  the shard's tenants with unflushed usage (set)
-- ARGV[1]   the tenant's member in that set
-- ARGV[2]   the usage of the running hour that was flushed
-- ARGV[2k+1], ARGV[2k+2]   a closed hour, and its usage that was flushed
-- reply     1 where nothing unflushed is left, else 0
-- cost      O(number of limits and flushed hours)
for k = 3, #ARGV, 2 do
  if call('HGET', KEYS[2], ARGV[k]) == ARGV[k + 1] then call('HDEL', KEYS[2], ARGV[k]) end
end
local state = call('GET', KEYS[1])
local usage, after = '', 0
if state then
  local _
  _, _, _, after = measure(state)
  usage = sub(state, after)
end
local pending = usage ~= '' and byte(usage, 9) == 1
if (pending and usage ~= ARGV[2]) or call('EXISTS', KEYS[2]) == 1 then return 0 end
if pending then
  call('SET', KEYS[1], sub(state, 1, after + 7) .. '\0' .. sub(usage, 10), 'KEEPTTL')
end
call('SREM', KEYS[3], ARGV[1])
return 1
