"""Names of keys in the store. They hold digests, so that no tenant's name can break or imitate another's.

Tenants fall into 256 shards; every key of a tenant carries its shard's hash tag, so that a script's keys are in one
slot of a cluster. An anonymous caller is the subject "user" of an anonymous tenant that each shard has.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

SHARDS = 256

_TYPES = {
    "h": "hash", "pending": "set", "processes": "zset", "reports": "hash",
    "tenants": "hash", "operations": "hash", "ends": "zset", "lines": "zset",
}  # fmt: skip
"""By what stands after the hash tag; else it is a string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks. `tenant` is "" for an anonymous caller, whose address is then the `user`."""

    tenant: str
    user: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one identity; `subjects` are the tenant's, the user's and the credential's state."""

    shard: int
    member: str
    stamp: str
    closed: str
    pending: str
    subjects: tuple[str, str | None, str | None]

    @property
    def tenant(self) -> str:
        """The key of the tenant's own state."""
        return self.subjects[0]


def _digest(*parts: str) -> bytes:
    """Digest of the parts, none of which can run into the next."""
    state = blake2b(digest_size=12)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(4, "big") + raw)
    return state.digest()


def _text(digest: bytes) -> str:
    return urlsafe_b64encode(digest).decode()


def shard_of(identity: Identity) -> int:
    """0 to 255: the tenant's shard, or the address's where there is no tenant."""
    return _digest(identity.tenant or identity.user or "")[0]


def tag(prefix: str, shard: int) -> str:
    """What all keys of a shard begin with."""
    return f"{prefix}:{{s{shard:02x}}}"


def stamp_key(prefix: str, shard: int) -> str:
    """The shard's stamp: all policies of its tenants are stale when it moves."""
    return f"{tag(prefix, shard)}:stamp"


def pending_key(prefix: str, shard: int) -> str:
    """The shard's tenants with unflushed usage."""
    return f"{tag(prefix, shard)}:pending"


def processes_key(prefix: str) -> str:
    """The processes that decide by this store."""
    return f"{tag(prefix, 0)}:processes"


def reports_key(prefix: str) -> str:
    """What the pools of these processes hold."""
    return f"{tag(prefix, 0)}:reports"


def probe_key(prefix: str, shard: int = 0) -> str:
    """What is written to learn whether a server takes writes."""
    return f"{tag(prefix, shard)}:probe"


def type_of(name: str) -> str:
    """The type that a key of ours has, as the store names it."""
    part = name.rpartition("}:")[2].partition(":")[0]
    return _TYPES.get(part, "string")


def member_keys(prefix: str, shard: int, member: str) -> Keys:
    """The keys of a tenant alone. "" is the shard's anonymous tenant."""
    start = tag(prefix, shard)
    name = _text(_digest(member)) if member else "anonymous"
    return Keys(
        shard,
        member,
        stamp_key(prefix, shard),
        f"{start}:h:{name}",
        pending_key(prefix, shard),
        (f"{start}:{name}", None, None),
    )


@lru_cache(maxsize=1024)
def pool_keys(prefix: str, pool: str) -> tuple[str, ...]:
    """The keys of a pool of the fleet, in one slot: itself, its tenants, operations, their ends, and its lines."""
    digest = _digest(pool)
    start = tag(prefix, digest[0])
    return tuple(f"{start}:{part}:{_text(digest)}" for part in ("pool", "tenants", "operations", "ends", "lines"))


@lru_cache(maxsize=8192)
def tenant_digest(tenant: str) -> bytes:
    """What stands for a tenant inside a pool."""
    return _digest(tenant)


@lru_cache(maxsize=8192)
def keys_of(prefix: str, identity: Identity) -> Keys:
    """All keys of an identity, in one slot. Those of the busiest are remembered: digests cost more than a look-up."""
    shard = shard_of(identity)
    tenant = member_keys(prefix, shard, identity.tenant)
    user, credential = (
        f"{tag(prefix, shard)}:{layer}:{_text(_digest(identity.tenant, who))}" if who is not None else None
        for layer, who in (("u", identity.user), ("c", identity.credential))
    )
    return Keys(shard, tenant.member, tenant.stamp, tenant.closed, tenant.pending, (tenant.tenant, user, credential))
