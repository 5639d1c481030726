"""Lanes that views name are checked before the first request."""

from django.test import override_settings

from tenantlimits.checks import check_lanes_of_views
from tests.surfaces.conftest import SITE, settings_of


def test_a_view_in_a_lane_that_no_setting_names_is_an_error_at_start() -> None:
    """C45, Bad input: a typo in a lane is found by the checks, with what was probably meant."""
    lanes = {"reads": {}, "uploads": {}, "export": {}}
    with override_settings(**SITE, TENANTLIMITS=settings_of("test", LANES=lanes)):
        found = check_lanes_of_views()

    assert {message.id for message in found} == {"tenantlimits.E050"}
    assert any("tests.surfaces.urls.export" in message.msg for message in found)
    assert all("'exports'" in message.msg and "Did you mean 'export'?" in message.msg for message in found)


def test_views_in_lanes_that_there_are_pass() -> None:
    """C45."""
    with override_settings(**SITE, TENANTLIMITS=settings_of("test")):
        assert check_lanes_of_views() == []
