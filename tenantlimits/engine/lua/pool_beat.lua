-- pool_beat: a sign of life of a process for all that it has in a pool. What the store has lost waits again, and has its
-- slot again where there is one. It never takes a slot above the capacity.
--
-- KEYS[1..5]    the pool, see pool.lua
-- ARGV[1..2]    see pool.lua
-- ARGV[3k]      id of an operation, 8 bytes
-- ARGV[3k+1]    1 waits or 2 has a slot B, whether it may have it again after the store has lost it B (1, 0),
--               the tenant's share d, age d in us, digest c12
-- ARGV[3k+2]    name of its tenant
-- reply         for each 0 not there any more, 1 waits, 2 has a slot; then the ids of this process's that were given one
-- cost          O(log(operations of the pool)) for each operation
local reply = {}

-- What the store does not know is there again, where that is right.
local function restored(id, tenant, sign)
  local one = {id = id, process = process, digest = tenant.digest}
  if sign.status == WAITS then
    wait(tenant, one, now - sign.age_us)
    return WAITS
  end
  if sign.is_again == 1 and pool.running < capacity then
    take(tenant, one)
    return RUNS
  end
  rest(tenant)
  return 0
end

local function renewed(id, sign)
  local one = operation(id)
  if one and sign.status == RUNS and one.status == WAITS then
    -- It was told of a slot that the store has lost since then.
    finish(one)
    one = false
  end
  local tenant = tenant_of(sign.digest, sign.share, sign.name)
  if not one then return restored(id, tenant, sign) end
  if one.status == FREED then
    rest(tenant)
    return 0
  end
  call('ZADD', KEYS[4], now + (one.status == RUNS and lease_us or patience_us), id)
  return one.status
end

for i = 3, #ARGV, 3 do
  local sign = {name = ARGV[i + 2]}
  sign.status, sign.is_again, sign.share, sign.age_us, sign.digest = unpack('<BBddc12', ARGV[i + 1])
  reply[#reply + 1] = renewed(ARGV[i], sign)
end
hand_on()
close()
return with_granted(reply)
