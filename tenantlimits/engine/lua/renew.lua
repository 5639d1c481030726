-- renew: moves the deadlines of leases in one subject. It never takes a slot above a cap.
--
-- KEYS[1]       state of the subject (string, see prelude.lua)
-- ARGV[1]       lease length us and time to live of the state ms, packed <dd
-- ARGV[3k-1]    lease, 8 bytes
-- ARGV[3k]      1 where the lease may be taken again after the store has lost it, else 0
-- ARGV[3k+1]    the caps it counts in: state id c4, cap d for each
-- reply         for each lease 1 where it is held now, else 0
-- cost          O(leases renewed x limits and leases of the subject)
local lease_us, ttl_ms = unpack('<dd', ARGV[1])
local state, held = call('GET', KEYS[1]), {}

-- Cuts the lapsed and the renewed lease out of one cap's tail; adds the latter again where that is right.
local function renewed(tail, lease, again, cap)
  local rest, alive = {}, false
  for at = 1, #tail, 16 do
    local one, deadline = sub(tail, at, at + 7), (unpack('<d', tail, at + 8))
    if one == lease then
      alive = deadline > now
    elseif deadline > now then
      rest[#rest + 1] = one .. pack('<d', math.min(deadline, now + lease_us))
    end
  end
  if alive or (again and #rest < cap) then
    rest[#rest + 1], alive = lease .. pack('<d', now + lease_us), true
  end
  return table.concat(rest), alive
end

-- The state with one cap more, unless it knows it: a store that lost its memory may have begun a state without it.
local function with_cap(state, id)
  local n, fixed, tail = measure(state)
  for i = 1, n do
    if sub(state, 7 + 4 * i, 10 + 4 * i) == id then return state end
  end
  return sub(state, 1, 9) .. string.char(n + 1) .. sub(state, 11, fixed - 1) .. id
    .. sub(state, fixed, tail - 1) .. pack('<I', 0) .. sub(state, tail)
end

for k = 2, #ARGV, 3 do
  local lease, again, caps = ARGV[k], ARGV[k + 1] == '1', ARGV[k + 2]
  if not state and again then state = NO_LEASE .. '\1\0' end
  local all_alive = state and 1 or 0
  for at = 1, state and #caps or 0, 12 do
    local id, cap = sub(caps, at, at + 3), unpack('<d', caps, at + 4)
    if again then state = with_cap(state, id) end
    local n, fixed, tail = measure(state)
    local alive = false
    for i = 1, n do
      local kind = byte(state, 10 + 4 * i) % 8
      local length = kind >= 4 and 16 * unpack('<I', state, fixed) or 0
      if sub(state, 7 + 4 * i, 10 + 4 * i) == id then
        local kept
        kept, alive = renewed(sub(state, tail, tail + length - 1), lease, again, cap)
        state = sub(state, 1, fixed - 1) .. pack('<I', #kept / 16) .. sub(state, fixed + 4, tail - 1)
          .. kept .. sub(state, tail + length)
        break
      end
      fixed, tail = fixed + FIXED[kind], tail + length
    end
    if not alive then all_alive = 0 end
  end
  held[#held + 1] = all_alive
end
if state then call('SET', KEYS[1], state, 'PX', ttl_ms) end
return held
