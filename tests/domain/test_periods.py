"""Calendar periods in time zones, over clock changes and short months."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantlimits.domain.limits import DAY, HOUR, MONTH, WEEK
from tenantlimits.domain.periods import boundaries, from_us, hour_offset_us, hour_start, midnight, to_us

# Half-hour offsets and a half-hour summer time, midnights that are skipped or come twice, clocks that go back over
# midnight, a day that never was, and the far ends of the day.
ZONES = [
    "UTC", "Europe/Paris", "Europe/Budapest", "Asia/Shanghai", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Adelaide",
    "Australia/Lord_Howe", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Asia/Beirut", "Africa/Cairo",
    "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Chatham", "Africa/Casablanca",
]  # fmt: skip


def local(text: str, zone: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def days_of(period: tuple[datetime, ...], zone: str) -> list[str]:
    return [instant.astimezone(ZoneInfo(zone)).date().isoformat() for instant in period]


@pytest.mark.parametrize(
    ("used_up_at", "seconds"),
    [("2026-10-25T01:30", 84_600), ("2027-03-28T01:30", 77_400), ("2026-11-30T01:30", 81_000)],
)
def test_a_day_ends_at_local_midnight_also_when_it_has_23_or_25_hours(used_up_at, seconds):
    """C19."""
    now = local(used_up_at, "Europe/Paris")

    _, end, _ = boundaries(now, ZoneInfo("Europe/Paris"), DAY)

    assert end.astimezone(ZoneInfo("Europe/Paris")).hour == 0
    assert (end - now.astimezone(UTC)).total_seconds() == seconds


@pytest.mark.parametrize(
    ("zone", "day", "first_instant"),
    [
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00:00+00:00"),
        ("Asia/Beirut", date(2027, 3, 28), "2027-03-27T22:00:00+00:00"),
        ("Africa/Cairo", date(2027, 4, 30), "2027-04-29T22:00:00+00:00"),
        ("America/Havana", date(2026, 11, 1), "2026-11-01T04:00:00+00:00"),
    ],
)
def test_a_midnight_that_does_not_exist_is_the_first_valid_instant_and_one_that_comes_twice_the_first(
    zone, day, first_instant
):
    """C19."""
    assert midnight(day, ZoneInfo(zone)).isoformat() == first_instant


def test_the_last_hour_before_a_skipped_midnight_belongs_to_the_day_before():
    """C19."""
    zone = ZoneInfo("America/Sao_Paulo")
    change = datetime(2018, 11, 4, 3, tzinfo=UTC)

    before, after = boundaries(change - timedelta(seconds=1), zone, DAY), boundaries(change, zone, DAY)

    assert before[1] == after[0] == change
    assert after[1] - after[0] == timedelta(hours=23)


@pytest.mark.parametrize(("zone", "reset"), [("Asia/Shanghai", "2026-11-30T16:00"), ("UTC", "2026-12-01T00:00")])
def test_a_day_is_the_tenants_own(zone, reset):
    """C20: at 23:50 local everything is used, at 00:10 local a new day runs."""
    late, early = local("2026-11-30T23:50", zone), local("2026-12-01T00:10", zone)

    _, end, _ = boundaries(late, ZoneInfo(zone), DAY)
    start, _, _ = boundaries(early, ZoneInfo(zone), DAY)

    assert end == start == datetime.fromisoformat(reset).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("anchor_day", "resets"),
    [
        (31, ["2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"]),
        (30, ["2027-01-30", "2027-02-28", "2027-03-30", "2027-04-30", "2027-05-30"]),
        (29, ["2027-01-29", "2027-02-28", "2027-03-29", "2027-04-29", "2027-05-29"]),
        (29, ["2028-01-29", "2028-02-29", "2028-03-29"]),
        (31, ["2027-11-30", "2027-12-31", "2028-01-31", "2028-02-29"]),
        (1, ["2027-12-01", "2028-01-01", "2028-02-01"]),
    ],
)
def test_a_month_starts_on_its_anchor_day_or_its_last(anchor_day, resets):
    """C21: the anchor returns to 31 when the month allows."""
    zone = "Europe/Budapest"
    for first, second, third in zip(resets, resets[1:], resets[2:], strict=False):
        on_the_day, before_the_next = (
            local(f"{first}T00:00", zone),
            local(f"{second}T00:00", zone) - timedelta(seconds=1),
        )

        for now in (on_the_day, before_the_next):
            assert days_of(boundaries(now, ZoneInfo(zone), MONTH, anchor_day), zone) == [first, second, third]


def test_use_just_before_midnight_utc_belongs_to_the_tenants_new_month():
    """C138."""
    start, _, _ = boundaries(datetime(2024, 12, 31, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Budapest"), MONTH)

    assert start == datetime(2024, 12, 31, 23, tzinfo=UTC)
    assert start.tzinfo is UTC


def test_a_week_starts_on_monday():
    period = boundaries(local("2026-12-06T23:59", "Asia/Kolkata"), ZoneInfo("Asia/Kolkata"), WEEK)

    assert days_of(period, "Asia/Kolkata") == ["2026-11-30", "2026-12-07", "2026-12-14"]


def test_hours_start_on_the_zones_own_full_hour():
    now = datetime(2026, 11, 30, 12, 10, tzinfo=UTC)

    assert hour_start(now, ZoneInfo("Asia/Kolkata")) == datetime(2026, 11, 30, 11, 30, tzinfo=UTC)
    assert hour_start(now, ZoneInfo("Europe/Paris")) == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert hour_offset_us(now, ZoneInfo("Asia/Kolkata")) == 30 * 60 * 1e6
    assert hour_offset_us(now, ZoneInfo("America/St_Johns")) == 30 * 60 * 1e6
    assert hour_offset_us(now, ZoneInfo("Europe/Paris")) == 0


def test_an_hour_that_comes_twice_is_two_hours():
    """C19."""
    zone = ZoneInfo("Europe/Paris")
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)

    assert first.astimezone(zone).hour == second.astimezone(zone).hour == 2
    assert boundaries(first, zone, HOUR)[1] == boundaries(second, zone, HOUR)[0]


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ("2027-04-03T14:40", "2027-04-03T14:00", "2027-04-03T15:30"),
        ("2027-04-03T15:10", "2027-04-03T14:00", "2027-04-03T15:30"),
        ("2026-10-03T15:10", "2026-10-03T14:30", "2026-10-03T16:00"),
        ("2026-10-03T15:40", "2026-10-03T14:30", "2026-10-03T16:00"),
    ],
)
def test_where_clocks_move_by_half_an_hour_the_hour_of_the_change_lasts_an_hour_and_a_half(now, start, end):
    """C19: Lord Howe Island puts its clocks back from 2:00 to 1:30 and forward from 2:00 to 2:30."""
    instants = boundaries(datetime.fromisoformat(now).replace(tzinfo=UTC), ZoneInfo("Australia/Lord_Howe"), HOUR)

    assert [one.isoformat()[:16] for one in instants[:2]] == [start, end]


@settings(max_examples=300)
@given(
    seconds=st.integers(
        to_us(datetime(2000, 1, 1, tzinfo=UTC)) // 10**6, to_us(datetime(2060, 1, 1, tzinfo=UTC)) // 10**6
    ),
    zone=st.sampled_from(ZONES),
    period=st.sampled_from([HOUR, DAY, WEEK, MONTH]),
    anchor_day=st.integers(1, 31),
)
def test_consecutive_periods_neither_overlap_nor_leave_a_gap(seconds, zone, period, anchor_day):
    """C19, C21: over clock changes, skipped midnights and short months."""
    assert_consecutive(from_us(seconds * 1e6), ZoneInfo(zone), period, anchor_day)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("period", [HOUR, DAY])
def test_periods_are_consecutive_in_every_quarter_of_an_hour_around_every_clock_change(zone, period):
    """C19, C20."""
    where = ZoneInfo(zone)
    changes = [
        datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day)
        for year in (2009, 2011, 2018, 2026)
        for day in range(365)
        if (at := datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day)).astimezone(where).utcoffset()
        != (at + timedelta(days=1)).astimezone(where).utcoffset()
    ]

    for change in changes:
        for quarter in range(4 * 27):
            assert_consecutive(change + timedelta(minutes=15 * quarter, seconds=quarter % 2), where, period, 1)


def assert_consecutive(now: datetime, zone: ZoneInfo, period: int, anchor_day: int) -> None:
    start, end, next_end = boundaries(now, zone, period, anchor_day)
    last = end - timedelta(microseconds=1)

    assert start <= now < end < next_end
    assert boundaries(start, zone, period, anchor_day) == (start, end, next_end)
    assert boundaries(last, zone, period, anchor_day) == (start, end, next_end)
    assert boundaries(end, zone, period, anchor_day)[:2] == (end, next_end)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds UTC
def test_microseconds_keep_an_instant_exactly(instant):
    assert from_us(to_us(instant)) == instant
