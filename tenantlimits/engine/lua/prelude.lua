-- prelude: what every script starts with: the names that all of them use.
--
-- State of a subject is one string, little-endian:
--   8 bytes   stamp of the tenant's policy (zeros for users, credentials, and where none is known)
--   1 byte    layout version (1);  1 byte  number of limits n
--   4n bytes  state ids of the limits: their order is the shape. The low 3 bits of the last byte are the kind:
--             0 token bucket   16 bytes  used milli-units d, at us d (negative: in debt)
--             1 calendar quota 16 bytes  used milli-units d, end of its period us d
--             2 sliding counter 32 bytes used milli-units d, before d, at us d, length of its windows us d
--             4 sliding log     4 bytes  number of entries I;  tail: at us d, cost milli-units d for each
--             5 concurrency     4 bytes  number of leases I;   tail: lease c8, deadline us d for each
--   fixed fields of every limit in order, then the tails of logs and caps in order,
--   then (tenants only) the usage of the running hour, see usage.lua
local call, pack, unpack, sub, byte, values = redis.call, struct.pack, struct.unpack, string.sub, string.byte, unpack
local NO_LEASE = '\0\0\0\0\0\0\0\0'
