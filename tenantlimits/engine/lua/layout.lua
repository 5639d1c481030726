-- layout: where the parts of a state are, for scripts that have no policy to tell them.
local FIXED = {[0] = 16, [1] = 16, [2] = 32, [4] = 4, [5] = 4}

-- Number of limits, then the positions of the fixed fields, of the tails, and of what follows them.
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
