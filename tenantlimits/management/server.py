"""What the doctor looks at in the server that keeps the state."""

from __future__ import annotations

from collections.abc import Iterable

from tenantlimits.conf import NAME, conf
from tenantlimits.gate import inspection
from tenantlimits.gate.counts import StoreUnreachable
from tenantlimits.gate.inspection import Cause
from tenantlimits.management.findings import Finding, Findings, Health

OLDEST_MAJOR = 6
"""The oldest Redis that has all commands of our scripts: SET with KEEPTTL, and users with rights of their own."""
TESTED_MAJOR = 7
"""The oldest Redis that the tests run on. Every Valkey is newer."""
MOST_CLOCK_SECONDS = 1.0
SHOWN_KEYS = 5


def store() -> Findings:
    """The server that keeps the state. What hangs on something that failed is not looked at."""
    if not inspection.is_shared():
        return
    where = inspection.address()
    try:
        server = inspection.server()
    except StoreUnreachable as error:
        remedy = f"Start it, or correct CACHES[{conf.CACHE_ALIAS!r}]. Until then, by on_store_failure: {_lanes()}."
        yield Finding(Health.FAIL, f"{where} cannot be reached ({error})", remedy)
        return
    yield Finding(Health.OK, f"{where} answers in {server.round_trip_seconds * 1000:.1f} ms.")
    stops = [*_version(server), *_role(server)]
    yield from stops
    yield from _eviction(server)
    yield from _clock(server)
    if all(one.health is not Health.FAIL for one in stops):
        yield from _scripts()
        yield from _keys()


def _lanes() -> str:
    """What each lane does while the store is away, as `local in default, reads; refuse in exports`."""
    by_mode: dict[str, list[str]] = {}
    for lane in conf.LANES.values():
        by_mode.setdefault(lane.on_store_failure, []).append(lane.name)
    return "; ".join(f"{mode} in {', '.join(names)}" for mode, names in by_mode.items())


def _version(server: inspection.Server) -> Findings:
    major = 0 if server.version is None else int(server.version.partition(".")[0])
    if server.version is None:
        yield Finding(
            Health.WARN, "The server does not tell its version.", f"It should be Redis {TESTED_MAJOR} or later."
        )
    elif server.name == "Redis" and major < OLDEST_MAJOR:
        words = f"Redis {server.version} is too old: our scripts need commands of Redis {OLDEST_MAJOR}."
        yield Finding(Health.FAIL, words, f"Use Redis {TESTED_MAJOR} or later, or Valkey.")
    elif server.name == "Redis" and major < TESTED_MAJOR:
        words = f"Redis {server.version} is older than any that this is tested with."
        yield Finding(Health.WARN, words, f"Use Redis {TESTED_MAJOR} or later, or Valkey.")
    else:
        yield Finding(Health.OK, f"It is {server.name} {server.version}.")


def _role(server: inspection.Server) -> Findings:
    """Whether it may decide for everybody: neither a replica, nor a part where the settings say that it is all."""
    alias = f"CACHES[{conf.CACHE_ALIAS!r}]"
    if conf.CLUSTER:
        if not server.is_of_a_cluster:
            words = f"{NAME}['CLUSTER'] is True, but the server is no node of a cluster."
            yield Finding(Health.FAIL, words, f"Take it out, or name nodes of the cluster in {alias}.")
    elif server.is_of_a_cluster:
        words = f"The server is a node of a cluster, and {NAME}['CLUSTER'] is False: it knows a part of the keys only."
        yield Finding(Health.FAIL, words, f"Set {NAME}['CLUSTER'] = True, or name another server in {alias}.")
    elif server.is_replica:
        words = "The server is a replica, which takes no writes: no decision is made by it."
        yield Finding(Health.FAIL, words, f"Name its master in {alias}, or the sentinels that know it.")


def _eviction(server: inspection.Server) -> Findings:
    policy = server.eviction_policy
    if policy is None:
        remedy = "See that it keeps every key: maxmemory-policy noeviction."
        yield Finding(Health.WARN, "The server does not tell what it does when its memory is full.", remedy)
    elif server.maxmemory and policy != "noeviction":
        yield Finding(
            Health.WARN,
            f"With maxmemory {server.maxmemory:,} bytes and policy {policy} the server forgets keys when it is full: "
            "what tenants have used, and the slots that they hold.",
            "Give limits a server of their own with maxmemory-policy noeviction; a cache may share none of it.",
        )
    else:
        yield Finding(Health.OK, f"It forgets nothing before its time (maxmemory-policy {policy}).")


def _clock(server: inspection.Server) -> Findings:
    ahead = server.clock_ahead_seconds
    if abs(ahead) <= MOST_CLOCK_SECONDS:
        yield Finding(Health.OK, f"Its clock and ours differ by {abs(ahead) * 1000:.0f} ms.")
    else:
        yield Finding(
            Health.WARN,
            f"Its clock is {abs(ahead):,.1f} s {'ahead of' if ahead > 0 else 'behind'} ours. Overrides begin and end, "
            "and days change, by its clock: by so much too early or too late.",
            "Have both machines set their clocks by NTP.",
        )


def _scripts() -> Findings:
    try:
        inspection.check_scripts()
        unflushed = inspection.unflushed_tenants()
    except StoreUnreachable as error:
        yield _why_not(error)
        return
    yield Finding(Health.OK, "It runs our scripts.")
    yield Finding(Health.OK, f"{unflushed:,} tenants have usage that is not written down yet.")


def _why_not(error: StoreUnreachable) -> Finding:
    """The server answers, and still does not decide."""
    cause = inspection.cause(error)
    if cause is Cause.RIGHTS:
        words = f"The server does not run our scripts for this user. {error}"
        remedy = "Let it run EVALSHA, SCRIPT LOAD, TIME and all commands on keys of ours: +@all ~tl* in its ACL."
        return Finding(Health.FAIL, words, remedy.replace("~tl*", f"~{conf.KEY_PREFIX}:*"))
    if cause is Cause.SLOW:
        limits = f"CONNECT_TIMEOUT_SECONDS {conf.CONNECT_TIMEOUT_SECONDS}, STORE_TIMEOUT_SECONDS "
        words = f"The server answers a PING, but decisions do not wait so long ({limits}{conf.STORE_TIMEOUT_SECONDS})."
        return Finding(Health.FAIL, f"{words} {error}", f"Put it nearer, or raise them in {NAME}.")
    return Finding(Health.FAIL, f"Our scripts fail on the server. {error}", _WRITES)


_WRITES = (
    "It has to take writes: memory below maxmemory, room on its disk where it saves, replicas where it waits for any."
)


def _keys() -> Findings:
    """Whether something else writes under our prefix."""
    try:
        sample = inspection.sampled_keys()
    except StoreUnreachable as error:
        words = f"Whether others write under {conf.KEY_PREFIX!r} was not looked at. {error}"
        yield Finding(Health.WARN, words, "The doctor needs SCAN and TYPE for that; decisions do not.")
        return
    if not sample.wrong:
        yield Finding(Health.OK, f"Of {sample.seen:,} keys under {conf.KEY_PREFIX!r} each is of its type.")
        return
    yield Finding(
        Health.WARN,
        f"{len(sample.wrong)} of {sample.seen:,} keys under {conf.KEY_PREFIX!r} are of a type that ours never have: "
        f"{_named(sample.wrong)}. A decision that meets one is made without the server, and removes it.",
        f"Something else writes there: give ours a prefix that it does not use ({NAME}['KEY_PREFIX']).",
    )


def _named(keys: Iterable[str]) -> str:
    shown = list(keys)
    more = ", ..." if len(shown) > SHOWN_KEYS else ""
    return ", ".join(shown[:SHOWN_KEYS]) + more
