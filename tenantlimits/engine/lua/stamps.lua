-- stamps: answers STALE (2) where the policy was built on other stamps than the store's, and OUTSIDE (3) where the
-- server's clock has left the time that the policy was built for. Neither changes anything.
local tenant = call('GET', KEYS[2])
if not tenant or sub(tenant, 1, 8) ~= sub(policy, 1, 8) or call('GET', KEYS[1]) ~= sub(policy, 9, 16) then
  return pack('<Bd', 2, now)
end
