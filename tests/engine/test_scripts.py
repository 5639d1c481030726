"""The scripts as texts and as what a server makes of them."""

import asyncio
import itertools
import os
import re
from dataclasses import replace
from importlib.resources import files

import pytest
import redis
from redis.connection import _HiredisParser, _RESP2Parser, _RESP3Parser

from tenantlimits.domain.limits import HOUR, Counts, Kind, Layer
from tenantlimits.engine import scripts
from tenantlimits.engine.base import (
    Acknowledge,
    Admit,
    Begin,
    Collect,
    Move,
    Peek,
    Pending,
    Release,
    Renew,
    Settle,
    Status,
    witnesses,
)
from tenantlimits.engine.keys import SHARDS
from tenantlimits.engine.redis import RedisEngine
from tests.engine.builders import (
    ACME,
    BOLT,
    NOBODY,
    Caller,
    bucket,
    cap,
    connections_to,
    limits_part,
    log,
    plan_of,
    quota,
    redis_engine,
)

LUA = {
    file.name.removesuffix(".lua"): file.read_text() for file in files("tenantlimits.engine").joinpath("lua").iterdir()
}
POOL = ["pool_beat", "pool_enter", "pool_free", "pool_leave", "pool_show"]
WHOLE = [
    "acknowledge",
    "announce",
    "begin",
    "collect",
    "deposit",
    "discard",
    "move",
    "release",
    "renew",
    "reports",
    *POOL,
]
MAKERS = {"bucket": bucket, "log": log, "quota": quota, "cap": cap}
# What an account needs in Redis: also named in the docs.
COMMANDS = {
    "get",
    "set",
    "exists",
    "hget",
    "hset",
    "hdel",
    "hgetall",
    "sadd",
    "srem",
    "pexpire",
    "pttl",
    "time",
    "mget",
    "zadd",
    "zcard",
    "zrem",
    "zrangebylex",
    "zrangebyscore",
    "hlen",
    "publish",
    "zremrangebyscore",
    "type",
    "del",
}


def shape(*limits, **options):
    return scripts.shape_of(plan_of(limits, now_us=1.8e15, **options))


def full_tier(*kinds):
    """As many limits as a tier holds, in all layers."""
    return [
        MAKERS[kind](9, name=f"{kind}{n}", layer=list(Layer)[n % 3], lane=("all", "reads", "exports")[n // 3 % 3])
        for n, kind in zip(range(24), itertools.cycle(kinds))
    ]


def composed():
    """Every verb over tiers of one, of all and of the most limits, with and without usage and stamps."""
    tiers = [[], [bucket(5)], [cap(2), log(5), quota(5), bucket(5, counts=Counts.REQUESTS)], full_tier(*MAKERS)]
    for tier, counts_usage, caller_clock in itertools.product(tiers, (True, False), (True, False)):
        one = shape(*tier, counts_usage=counts_usage)
        for verb in (scripts.admit, scripts.peek, scripts.settle):
            yield verb(one, caller_clock=caller_clock).text
    for name, caller_clock in itertools.product(WHOLE, (True, False)):
        yield scripts.whole(name, caller_clock=caller_clock).text
    for caller_clock in (True, False):
        yield scripts.tally(caller_clock=caller_clock).text


EVERY_TEXT = pytest.mark.parametrize("text", sorted(set(composed())), ids=itertools.count())


@pytest.mark.parametrize("name", sorted(LUA))
def test_every_file_begins_by_saying_what_it_is(name):
    assert re.match(rf"-- {name}: \S.*\n", LUA[name])


@pytest.mark.parametrize("name", [*WHOLE, "tally"])
def test_every_verb_has_its_contract_in_its_header(name):
    header = "\n".join(itertools.takewhile(lambda line: line.startswith("--"), LUA[name].splitlines()))

    assert re.search(r"^-- KEYS\[", header, re.MULTILINE)
    assert re.search(r"^-- reply ", header, re.MULTILINE)
    assert re.search(r"^-- cost +O\(", header, re.MULTILINE)
    assert ("ARGV[" in header) == ("ARGV" in LUA[name].replace(header, ""))


def test_every_verb_and_every_snippet_is_a_file_and_every_file_is_used():
    snippets = {"prelude", "layout", "pool", "remap", "stamps", "verdict", "usage", *scripts.SNIPPETS.values()}

    assert set(LUA) == {*WHOLE, "tally", "counted", *snippets}


def code(text):
    """The text without comments and strings, which may contain anything."""
    return re.sub(r"'(?:\\.|[^'\\])*'", "''", re.sub(r"--.*", "", text))


@EVERY_TEXT
def test_every_name_is_local(text):
    """A global would be an error on the server, but only when its line runs."""
    statements = re.split(r"\n|;|\b(?:then|do|else|end)\b", code(text))
    declared, assigned = set(), set()
    for statement in map(str.strip, statements):
        if match := re.match(r"local function (\w+)|(?:local|for) ([\w, ]+?)(?: in .*|\s*=.*)?$", statement, re.DOTALL):
            declared |= {name.strip() for name in (match[1] or match[2]).split(",")}
        elif match := re.match(r"([A-Za-z_][\w, ]*?)\s*=(?!=)", statement):
            assigned |= {name.strip() for name in match[1].split(",")}

    assert declared
    assert assigned - declared == set()
    assert not re.search(r"(?<!local )\bfunction \w", code(text))


@EVERY_TEXT
def test_every_key_is_declared_and_every_written_key_ends(text):
    """C100, C87, C03: no key is built in a script, and none is written without its end."""
    calls = re.findall(r"\bcall\('(\w+)'(?:, ([^\n]*))?", text)
    writes = [(name, rest) for name, rest in calls if name in ("SET", "HSET", "SADD")]

    assert "redis." not in text.replace("redis.call", "", 1)
    assert {name.lower() for name, _ in calls} <= COMMANDS
    for name, rest in calls:
        # A channel is no key, and published to all nodes of a cluster.
        assert name in ("TIME", "PUBLISH") or re.match(
            r"KEYS\[\w+\]" if name != "MGET" else r"KEYS\[\d\](, KEYS\[\d\])*\)", rest
        )
    for name, rest in writes:
        key = rest.split(",")[0]
        assert "'PX'" in rest or "'KEEPTTL'" in rest if name == "SET" else f"call('PEXPIRE', {key}," in text


@EVERY_TEXT
def test_every_loop_is_bounded(text):
    assert not re.search(r"while true|repeat|goto", code(text))


@pytest.mark.parametrize("sizes", [1, 2, 3])
def test_every_combination_of_kinds_is_a_script_that_a_server_can_read(own_valkey, sizes):
    """P3: with and without usage and stamps, in both orders of cost."""
    with redis.Redis.from_url(own_valkey) as client:
        for kinds in itertools.combinations_with_replacement(MAKERS, sizes):
            for counts, counts_usage in itertools.product(Counts, (True, False)):
                limits = [MAKERS[kind](9, name=f"l{n}", counts=counts) for n, kind in enumerate(kinds)]
                one = shape(*limits, counts_usage=counts_usage)
                for verb in (scripts.admit, scripts.peek, scripts.settle):
                    script = verb(one, caller_clock=False)
                    assert client.script_load(script.text) == script.sha


@pytest.mark.parametrize("kinds", [[kind] for kind in MAKERS] + [list(MAKERS)], ids=str)
def test_the_most_limits_that_a_tier_holds_fit_into_luas_two_hundred_locals(redis_url, key_prefix, clock, kinds):
    """P3: 24 limits in three layers, of each kind and of all; all of them asked or half of them."""
    engine = redis_engine(redis_url, key_prefix, clock)
    half_asked = full_tier(*kinds)
    all_asked = [replace(limit, lane="reads") for limit in half_asked]
    for who, tier in ((ACME, half_asked), (BOLT, all_asked)):
        acme = Caller(engine, clock, tier, identity=who)
        acme.begin()

        decision, lease = acme.hold(2)

        assert decision.allowed
        assert acme.settle(decision, 1) is Status.ALLOWED
        assert {one.used for one in acme.peek().readings} <= {1, 3}
        assert acme.release(lease) == (Kind.CONCURRENCY in {limit.kind for limit in tier})
    engine.close()


def test_a_server_that_forgot_its_scripts_is_told_again_and_each_call_counts_once(own_valkey, key_prefix, clock):
    """C99: before every second call, also for many keys in one round trip, also from an event loop."""
    engine = redis_engine(own_valkey, key_prefix, clock)
    with redis.Redis.from_url(own_valkey) as client:
        acme, nobody = (Caller(engine, clock, [bucket(50), cap(50)], identity=who) for who in (ACME, NOBODY))

        leases = []
        for call in range(10):
            if call % 2:
                client.script_flush()
            leases += [one.hold()[1] for one in (acme, nobody)]
        client.script_flush()
        renewed = engine.run(Renew(tuple(leases), (False,) * 20))
        client.script_flush()
        again = asyncio.run(_from_a_loop(engine, [Admit(plan=acme.plan(), identity=ACME, cost=1000)] * 2))

    assert renewed == (True,) * 20
    assert [one.status for one in again] == [Status.ALLOWED] * 2
    assert (acme.used("token_bucket"), nobody.used("token_bucket")) == (12, 10)
    engine.close()


async def _from_a_loop(engine, commands):
    return [await engine.arun(command) for command in commands]


def test_threads_and_event_loops_get_the_same_answers(redis_url, key_prefix, clock):
    """P8: every command."""
    limits = [bucket(5), log(5), quota(5), cap(2)]
    lease_id = os.urandom(8)

    def commands(engine):
        caller = Caller(engine, clock, limits)
        plan, lease = caller.plan(), caller.lease(lease_id)
        admit = Admit(plan=plan, identity=ACME, cost=2000, lease=lease_id)
        charged = {term.id: 1.0 for term in plan.asked}
        return [
            admit, admit, admit, Peek(plan=plan, identity=ACME, cost=2000),
            Settle(plan=plan, identity=ACME, delta=-500, witnesses=charged),
            Renew((lease,), (False,)), Release(lease), Release(lease), Renew((lease,), (True,)),
            Pending(), Move(frozenset({"acme"})), Move(None), Move(frozenset()), Peek(plan=plan, identity=ACME, cost=0),
        ]  # fmt: skip

    threaded, looped = (redis_engine(redis_url, f"{key_prefix}-{way}", clock) for way in ("thread", "loop"))

    from_a_thread = [threaded.run(command) for command in commands(threaded)]
    from_a_loop = asyncio.run(_from_a_loop(looped, commands(looped)))

    assert from_a_loop == from_a_thread
    member = from_a_thread[9][0]
    counted = threaded.run(Collect(member))
    assert asyncio.run(_from_a_loop(looped, [Collect(member)])) == [counted]
    assert asyncio.run(_from_a_loop(looped, [Acknowledge(member, counted)])) == [
        threaded.run(Acknowledge(member, counted))
    ]
    assert len(asyncio.run(_from_a_loop(looped, [Begin(ACME)]))[0].stamps.tenant) == 8
    threaded.close()
    looped.close()


OPTIONS = [
    {"decode_responses": decode_responses, "protocol": protocol, "parser_class": parser}
    for decode_responses in (False, True)
    for protocol in (2, 3)
    for parser in (_HiredisParser, _RESP2Parser, _RESP3Parser)
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: "-".join(map(str, one.values())))
def test_the_hosts_options_for_its_own_client_change_no_answer(redis_url, key_prefix, clock, kind, options):
    """C109: bytes or text, RESP2 or RESP3, with hiredis and without; from a thread and from an event loop."""
    engine = RedisEngine(connections_to(redis_url, kind, **options), prefix=key_prefix, clock=clock)
    acme = Caller(engine, clock, [bucket(3), log(3), cap(2)])

    decision, lease = acme.hold(2)

    assert [decision.allowed, acme.admit(2).allowed, acme.release(lease), acme.release(lease)] == [
        True,
        False,
        True,
        False,
    ]
    assert [one.used for one in acme.peek(0).readings] == [2, 2, 0]
    assert [member.tenant for member in engine.run(Pending())] == ["acme"]
    assert asyncio.run(_from_a_loop(engine, [Peek(plan=acme.plan(), identity=ACME, cost=2000)]))[0].fits == (
        False,
        False,
        True,
    )
    engine.close()


def test_an_account_that_may_do_nothing_else_is_enough(own_valkey, key_prefix, clock):
    """C111, C100: only our commands, only on our keys."""
    rights = ["+evalsha", "+script|load", "+smembers", *(f"+{name}" for name in COMMANDS)]
    with redis.Redis.from_url(own_valkey) as client:
        client.execute_command("ACL", "SETUSER", "limiter", "reset", "on", ">secret", f"~{key_prefix}:*", *rights)
        client.script_flush()
    engine = RedisEngine(
        connections_to(own_valkey, username="limiter", password="secret"), prefix=key_prefix, clock=clock
    )
    acme = Caller(engine, clock, [bucket(3), log(3), quota(3), cap(2), bucket(3, layer=Layer.USER, name="u")])

    acme.begin()
    decision, lease = acme.hold(2)
    acme.settle(decision, 0.5)
    acme.renew(lease)
    clock.step(HOUR)
    acme.admit(0.5)
    for member in engine.run(Pending()):
        assert engine.run(Acknowledge(member, engine.run(Collect(member))))
    engine.run(Move(None))

    assert acme.release(lease) is False
    assert acme.used("calendar_quota") == 3
    engine.close()


def test_a_server_without_memory_left_refuses_before_anything_is_written(own_valkey, key_prefix, clock):
    """C107: all checks before the first write, and no script half done."""
    engine = redis_engine(own_valkey, key_prefix, clock)
    acme = Caller(engine, clock, [bucket(5), cap(2), bucket(5, layer=Layer.USER, name="u")])
    acme.hold()
    with redis.Redis.from_url(own_valkey) as client:
        before = {
            key: client.get(key) for key in client.scan_iter(match=f"{key_prefix}*") if client.type(key) == b"string"
        }
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                acme.hold()
        finally:
            client.config_set("maxmemory", 0)
        after = {key: client.get(key) for key in before}

    assert after == before
    assert len(limits_part(next(iter(before.values())))) > 10
    acme.engine = redis_engine(own_valkey, key_prefix, clock)  # the first asks no more until the server is well again
    assert acme.used("token_bucket") == 1
    engine.close()


def test_all_stamps_are_moved_in_one_round_trip(redis_url, key_prefix, redis_client, clock):
    engine = redis_engine(redis_url, key_prefix, clock)

    engine.run(Move(None))

    stamps = [redis_client.get(key) for key in redis_client.scan_iter(match=f"{key_prefix}*", count=1000)]
    assert len(stamps) == SHARDS
    assert len(set(stamps)) == SHARDS
    engine.close()


def test_a_witness_is_of_what_was_charged_only(clock, redis_url, key_prefix):
    """K6: what is off, counts requests, or is a slot is never settled."""
    engine = redis_engine(redis_url, key_prefix, clock)
    acme = Caller(engine, clock, [bucket(5), bucket(5, name="r", counts=Counts.REQUESTS), cap(2)])

    answer = engine.run(Admit(plan=acme.plan(), identity=ACME, cost=1000))

    assert witnesses(acme.plan(), answer) == {acme.plan().asked[0].id: 1.0}
    engine.close()
