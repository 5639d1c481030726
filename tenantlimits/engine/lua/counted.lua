-- counted: ends a tally: writes the tenant's state with its new usage, for as long as that is kept or longer.
local anew = sub(state0, 1, end0 - 1) .. before .. pack('<IIHd', allowed, refusals, peak, spent) .. after
call('SET', KEYS[2], anew, 'PX', math.max(USAGE_TTL_MS, call('PTTL', KEYS[2])))
return 1
