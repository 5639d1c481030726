-- move: gives a tenant a new stamp, so that every policy built before is stale. A tenant without state needs none.
--
-- KEYS[1]   state of the tenant (string, see prelude.lua)
-- ARGV[1]   a random stamp, 8 bytes
-- reply     1 where there was a state, else 0
-- cost      O(1)
assert(#ARGV[1] == 8)
local state = call('GET', KEYS[1])
if not state then return 0 end
call('SET', KEYS[1], ARGV[1] .. sub(state, 9), 'KEEPTTL')
return 1
