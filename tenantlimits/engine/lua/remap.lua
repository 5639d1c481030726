-- remap: the slow path, where the limits of a subject are no longer those that its state was written for.

-- The state in the shape that the policy expects, by state ids; limits that are new start unused. `kinds` are those
-- of the limits that the script was made for: no policy for another one may write a state.
local function remap(state, shape, kinds)
  local known = {}
  local n, fixed, tail, after = measure(state)
  for i = 1, n do
    local id = sub(state, 7 + 4 * i, 10 + 4 * i)
    local kind = byte(id, 4) % 8
    local length = kind >= 4 and 16 * unpack('<I', state, fixed) or 0
    known[id] = {sub(state, fixed, fixed + FIXED[kind] - 1), sub(state, tail, tail + length - 1)}
    fixed, tail = fixed + FIXED[kind], tail + length
  end
  if sub(shape, 1, 2) ~= string.char(LAYOUT, #kinds) then error('the policy is for another script') end
  local fields, tails = {}, {}
  for at = 3, #shape, 4 do
    local id = sub(shape, at, at + 3)
    if byte(id, 4) % 8 ~= byte(kinds, #fields + 1) then error('the policy is for another script') end
    local one = known[id] or {string.rep('\0', FIXED[byte(id, 4) % 8]), ''}
    fields[#fields + 1], tails[#tails + 1] = one[1], one[2]
  end
  return sub(state, 1, 8) .. shape .. table.concat(fields) .. table.concat(tails) .. sub(state, after), after
end
