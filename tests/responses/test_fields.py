"""The fields that tell limits, read back by a parser that is not ours."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retryheader import parse_ratelimit, parse_ratelimit_policy

from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.limits import DAY, MINUTE, MONTH, UNLIMITED, Mode
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.responses import limit_fields, refusal
from tests.engine.builders import Caller, Clock, bucket, counter, log, quota
from tests.responses.builders import asking, body_of, responses

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


def test_an_allowed_answer_tells_the_tightest_enforced_limit_only(caller):
    acme = caller(
        bucket(100, MINUTE, name="minute"), quota(1000, name="day"), log(2, 5, name="seen", mode=Mode.OBSERVE),
        quota(UNLIMITED, name="free"),
    )  # fmt: skip
    decision = acme.admit(1)

    fields = limit_fields(decision)

    assert fields == {"RateLimit-Policy": '"minute";q=100;w=60', "RateLimit": '"minute";r=99;t=1'}


def test_what_is_left_is_rounded_down_and_the_time_until_more_up(caller, clock):
    acme = caller(bucket(60, 600, name="slow", burst=10))
    acme.admit(5)
    clock.step(4)

    (left,) = parse_ratelimit(limit_fields(acme.admit(0.5))["RateLimit"])

    # 10 - 5 + 0.4 - 0.5 = 4.9 are left; a tenth of a unit takes a second.
    assert (left.policy, left.remaining, left.window) == ("slow", 4, 1)


@pytest.mark.parametrize(
    ("limit", "policy", "left"),
    [
        (bucket(3, MINUTE, name="x", burst=20), '"x";q=20;w=400', '"x";r=10;t=20'),
        (log(20, 12, name="x"), '"x";q=20;w=12', '"x";r=10;t=12'),
        (counter(20, 12, name="x"), '"x";q=20;w=12', '"x";r=10;t=14'),
        (quota(20, DAY, name="x"), '"x";q=20;w=86400', '"x";r=10;t=43200'),
        (quota(20, MONTH, name="x"), '"x";q=20;w=2592000', '"x";r=10;t=43200'),
    ],
)
def test_each_kind_tells_quota_window_and_time_until_more(caller, limit, policy, left):
    acme = caller(limit)

    fields = limit_fields(acme.admit(9.99))

    assert fields == {"RateLimit-Policy": policy, "RateLimit": left}


def test_a_cap_counts_concurrent_requests_without_times(refused, caller):
    fields = limit_fields(refused("cap"))
    (policy,), (left,) = parse_ratelimit_policy(fields["RateLimit-Policy"]), parse_ratelimit(fields["RateLimit"])

    assert fields == {
        "RateLimit-Policy": '"exports-cap";q=1;qu="concurrent-requests"',
        "RateLimit": '"exports-cap";r=0',
    }
    assert (policy.unit, policy.window, left.remaining, left.window) == ("concurrent-requests", None, 0, None)


def test_a_block_has_a_quota_of_none_and_no_time_until_more(refused):
    fields = limit_fields(refused("block"))

    assert fields == {"RateLimit-Policy": '"token_bucket";q=0;w=60', "RateLimit": '"token_bucket";r=0'}
    assert parse_ratelimit_policy(fields["RateLimit-Policy"])[0].quota == 0


def test_a_refusal_tells_every_policy_and_what_refused_longest_first(caller):
    acme = caller(
        bucket(50, MINUTE, name="roomy"), log(2, 3, name="short"), quota(2, name="day"), quota(UNLIMITED, name="free"),
        log(1, 3, name="seen", mode=Mode.OBSERVE),
    )  # fmt: skip
    acme.admit(2)

    response = refusal(acme.admit(), asking())

    assert [one.name for one in parse_ratelimit_policy(response["RateLimit-Policy"])] == ["day", "short", "roomy"]
    assert [(one.policy, one.window) for one in parse_ratelimit(response["RateLimit"])] == [
        ("day", 43200),
        ("short", 3),
    ]
    assert body_of(response)["violated-policies"] == ["short", "day"]


@pytest.mark.parametrize("kind", ["bucket", "log", "quota", "cap", "fuse", "never", "block"])
def test_the_fields_of_every_refusal_parse(refused, kind):
    """C175."""
    fields = limit_fields(refused(kind))

    policies = parse_ratelimit_policy(fields["RateLimit-Policy"])
    assert {one.policy for one in parse_ratelimit(fields["RateLimit"])} <= {one.name for one in policies}


def test_exactly_one_style_is_sent_as_the_setting_says(caller, clock):
    """C175."""
    acme = caller(bucket(60, MINUTE, name="rate", burst=20))
    allowed, refused = acme.admit(5.5), acme.admit(16)

    with responses(headers="x-ratelimit"):
        assert limit_fields(allowed) == {
            "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "14", "X-RateLimit-Reset": "6",
        }  # fmt: skip
        assert limit_fields(refused) == {
            "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "14", "X-RateLimit-Reset": "2",
        }  # fmt: skip
    with responses(headers=None):
        assert limit_fields(allowed) == limit_fields(refused) == {}
        assert refusal(refused, asking())["Retry-After"] == "2"


def test_x_ratelimit_has_no_reset_where_nobody_knows_it(refused):
    with responses(headers="x-ratelimit"):
        assert limit_fields(refused("cap")) == {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0"}
        assert "X-RateLimit-Reset" not in limit_fields(refused("never"))


def test_nothing_is_told_where_nothing_limits(caller, refused):
    assert limit_fields(caller().admit()) == {}
    assert limit_fields(caller(bucket(UNLIMITED)).admit()) == {}
    assert limit_fields(refused("store")) == {}
    with responses(headers="x-ratelimit"):
        assert limit_fields(caller().admit()) == {}


def test_an_answer_given_without_the_shared_store_claims_no_numbers(caller):
    decision = caller(bucket(5)).admit()
    degraded = Decision(
        plan=decision.plan, allowed=True, cost=1000, now_us=decision.now_us, states=decision.states,
        fits=decision.fits, degraded=True,
    )  # fmt: skip

    assert limit_fields(degraded) == {}


@pytest.mark.parametrize(
    "name",
    [
        'x", "admin";q=1',
        "back\\slash",
        "a\r\nSet-Cookie: session=1",
        "ümlaut 限",
        "\x7f\x00",
        "</dd><script>alert(1)</script>",
        "q=1;w=2,3",
    ],
)
def test_no_name_can_split_or_break_a_field(caller, name):
    """C185."""
    acme = caller(bucket(1, name=name))
    acme.admit()

    response = refusal(acme.admit(), asking())

    (policy,), (left,) = parse_ratelimit_policy(response["RateLimit-Policy"]), parse_ratelimit(response["RateLimit"])
    assert policy.name == left.policy
    assert [policy.name] == body_of(response)["violated-policies"]
    assert body_of(response)["limit"]["name"] == name
    assert b"\r" not in response.serialize_headers().replace(b"\r\n", b"")
    assert b"Set-Cookie:" not in response.serialize_headers()


@given(name=NAMES)
def test_any_name_survives_as_the_name_of_one_policy(name):
    clock = Clock()
    acme = Caller(MemoryEngine(clock=clock), clock, (bucket(1, name=name),))

    fields = limit_fields(acme.admit())

    (policy,), (left,) = parse_ratelimit_policy(fields["RateLimit-Policy"]), parse_ratelimit(fields["RateLimit"])
    assert policy.name == left.policy
    if re.fullmatch(r"[-a-zA-Z0-9_]+", name):
        assert policy.name == name
