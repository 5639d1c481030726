-- stamps: answers STALE (2) where the policy was built on other stamps than the store's. It changes nothing.
if not kept0 or sub(kept0, 1, 8) ~= tenant_stamp or shard_stamp_now ~= shard_stamp then return pack('<Bd', 2, now) end
