-- prelude: what every composed script starts with: the clock, the fixed names and the slow path of `remap`.
--
-- State of a subject is one string, little-endian:
--   8 bytes   stamp of the tenant's policy (zeros for users, credentials, and where none is known)
--   1 byte    layout version (1);  1 byte  number of limits n
--   4n bytes  state ids of the limits: their order is the shape. The low 3 bits of the last byte are the kind:
--             0 token bucket   16 bytes  used milli-units d, at us d (negative: in debt)
--             1 calendar quota 16 bytes  used milli-units d, end of its period us d
--             4 sliding log     4 bytes  number of entries I;  tail: at us d, cost milli-units d for each
--             5 concurrency     4 bytes  number of leases I;   tail: lease c8, deadline us d for each
--   fixed fields of every limit in order, then the tails of logs and caps in order,
--   then (tenants only) the usage of the running hour, see usage.lua
local call, pack, unpack, sub, byte, find = redis.call, struct.pack, struct.unpack, string.sub, string.byte, string.find
local FIXED = {[0] = 16, [1] = 16, [4] = 4, [5] = 4}

-- Offsets of a state's parts: position of the fixed fields, of the tails, and of what follows them.
local function measure(state)
  local n = byte(state, 10)
  local fixed = 11 + 4 * n
  local at, tail_bytes = fixed, 0
  for i = 1, n do
    local kind = byte(state, 10 + 4 * i) % 8
    if kind >= 4 then tail_bytes = tail_bytes + 16 * unpack('<I', state, at) end
    at = at + FIXED[kind]
  end
  return n, fixed, at, at + tail_bytes
end

-- The state in the shape that the policy expects, by state ids; limits that are new start unused.
local function remap(state, shape)
  local known = {}
  local stamp, usage = sub(state, 1, 8), ''
  local n, fixed, tail, after = measure(state)
  for i = 1, n do
    local id = sub(state, 7 + 4 * i, 10 + 4 * i)
    local kind = byte(id, 4) % 8
    local length = kind >= 4 and 16 * unpack('<I', state, fixed) or 0
    known[id] = {sub(state, fixed, fixed + FIXED[kind] - 1), sub(state, tail, tail + length - 1)}
    fixed, tail = fixed + FIXED[kind], tail + length
  end
  local fields, tails = {}, {}
  for at = 3, #shape, 4 do
    local id = sub(shape, at, at + 3)
    local one = known[id] or {string.rep('\0', FIXED[byte(id, 4) % 8]), ''}
    fields[#fields + 1], tails[#tails + 1] = one[1], one[2]
  end
  return stamp .. shape .. table.concat(fields) .. table.concat(tails) .. sub(state, after), after
end
