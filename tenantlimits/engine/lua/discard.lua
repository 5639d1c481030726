-- discard: removes what cannot be read, so that its subject begins anew instead of failing for ever.
--
-- KEYS[i]   keys of a script that failed (see keys.py)
-- reply     number of keys, and of closed hours, that were removed
-- cost      O(number of limits and leases of these subjects); only after an error
-- By what stands after the hash tag; a tenant's own state has nothing more, and what is not known here stays.
-- All of a pool's keys go, whatever they hold: half of one would count what is not there. Then it learns (see pool.lua).
local HOLDS = {stamp = 'string', pending = 'set', processes = 'zset', reports = 'hash', h = 'hash', u = 'state', c = 'state'}
for part in string.gmatch('pool tenants operations ends lines', '%l+') do HOLDS[part] = 'none' end

local function is_usage(usage)
  local refusals = #usage - 10 - 22 * (byte(usage, 10) or 0)
  return refusals >= 0 and refusals % 16 == 0
end

-- Whether a script would read this state, and the usage after it, to the end.
local function is_whole(state)
  local measured, _, _, _, after = pcall(measure, state)
  return measured and (after > #state or is_usage(sub(state, after)))
end

-- What a newer version of the package has written is not ours to remove: a small number, or a kind that is unknown.
local function is_newer(state)
  local version = byte(state, 9) or 0
  if version ~= LAYOUT then return version > LAYOUT and version < 32 end
  for i = 1, byte(state, 10) or 0 do
    local kind = byte(state, 10 + 4 * i)
    if kind and not FIXED[kind % 8] then return true end
  end
  return false
end

local removed = 0
for k = 1, #KEYS do
  local name, more = string.match(KEYS[k], '}:([^:]+)(:?)')
  local holds = HOLDS[name] or (more == '' and 'state') or 'unknown'
  local held = call('TYPE', KEYS[k]).ok
  local fails = held ~= 'none' and holds ~= 'unknown' and held ~= (holds == 'state' and 'string' or holds)
  if held == 'string' and holds == 'state' then
    local state = call('GET', KEYS[k])
    -- What has no end was written by no version.
    fails = not is_whole(state) and not (is_newer(state) and call('PTTL', KEYS[k]) > 0)
  end
  if fails then
    removed = removed + call('DEL', KEYS[k])
  elseif held == 'hash' and name == 'h' then
    local hours = call('HGETALL', KEYS[k])
    for i = 1, #hours, 2 do
      local field, usage = hours[i], hours[i + 1]
      if not string.match(field, '^%d+$') and not string.match(field, '^%d+:') or not is_usage(usage) then
        removed = removed + call('HDEL', KEYS[k], field)
      end
    end
  end
end
return removed
