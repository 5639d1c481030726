-- pool_enter: an operation wants a slot: it has one at once, or waits, or may not even wait. It never passes another.
--
-- KEYS[1..5]  the pool, see pool.lua
-- ARGV[1..2]  see pool.lua
-- ARGV[3]     id of the operation, 8 bytes
-- ARGV[4]     the tenant's share d, room for those of it that wait d, whether this one may wait d (1, 0), digest c12
-- ARGV[5]     name of the tenant
-- reply       0 waits, 1 queue full, 2 share full, 3 capacity full, 4 has a slot; how many of the tenant run and wait;
--             mean duration of the pool's operations in us; us until slots are given out, 0 where they are; then the ids
--             of this process's that have slots now
-- cost        O(log(operations of the pool)) for each that is granted
local share, room, may_wait, digest = unpack('<dddc12', ARGV[4])
local tenant, one = tenant_of(digest, share, ARGV[5]), {id = ARGV[3], process = process, digest = digest}

local function entered()
  local is_within = tenant.running < share
  local may_run = is_within or (pool.waiting == 0 and pool.borrowed < lent)
  if tenant.waiting == 0 and may_run and is_open() then
    take(tenant, one)
    return 4
  end
  if may_wait == 1 and pool.waiting < queue and tenant.waiting < room then
    wait(tenant, one, now)
    return 0
  end
  rest(tenant)
  if may_wait == 1 then return 1 end
  return is_within and 3 or 2
end

local status = entered()
close()
return with_granted({status, tenant.running, tenant.waiting, pool.mean * 1000000, math.max(0, pool.opens - now)})
