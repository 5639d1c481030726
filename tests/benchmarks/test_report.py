"""A run is told as it was: verdicts, JSON, chart, and the figures that README and docs print. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks import pages
from tests.benchmarks.__main__ import SECTIONS
from tests.benchmarks.chart import chart
from tests.benchmarks.report import HEAD, Report, line, machine, number, read
from tests.benchmarks.rows import AT_ONCE, IN_TURN, Row, Verdict, missing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run() -> Report:
    """A run with a row of each sort."""
    rows = (
        Row("P1", "a decision over redis-py's no-op: tenant", 0.90, 0.75, 0.8),
        Row("P2", f"limits{IN_TURN}", measured=5.0),
        Row("P2", f"some <other> & more{AT_ONCE}", measured=2.5),
        missing("P2", f"gone{IN_TURN}", "not installed"),
        Row("P4", "memory of a tenant among 1,000", 300, 240, 281.98, unit="bytes"),
        Row("P7", "a trivial DRF view behind gunicorn keeps of its throughput", 0.70, 0.80, 0.9, more_is_better=True),
        Row("P7", "behind gunicorn with four DRF throttles", measured=0.3),
        Row("P7", "an async view behind uvicorn keeps", measured=0.6),
    )
    return Report("2026-11", machine("Valkey 9.1"), rows)


@pytest.mark.parametrize(
    ("measured", "less", "more"),
    [
        (0.5, Verdict.BEYOND, Verdict.SHORT),
        (1.0, Verdict.BEYOND, Verdict.SHORT),
        (1.5, Verdict.PASS, Verdict.SHORT),
        (2.0, Verdict.PASS, Verdict.PASS),
        (2.5, Verdict.SHORT, Verdict.PASS),
        (3.0, Verdict.SHORT, Verdict.BEYOND),
    ],
)
def test_a_row_is_beyond_its_goal_passes_its_must_or_is_short(measured: float, less: Verdict, more: Verdict) -> None:
    assert Row("P1", "less is better", 2.0, 1.0, measured).verdict is less
    assert Row("P5", "more is better", 2.0, 3.0, measured, more_is_better=True).verdict is more


def test_a_row_without_a_target_or_a_figure_has_no_verdict_on_it() -> None:
    assert Row("P2", "a peer", measured=5.0).verdict is Verdict.SHOWN
    assert missing("P7", "whole requests", "wrk is not installed").verdict is Verdict.MISSING


def test_the_line_of_what_could_not_be_measured_says_why() -> None:
    assert line(missing("P7", "whole requests", "wrk is not installed")).endswith("missing: wrk is not installed")


def test_the_columns_of_the_table_stand_under_their_heads(run: Report) -> None:
    places = [HEAD.index(word) + len(word) for word in ("must", "goal")]

    assert [line(run.rows[0])[end - 4 : end] for end in places] == ["0.90", "0.75"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.123, "", "0.12"),
        (281.98, "bytes", "282"),
        (22_912.4, "/s", "22,900"),
        (9.876, "us", "9.88"),
        (19.84, "%", "19.8"),
        (0.0, "%", "0.00"),
        (None, "", "-"),
    ],
)
def test_a_figure_has_as_many_digits_as_mean_something(value: float | None, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_a_run_is_read_from_its_json_as_it_was_written(run: Report) -> None:
    again = read(run.as_json())

    assert list(again.rows) == list(run.rows)
    assert (again.month, again.machine) == (run.month, run.machine)


def test_the_json_names_the_verdict_of_every_row(run: Report) -> None:
    rows = json.loads(run.as_json())["rows"]

    assert [row["verdict"] for row in rows] == [str(row.verdict) for row in run.rows]


def test_a_run_of_another_schema_is_not_read(run: Report) -> None:
    with pytest.raises(ValueError, match="run make bench again"):
        read(run.as_json().replace('"schema": 1', '"schema": 0'))


def test_the_machine_is_described_without_saying_which_one_it_is() -> None:
    assert set(machine("Valkey 9.1")) == {
        "processors", "server", "python", "redis", "hiredis", "Django", "djangorestframework",
    }  # fmt: skip


def test_the_chart_is_xml_with_a_bar_for_every_figure_and_the_same_in_words(run: Report) -> None:
    root = ElementTree.fromstring(chart(run))
    told = root.findtext(f"{SVG}desc") or ""

    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title description"
    assert root.findtext(f"{SVG}title")
    assert len(root.findall(f"{SVG}rect")) == 1 + 2 + 3
    assert all(words in told for words in ("limits 5.00", "some <other> & more (in one call) 2.50"))
    assert "gone" not in told


def test_the_chart_has_colours_for_dark_pages_and_no_bar_leaves_it(run: Report) -> None:
    text = chart(run)
    root = ElementTree.fromstring(text)
    ends = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in root.findall(f"{SVG}rect")]

    assert "prefers-color-scheme: dark" in text
    assert max(ends) < float(root.get("width", 0))


def test_a_chart_without_peers_and_without_a_site_is_still_a_chart(run: Report) -> None:
    ElementTree.fromstring(chart(Report(run.month, run.machine, run.rows[:1])))


def test_writing_a_run_into_a_page_replaces_what_the_last_one_wrote() -> None:
    page = f"# Speed\n{pages.BEGIN}\nold\n{pages.END}\nMore.\n"

    once = pages.written_into(page, "new\n\nlines \\1")

    assert once == f"# Speed\n{pages.BEGIN}\nnew\n\nlines \\1\n{pages.END}\nMore.\n"
    assert pages.written_into(once, "new\n\nlines \\1") == once


@pytest.mark.parametrize("name", pages.PAGES)
def test_the_figures_of_a_page_are_those_of_the_published_run(repository: Path, name: str) -> None:
    published = read((repository / "docs/figures/bench.json").read_text("utf-8"))
    page = (repository / name).read_text("utf-8")

    assert pages.written_into(page, pages.PAGES[name](published)) == page


def test_the_published_chart_is_that_of_the_published_run(repository: Path) -> None:
    published = read((repository / "docs/figures/bench.json").read_text("utf-8"))

    assert (repository / "docs/figures/bench.svg").read_text("utf-8") == chart(published)


def test_every_section_of_the_benchmark_is_there(repository: Path) -> None:
    assert [name for name in SECTIONS if not (repository / f"tests/benchmarks/{name}.py").is_file()] == []
