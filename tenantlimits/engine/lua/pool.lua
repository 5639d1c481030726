-- pool: what the scripts of a pool share: its state, who is next, and what comes back by itself. Rules: domain/shares.py.
--
-- KEYS[1]  the pool (string): virtual time d in s, mean duration d in s, last number given out d, running d, waiting d,
--          freed d, borrowed d, opens at d in us (until then only what is known goes on), called last at d in us
-- KEYS[2]  tenants (hash): digest c12 -> share d, virtual end d, virtual arrival d, number d, running d, waiting d,
--          length of its place B, place, name
-- KEYS[3]  operations (hash): id c8 -> status B, process c8, since d in us, number d, charged d in s, digest c12
-- KEYS[4]  their ends (sorted set): id -> deadline in us
-- KEYS[5]  lines (sorted set; all scores are 0, so bytes give the order): places of tenants: a (waits, within its share),
--          b (above it), c (has none) or r (rests), virtual time and number, both d big-endian, digest;
--          and of each operation that waits: w, digest, since and number, both d big-endian, id
-- ARGV[1]  process that calls c8, capacity d, lent at most d, room in the queue d, lease d in us, patience d in us
-- ARGV[2]  what the channels of processes begin with
local WAITS, RUNS, FREED = 1, 2, 3
local POOL, TENANT, OPERATION = '<ddddddddd', '<ddddddB', '<Bc8dddc12'
local TENANT_BYTES, POOL_BYTES, MOST = 49, 72, 1000
local POOL_TTL_MS = 30 * 86400000
local SMOOTHING, AT_FIRST_SECONDS = 8, 0.001
local process, capacity, lent, queue, lease_us, patience_us = unpack('<c8ddddd', ARGV[1])
local pool, tenants, granted = {}, {}, {}

local function known(digest)
  if tenants[digest] == nil then
    local kept, one = call('HGET', KEYS[2], digest), {digest = digest}
    if kept then
      local length
      one.share, one.ends, one.arrived, one.number, one.running, one.waiting, length = unpack(TENANT, kept)
      one.place = length > 0 and sub(kept, TENANT_BYTES + 1, TENANT_BYTES + length)
      one.name = sub(kept, TENANT_BYTES + length + 1)
    end
    tenants[digest] = kept and one
  end
  return tenants[digest]
end

local function read(id, kept)
  local one = {id = id}
  one.status, one.process, one.since, one.number, one.charged, one.digest = unpack(OPERATION, kept)
  return one
end

local function operation(id)
  local kept = call('HGET', KEYS[3], id)
  return kept and read(id, kept)
end

local function keep(one)
  local kept = pack(OPERATION, one.status, one.process, one.since, one.number, one.charged, one.digest)
  call('HSET', KEYS[3], one.id, kept)
end

local function number()
  pool.number = pool.number + 1
  return pool.number
end

-- Turns

local function weight(tenant) return math.max(tenant.share, 1) end

local function borrowed(tenant) return math.max(0, tenant.running - tenant.share) end

local function run(tenant, more)
  pool.borrowed = pool.borrowed - borrowed(tenant)
  tenant.running, pool.running = tenant.running + more, pool.running + more
  pool.borrowed = pool.borrowed + borrowed(tenant)
end

local function begin(tenant, arrived)
  local start = math.max(arrived, tenant.ends)
  pool.virtual = math.max(pool.virtual, start)
  tenant.ends = start + pool.mean / weight(tenant)
  return pool.mean
end

local function charge(tenant, one)
  local seconds = math.max(0, now - one.since) / 1000000
  tenant.ends = tenant.ends + (seconds - one.charged) / weight(tenant)
  pool.mean = pool.mean + (seconds - pool.mean) / SMOOTHING
end

-- Lines

local function first(from, to)
  return call('ZRANGEBYLEX', KEYS[5], '[' .. from, '(' .. to, 'LIMIT', 0, 1)[1]
end

local function virtual_of(place) return (unpack('>d', place, 2)) end

local function stand(tenant, place)
  if tenant.place == place then return end
  if tenant.place then call('ZREM', KEYS[5], tenant.place) end
  if place then call('ZADD', KEYS[5], 0, place) end
  tenant.place = place
end

local function line_up(tenant)
  if tenant.waiting == 0 then return stand(tenant, false) end
  local line = tenant.running < tenant.share and 'a' or tenant.share > 0 and 'b' or 'c'
  stand(tenant, line .. pack('>dd', math.max(tenant.arrived, tenant.ends), tenant.number) .. tenant.digest)
end

-- Where a tenant that begins to wait stands: beside the one that has had the least, with nothing saved up.
local function virtual()
  local within, above = first('a', 'b'), first('b', 'd')
  local least = within and virtual_of(within)
  if above then least = math.min(least or math.huge, virtual_of(above)) end
  return least or pool.virtual
end

-- Forgets who neither runs nor waits. While others wait, only those that have had no more than their turn.
local function rest(tenant)
  if tenant.running == 0 and tenant.waiting == 0 then
    stand(tenant, 'r' .. pack('>dd', math.max(0, tenant.ends), 0) .. tenant.digest)
  end
  for _ = 1, MOST do
    local place = first('r', 's')
    if not place or (pool.waiting > 0 and virtual_of(place) > pool.virtual) then break end
    call('ZREM', KEYS[5], place)
    tenants[sub(place, 18)] = false
  end
end

local function set_share(tenant, share)
  if tenant.share == share then return end
  pool.borrowed = pool.borrowed - borrowed(tenant)
  tenant.share = share
  pool.borrowed = pool.borrowed + borrowed(tenant)
  line_up(tenant)
end

-- The tenant with the share that it has now; a new one where the pool does not know it.
local function tenant_of(digest, share, name)
  local tenant = known(digest)
  if tenant then
    set_share(tenant, share)
    return tenant
  end
  tenants[digest] = {
    digest = digest, share = share, ends = 0, arrived = 0, number = 0, running = 0, waiting = 0, place = false, name = name,
  }
  return tenants[digest]
end

-- Operations

local function queued(one) return 'w' .. one.digest .. pack('>dd', one.since, one.number) .. one.id end

local function wait(tenant, one, since)
  one.status, one.since, one.number, one.charged = WAITS, since, number(), 0
  call('ZADD', KEYS[5], 0, queued(one))
  call('ZADD', KEYS[4], now + patience_us, one.id)
  keep(one)
  if tenant.waiting == 0 then
    tenant.arrived, tenant.number = virtual(), number()
  end
  tenant.waiting, pool.waiting = tenant.waiting + 1, pool.waiting + 1
  line_up(tenant)
end

-- Its deadline stays that of its waiting, so that what is given to a lost process comes back with all that it had.
local function grant(tenant, one, arrived)
  run(tenant, 1)
  one.status, one.since, one.charged = RUNS, now, begin(tenant, arrived)
  keep(one)
end

local function take(tenant, one)
  one.number = 0
  grant(tenant, one, virtual())
  call('ZADD', KEYS[4], now + lease_us, one.id)
  line_up(tenant)
end

-- It waits no more.
local function go(tenant, one)
  call('ZREM', KEYS[5], queued(one))
  tenant.waiting, pool.waiting, tenant.number = tenant.waiting - 1, pool.waiting - 1, number()
end

-- What it had is free, what it waited for it gets no more.
local function give_up(one)
  local tenant = known(one.digest)
  if one.status == RUNS then
    run(tenant, -1)
    charge(tenant, one)
  else
    go(tenant, one)
  end
  line_up(tenant)
  rest(tenant)
end

local function finish(one)
  if one.status == FREED then pool.freed = pool.freed - 1 else give_up(one) end
  call('HDEL', KEYS[3], one.id)
  call('ZREM', KEYS[4], one.id)
end

local function is_open() return now >= pool.opens and pool.running < capacity end

-- Gives free slots to those who wait, within their shares first, and tells each process of its own.
local function hand_on()
  for _ = 1, MOST do
    if pool.waiting == 0 or not is_open() then return end
    local place = first('a', 'b') or (pool.borrowed < lent and first('b', 'd'))
    if not place then return end
    local tenant = known(sub(place, 18))
    local line = 'w' .. tenant.digest
    local one = operation(sub(first(line, line .. string.rep('\255', 25)), 30))
    go(tenant, one)
    grant(tenant, one, tenant.arrived)
    line_up(tenant)
    if one.process == process then
      granted[#granted + 1] = one.id
    else
      call('PUBLISH', ARGV[2] .. one.process, one.id)
    end
  end
end

-- Begins and ends

local function forget()
  call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  pool.virtual, pool.mean, pool.number, pool.at = 0, AT_FIRST_SECONDS, 0, now
  pool.running, pool.waiting, pool.freed, pool.borrowed, pool.opens = 0, 0, 0, 0, now + lease_us
end

local function open()
  local kept, operations = call('GET', KEYS[1]), call('HLEN', KEYS[3])
  if not kept or #kept ~= POOL_BYTES then return forget() end
  pool.virtual, pool.mean, pool.number, pool.running, pool.waiting, pool.freed, pool.borrowed, pool.opens, pool.at =
    unpack(POOL, kept)
  local busy = pool.running + pool.waiting
  local is_whole = operations == busy + pool.freed and operations == call('ZCARD', KEYS[4])
    and call('HLEN', KEYS[2]) >= math.min(busy, 1) and call('ZCARD', KEYS[5]) >= pool.waiting
  if not is_whole then return forget() end
  -- Nobody called for a lease, though slots were held: the clock jumped, or all holders were away. They may be alive.
  if pool.running > 0 and now - pool.at > lease_us then pool.opens = now + lease_us end
  pool.opens = math.min(pool.opens, now + lease_us)
end

local function lapse()
  -- Where the clock stepped back: nothing lives longer than a lease, or a lost holder would as long as the step.
  local latest = string.format('%.17g', now + lease_us)
  for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[4], '(' .. latest, '+inf', 'LIMIT', 0, MOST)) do
    call('ZADD', KEYS[4], latest, id)
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, MOST)) do finish(operation(id)) end
end

local function close()
  for digest, tenant in pairs(tenants) do
    if tenant then
      local place = tenant.place or ''
      local numbers = pack(TENANT, tenant.share, tenant.ends, tenant.arrived, tenant.number, tenant.running, tenant.waiting, #place)
      call('HSET', KEYS[2], digest, numbers .. place .. tenant.name)
    else
      call('HDEL', KEYS[2], digest)
    end
  end
  local kept = pack(
    POOL, pool.virtual, pool.mean, pool.number, pool.running, pool.waiting, pool.freed, pool.borrowed, pool.opens, now
  )
  call('SET', KEYS[1], kept, 'PX', POOL_TTL_MS)
  local ttl_ms = math.max(60000, math.floor(lease_us / 500))
  call('PEXPIRE', KEYS[2], ttl_ms)
  call('PEXPIRE', KEYS[3], ttl_ms)
  call('PEXPIRE', KEYS[4], ttl_ms)
  call('PEXPIRE', KEYS[5], ttl_ms)
end

local function with_granted(reply)
  for _, id in ipairs(granted) do reply[#reply + 1] = id end
  return reply
end

open()
lapse()
hand_on()
