-- release: gives a lease's slots back. Freeing is by name, so a second call or a stranger's lease frees nothing.
--
-- KEYS[i]   state of each subject in which the lease holds slots (string, see prelude.lua)
-- ARGV[1]   lease, 8 bytes
-- reply     number of slots that were given back
-- cost      O(number of limits and leases of these subjects); one round trip; no policy is needed
local lease, freed = ARGV[1], 0
for k = 1, #KEYS do
  local state = call('GET', KEYS[k])
  if state and string.find(state, lease, 1, true) then
    local n, fixed, tail = measure(state)
    for i = 1, n do
      local kind = byte(state, 10 + 4 * i) % 8
      if kind == 5 then
        local count = unpack('<I', state, fixed)
        for at = tail, tail + 16 * (count - 1), 16 do
          if sub(state, at, at + 7) == lease then
            state = sub(state, 1, fixed - 1) .. pack('<I', count - 1) .. sub(state, fixed + 4, at - 1) .. sub(state, at + 16)
            count, freed = count - 1, freed + 1
            break
          end
        end
        tail = tail + 16 * count
      elseif kind == 4 then
        tail = tail + 16 * unpack('<I', state, fixed)
      end
      fixed = fixed + FIXED[kind]
    end
    call('SET', KEYS[k], state, 'KEEPTTL')
  end
end
return freed
