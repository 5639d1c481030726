"""Any value of any type for any setting: a value of its own type, or an error that names the setting."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenantlimits import checks
from tenantlimits.conf import SETTINGS, conf
from tests.test_conf import REQUIRED

HASHABLE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(10**300, 10**320), st.floats(), st.text(max_size=60),
    st.binary(max_size=12), st.decimals(allow_nan=False), st.fractions(), st.complex_numbers(), st.timedeltas(),
    st.sampled_from([Decimal("NaN"), object(), int, ...]),
    st.sampled_from(["a.b", "tests.test_conf", "tests.test_conf.nobody", ".", "..", "a..b"]),
    st.sampled_from(["redis", "all", "default", "Europe/Paris", "/", "https://x", "\ud800", "a\0b", "x" * 5000]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["cost", "counts_in_all", "on_store_failure", "max_hold_seconds", "headers", "jitter", "docs_url"]
)
ANYTHING = st.recursive(
    HASHABLE,
    lambda some: (
        st.lists(some, max_size=3)
        | st.dictionaries(HASHABLE | KEYS, some, max_size=3)
        | st.tuples(some, some)
        | st.frozensets(HASHABLE, max_size=2)
    ),
    max_leaves=6,
)
SOME = settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", SETTINGS)
@SOME
@given(value=ANYTHING)
@example([{}])
@example({"exports": {"cost": Decimal("sNaN")}})
@example({"exports": {"cost": timedelta(1)}})
@example({("a", 1): {}})
@example({"headers": []})
def test_a_setting_takes_a_value_of_its_type_or_says_which_one_is_wrong(name: str, value: Any) -> None:
    """C45: by itself, when everything is validated, and as a system check."""
    with override_settings(TENANTLIMITS=REQUIRED | {name: value}):
        known = conf_or_error(lambda: getattr(conf, name))
        validated = conf_or_error(conf.validate)
        wrong = checks.check_names() + checks.check_values()

    if isinstance(known, ImproperlyConfigured):
        assert str(known).startswith(f"TENANTLIMITS['{name}']")
        assert isinstance(validated, ImproperlyConfigured)
        assert f"tenantlimits.{checks.SETTING_IDS[name]}" in [one.id for one in wrong]
    else:
        assert callable(known) or type(known) in _types(name)
        assert validated is None
        assert wrong == []


@SOME
@given(value=ANYTHING | st.dictionaries(HASHABLE, ANYTHING, max_size=3))
def test_whatever_stands_in_place_of_the_settings_is_refused_in_words(value: Any) -> None:
    """C45: no dict, or a dict of what are no settings; and every check of the settings answers."""
    with override_settings(TENANTLIMITS=value):
        refused = conf_or_error(conf.validate)
        messages = [one for check in checks.SETTINGS_CHECKS for one in check()]

    assert str(refused).startswith("TENANTLIMITS")
    assert messages


def conf_or_error(look: Any) -> Any:
    """What is answered, or ImproperlyConfigured; nothing else may be raised."""
    try:
        return look()
    except ImproperlyConfigured as error:
        return error


def _types(name: str) -> set[type]:
    """The types of what the setting is when it is not set, and of one that is."""
    with override_settings(TENANTLIMITS=REQUIRED):
        default = type(getattr(conf, name))
    return {str, type(None)} if name == "ANONYMOUS_TIER" else {default}
