-- pool_show: who runs and who waits in a pool.
--
-- KEYS[1..5]  the pool, see pool.lua, also for the arguments
-- reply       us until slots are given out, 0 where they are; mean duration of the pool's operations in us; for each
--             tenant that runs or waits: name, share, how many run, how many wait, us since the first of these came;
--             the ids of this process's that have slots now
-- cost        O(tenants of the pool)
close()
local reply, all = {}, call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local tenant, oldest_us = known(all[i]), 0
  if tenant.waiting > 0 then
    local line = 'w' .. tenant.digest
    oldest_us = math.max(0, now - unpack('>d', first(line, line .. string.rep('\255', 25)), 14))
  end
  if tenant.running + tenant.waiting > 0 then
    reply[#reply + 1] = {tenant.name, tenant.share, tenant.running, tenant.waiting, oldest_us}
  end
end
return {math.max(0, pool.opens - now), pool.mean * 1000000, reply, granted}
