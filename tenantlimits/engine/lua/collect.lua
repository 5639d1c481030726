-- collect: everything counted for a tenant that may not be flushed yet. It changes nothing.
--
-- KEYS[1]   state of the tenant (string, see prelude.lua)
-- KEYS[2]   its closed hours (hash: start of the hour in s -> usage, see usage.lua)
-- reply     the server's now in us, the usage of the running hour ('' where there is none), then hour, usage pairs
-- cost      O(number of limits and unflushed hours)
local state = call('GET', KEYS[1])
local reply = {pack('<d', now), ''}
if state then
  local _, _, _, after = measure(state)
  reply[2] = sub(state, after)
end
for _, part in ipairs(call('HGETALL', KEYS[2])) do reply[#reply + 1] = part end
return reply
