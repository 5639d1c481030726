"""Leases as arithmetic; the stores' tests hold caps against real sequences."""

from tenantlimits.domain.leases import live, renewed

LEASES = {b"a": 100.0, b"b": 200.0, b"c": 300.0}


def test_a_lease_lives_until_its_deadline():
    """C66."""
    assert live(LEASES, 99, 1000) == LEASES
    assert live(LEASES, 100, 1000) == {b"b": 200, b"c": 300}
    assert live(LEASES, 300, 1000) == {}


def test_no_lease_lives_longer_than_a_lease_though_the_clock_stepped_back():
    """C11."""
    assert live(LEASES, 50, 120) == {b"a": 100, b"b": 170, b"c": 170}


def test_a_held_lease_is_moved_to_the_end():
    """C68."""
    leases, is_held = renewed(LEASES, b"b", deadline=400, again_below=None, now_us=99)

    assert is_held
    assert list(leases.items()) == [(b"a", 100), (b"c", 300), (b"b", 400)]


def test_a_lapsed_lease_is_taken_again_only_where_a_slot_is_free():
    """C69: the others that live count, those that lapsed do not."""

    def held(**options):
        return renewed(LEASES, b"a", deadline=400, now_us=250, **options)

    assert held(again_below=None) == ({b"c": 300}, False)
    assert held(again_below=1) == ({b"c": 300}, False)
    assert held(again_below=2) == ({b"c": 300, b"a": 400}, True)
