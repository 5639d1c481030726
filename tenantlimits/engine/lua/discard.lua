-- discard: removes what cannot be read, so that its subject begins anew instead of failing for ever.
--
-- KEYS[i]   keys of a script that failed (see keys.py)
-- reply     number of keys that were removed
-- cost      O(number of limits and leases of these subjects); only after an error
local HOLDS = {stamp = 'string', pending = 'set', processes = 'zset', h = 'hash'}

-- Whether a script would read this state, and the usage after it, to the end.
local function is_whole(state)
  local measured, _, _, _, after = pcall(measure, state)
  if not measured then return false end
  local usage = sub(state, after)
  if usage == '' then return true end
  local refusals = #usage - 10 - 22 * (byte(usage, 10) or 0)
  return refusals >= 0 and refusals % 16 == 0
end

local removed = 0
for k = 1, #KEYS do
  local holds = HOLDS[string.match(KEYS[k], '}:(%l+)$') or string.match(KEYS[k], '}:(h):')]
  local held = call('TYPE', KEYS[k]).ok
  local fails = held ~= (holds or 'string') and held ~= 'none'
  if held == 'string' and not holds then
    local state = call('GET', KEYS[k])
    -- What a newer version of the package has written is not ours to remove: a small number, with an end, as all has.
    local version = byte(state, 9) or 0
    local is_newer = version > LAYOUT and version < 32 and call('PTTL', KEYS[k]) > 0
    fails = not is_newer and not is_whole(state)
  end
  if fails then removed = removed + call('DEL', KEYS[k]) end
end
return removed
