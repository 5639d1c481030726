"""The switch on the command line: with a reason, in the log, in force on the next request."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from tenantlimits.gate import admit
from tenantlimits.gate.store import stores
from tenantlimits.models import Change, Limit, Switch, Tier


@pytest.fixture
def site(transactional_db: None, settings: Any, key_prefix: str) -> Iterator[None]:
    """A default tier that allows nothing."""
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": len,
        "DEFAULT_TIER": "free",
        "KEY_PREFIX": key_prefix,
        "STORE_TIMEOUT_SECONDS": 5,  # a busy machine is no outage
    }
    Limit.objects.create(
        tier=Tier.objects.create(slug="free", name="Free"), name="all-rate", amount=0, period_seconds=1
    )
    yield
    stores.rebuild()


def told(*arguments: str) -> str:
    output = StringIO()
    call_command("tenantlimits_switch", *arguments, stdout=output, stderr=output, no_color=True)
    return output.getvalue().strip()


def test_it_is_in_force_on_the_next_operation(site: None) -> None:
    assert admit(lane="default", tenant="acme").refused

    assert told("off", "--reason", "incident 7") == "The switch is at off."
    assert admit(lane="default", tenant="acme").allowed

    assert told("enforce", "--reason", "incident over") == "The switch is at enforce."
    assert admit(lane="default", tenant="acme").refused


def test_it_says_where_it_is(site: None) -> None:
    before = told()
    told("observe", "--reason", "incident 7")

    assert before == "The switch is at enforce."
    assert told() == "The switch is at observe: incident 7"


def test_the_log_has_the_reason_and_the_name(site: None) -> None:
    User.objects.create_user("ann")

    told("observe", "--reason", "incident 7", "--by", "ann")

    line = Change.objects.filter(model="switch").latest("at")
    assert (line.actor_name, line.reason) == ("ann", "incident 7")
    assert line.changes["mode"] == [None, "observe"]
    assert Switch.current().changed_by == User.objects.get(username="ann")


def test_nobody_turns_it_without_a_reason(site: None) -> None:
    with pytest.raises(CommandError, match="--reason"):
        told("off")

    assert not Switch.objects.exists()


def test_a_name_that_nobody_has_is_an_error(site: None) -> None:
    with pytest.raises(CommandError, match="no user 'zoe'"):
        told("off", "--reason", "incident 7", "--by", "zoe")


def test_a_word_that_is_no_mode_is_an_error(site: None) -> None:
    with pytest.raises(CommandError, match="invalid choice: 'on'"):
        told("on", "--reason", "incident 7")


def test_turning_it_to_where_it_is_changes_nothing(site: None) -> None:
    assert "already" in told("enforce", "--reason", "to be sure")
    assert not Change.objects.filter(model="switch").exists()


def test_a_store_that_is_away_is_said_aloud(site: None, settings: Any) -> None:
    cache = settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {"default": cache}
    stores.rebuild()

    output = told("observe", "--reason", "incident 7")

    assert "in force after at most 60 s" in output
    assert Switch.current().mode == "observe"
