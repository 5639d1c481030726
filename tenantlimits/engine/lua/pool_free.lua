-- pool_free: somebody frees the oldest slot of a tenant by hand. Its holder runs on, and does not get it back.
--
-- KEYS[1..5]  the pool, see pool.lua
-- ARGV[1..2]  see pool.lua
-- ARGV[3]     digest of the tenant, 12 bytes
-- reply       1 where it had a slot, else 0; then the ids of this process's that have slots now
-- cost        O(operations of the pool)
local oldest
local all = call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local one = read(all[i], all[i + 1])
  if one.digest == ARGV[3] and one.status == RUNS and (not oldest or one.since < oldest.since) then oldest = one end
end
if oldest then
  give_up(oldest)
  oldest.status, pool.freed = FREED, pool.freed + 1
  keep(oldest)
  hand_on()
end
close()
return with_granted({oldest and 1 or 0})
