-- begin: the stamps on which a policy may be built now, made where the store has none.
--
-- KEYS[1]   stamp of the tenant's shard (string, 8 bytes)
-- KEYS[2]   state of the tenant (string, see prelude.lua)
-- ARGV[1]   a random stamp for the shard, 8 bytes;  ARGV[2]  one for the tenant
-- reply     bytes: tenant's stamp c8, shard's stamp c8, the server's now in us d
-- cost      O(1)
assert(#ARGV[1] == 8 and #ARGV[2] == 8)
-- MGET finds nothing where GET would fail: something else stands under that key, and is replaced.
local shard, state = values(call('MGET', KEYS[1], KEYS[2]))
if not shard or #shard ~= 8 then
  shard = ARGV[1]
  call('SET', KEYS[1], shard, 'PX', USAGE_TTL_MS)
end
if state and #state < 10 then state = false end
local stamp = state and sub(state, 1, 8)
if not state then
  stamp = ARGV[2]
  call('SET', KEYS[2], stamp .. '\1\0', 'PX', FRESH_TTL_MS)
elseif stamp == NO_LEASE then
  stamp = ARGV[2]
  call('SET', KEYS[2], stamp .. sub(state, 9), 'KEEPTTL')
end
return stamp .. shard .. pack('<d', now)
