-- layout: where the parts of a state are, for scripts that have no policy to tell them.
local LAYOUT = 1
local FIXED = {[0] = 16, [1] = 16, [2] = 32, [4] = 4, [5] = 4}

-- Number of limits, then the positions of the fixed fields, of the tails, and of what follows them.
-- An error where a newer version of the package has written the state, by another layout or for a kind of limit that
-- this one does not know, or where it is cut short.
local function measure(state)
  if byte(state, 9) ~= LAYOUT then error('the layout of this state is unknown') end
  local n = byte(state, 10)
  local fixed = 11 + 4 * n
  local at, tail_bytes = fixed, 0
  for i = 1, n do
    local kind = byte(state, 10 + 4 * i) % 8
    if not FIXED[kind] then error('the layout of this state is unknown') end
    if kind >= 4 then tail_bytes = tail_bytes + 16 * unpack('<I', state, at) end
    at = at + FIXED[kind]
  end
  if at + tail_bytes > #state + 1 then error('this state is cut short') end
  return n, fixed, at, at + tail_bytes
end
