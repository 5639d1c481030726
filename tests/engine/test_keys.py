"""Names of keys: nobody's name breaks or imitates another's, and a script's keys lie in one slot of a cluster."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.cluster import key_slot

from tenantlimits.engine.keys import SHARDS, Identity, keys_of, member_keys, pending_key, shard_of, stamp_key
from tests.engine.builders import NOBODY

HOSTILE = [
    "a:b", "a", "b", "a:b:c", "*", "?", "[x]", "x\nDEL", "{a}", "}{", "{", "{}", "a{b}c", " ", "  ", "ACME", "acme",
    "é", "e\u0301", "💥", "x" * 1_000_000, "1", "01", "\0", "a\0b", "anonymous", "stamp", "pending", "u", "c", "h",
    "00000000-0000-0000-0000-000000000001", "\ud800",
]  # fmt: skip


def all_names(identity):
    keys = keys_of("tl", identity)
    return [keys.stamp, keys.closed, keys.pending, *(name for name in keys.subjects if name)]


def test_every_hostile_tenant_has_keys_of_its_own():
    """C86."""
    own = [name for tenant in HOSTILE for name in all_names(Identity(tenant=tenant, user="u", credential="c"))[3:]]
    closed = [keys_of("tl", Identity(tenant=tenant)).closed for tenant in HOSTILE]

    assert len(set(own + closed)) == len(own) + len(closed)
    assert max(len(name.encode()) for name in own + closed) <= 200
    assert all(name.isascii() and name.isprintable() and " " not in name for name in own + closed)


NAMES = st.sampled_from(HOSTILE) | st.text(max_size=300) | st.text("{}:*?\0 aA", max_size=6)
PREFIXES = st.sampled_from(["tl", "a", "s00", ":", "tl:", "x" * 40, "é" * 40, "💥" * 40]) | st.from_regex(
    r"[^{}\s]{1,40}", fullmatch=True
)


@settings(max_examples=200, derandomize=True)
@given(
    prefix=PREFIXES,
    first=st.tuples(NAMES, st.none() | NAMES, st.none() | NAMES),
    second=st.tuples(NAMES, st.none() | NAMES, st.none() | NAMES),
)
def test_no_two_callers_share_a_state_and_all_keys_of_each_are_short_and_in_one_slot(prefix, first, second):
    """C86, C87, C88, C89: whatever they and the prefix are called."""
    names = ("tenant", "user", "credential")
    one, other = (Identity(**dict(zip(names, who, strict=True))) for who in (first, second))
    states = [[name for name in keys_of(prefix, who).subjects if name] for who in (one, other)]

    for who in (one, other):
        keys = keys_of(prefix, who)
        every = [name for name in (keys.stamp, keys.closed, keys.pending, *keys.subjects) if name]
        assert len(set(every)) == len(every)
        assert len({key_slot(name.encode()) for name in every}) == 1
        assert all(name.startswith(f"{prefix}:{{s") for name in every)
        assert max(len(name.encode()) for name in every) <= 200
    if one.tenant and other.tenant and one.tenant != other.tenant:
        assert not {*states[0]} & {*states[1]}
    for number in (1, 2):
        mine, others = keys_of(prefix, one).subjects[number], keys_of(prefix, other).subjects[number]
        is_same = (first[0], first[number]) == (second[0], second[number])
        # An anonymous caller's address says its shard, so that a credential's key depends on both.
        if mine and others and not is_same:
            assert mine != others


def test_tenant_and_user_never_run_into_each_other():
    """C86: "aa" and "a" are not "a" and "aa". So many, that some of them share a shard and differ in nothing else."""
    keys = [keys_of("tl", Identity(tenant="a" * n, user="a" * (600 - n))).subjects[1] for n in range(1, 600)]

    assert len(set(keys)) == len(keys)


def test_one_persons_key_differs_between_tenants_and_from_a_credential_of_that_name():
    """C88, C89."""
    in_acme = keys_of("tl", Identity(tenant="acme", user="alice", credential="alice"))
    in_bolt = keys_of("tl", Identity(tenant="bolt", user="alice", credential="alice"))

    assert len({*in_acme.subjects, *in_bolt.subjects}) == 6


@pytest.mark.parametrize("tenant", HOSTILE, ids=lambda tenant: ascii(tenant[:20]))
def test_all_keys_of_a_call_lie_in_one_slot(tenant):
    """C87."""
    names = all_names(Identity(tenant=tenant, user="{x}", credential="}y{"))

    assert len({key_slot(name.encode()) for name in names}) == 1


def test_the_keys_of_anonymous_callers_lie_in_one_slot_each_and_in_many_together():
    """C87, T3."""
    identities = [NOBODY, *(Identity(tenant="", user=f"2001:db8::{n:x}") for n in range(600))]
    slots = [{key_slot(name.encode()) for name in all_names(one)} for one in identities]

    assert {len(one) for one in slots} == {1}
    assert len(set.union(*slots)) > 200


def test_tenants_spread_over_all_shards():
    shards = [shard_of(Identity(tenant=f"tenant-{n}")) for n in range(10_000)]

    assert set(shards) == set(range(SHARDS))
    assert max(shards.count(shard) for shard in range(SHARDS)) < 4 * 10_000 / SHARDS


def test_a_tenants_users_and_keys_are_in_the_tenants_shard():
    """C87."""
    assert {shard_of(Identity(tenant="acme", user=user)) for user in (None, "a", "b")} == {
        shard_of(Identity(tenant="acme"))
    }


def test_a_member_of_a_shard_has_the_keys_of_the_tenant():
    identity = Identity(tenant="acme", user="ann")
    keys = keys_of("tl", identity)

    alone = member_keys("tl", shard_of(identity), "acme")

    assert (alone.tenant, alone.closed, alone.pending, alone.stamp) == (
        keys.tenant,
        keys.closed,
        keys.pending,
        keys.stamp,
    )
    assert (keys.stamp, keys.pending) == (stamp_key("tl", keys.shard), pending_key("tl", keys.shard))


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_a_tenant_has_the_same_keys_in_every_process(seed):
    """C86."""
    code = (
        "from tenantlimits.engine.keys import Identity, keys_of\n"
        "print(keys_of('tl', Identity(tenant='é\\nDEL', user='u', credential='c')))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": seed, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert printed.strip() == str(keys_of("tl", Identity(tenant="é\nDEL", user="u", credential="c")))


def test_the_prefix_stands_before_the_tag():
    """C111: an ACL can name it."""
    assert all(name.startswith("mine:{s") for name in all_names_with("mine"))


def all_names_with(prefix):
    keys = keys_of(prefix, Identity(tenant="acme", user="u", credential="c"))
    return [keys.stamp, keys.closed, keys.pending, *keys.subjects]
