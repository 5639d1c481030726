"""A run of the experiments is told as it was, and what README and docs print is the published run. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks.pages import END, written_into
from tests.figures import pages
from tests.figures.experiments import FLOODS, Flood
from tests.figures.figure import SOURCES, Figure, Run, Verdict, read
from tests.pools import virtual

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def published(repository: Path) -> Run:
    return read((repository / "docs/figures/shares.json").read_text("utf-8"))


def figure(unit: str, virtual: float, measured: float) -> Figure:
    return Figure("C1", "one <way>", "quiet tenant: median", unit, published=1, virtual=virtual, measured=measured)


@pytest.mark.parametrize(
    ("unit", "virtual", "measured", "verdict"),
    [
        ("ms", 100, 130, Verdict.AGREES),
        ("ms", 100, 131, Verdict.DIFFERS),
        ("s", 1.3, 0.99, Verdict.DIFFERS),
        ("operations", 190, 190, Verdict.AGREES),
        ("operations", 190, 189, Verdict.DIFFERS),
        ("ms at most", 0.5, 1.3, Verdict.AGREES),
        ("ms at most", 1.2, 1.4, Verdict.DIFFERS),
        ("windows", 0, 0, Verdict.AGREES),
        ("windows", 0, 1, Verdict.DIFFERS),
        ("windows", 4, 12, Verdict.AGREES),
        ("windows", 4, 0, Verdict.DIFFERS),
    ],
)
def test_a_figure_agrees_with_the_one_in_virtual_time_or_not(
    unit: str, virtual: float, measured: float, verdict: Verdict
) -> None:
    assert figure(unit, virtual, measured).verdict is verdict


@pytest.mark.parametrize("flood", FLOODS, ids=lambda one: f"{one.id} {one.way}")
def test_what_was_published_is_within_reach_of_the_rules(flood: Flood) -> None:
    """C1, C2, C3: no published figure is a fifth better than what virtual time gives; counts are the same."""
    found = virtual.run(flood.run())

    for one in flood.measures:
        if one.unit == "operations":
            assert one.of(found) == one.published
        else:
            assert one.of(found) <= 1.2 * one.published


def test_a_run_is_read_from_its_json_as_it_was_written(published: Run) -> None:
    again = read(published.as_json())

    assert list(again.figures) == list(published.figures)
    assert (again.month, again.machine) == (published.month, published.machine)


def test_a_run_of_another_schema_is_not_read(published: Run) -> None:
    with pytest.raises(ValueError, match="run make figures again"):
        read(published.as_json().replace('"schema": 1', '"schema": 0'))


def test_every_published_figure_agrees_and_names_its_source(published: Run, repository: Path) -> None:
    told = json.loads(published.as_json())["figures"]
    named = (repository / "docs/credits.md").read_text("utf-8")

    assert {one["verdict"] for one in told} == {"agrees"}
    assert {(one["id"], one["source"]) for one in told} == set(SOURCES.items())
    assert all(f'"{source}"' in named for source in SOURCES.values())


def test_the_line_of_a_figure_stands_under_its_head() -> None:
    told = pages.line(figure("ms", 982, 990))

    end = pages.HEAD.index("measured") + len("measured")
    assert told[end - 3 : end] == "990"
    assert told.endswith("agrees")


def test_the_chart_is_xml_with_a_bar_for_every_way_and_the_same_in_words(published: Run) -> None:
    root = ElementTree.fromstring(pages.chart(published))
    told = root.findtext(f"{SVG}desc") or ""
    ends = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in root.findall(f"{SVG}rect")]

    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title description")
    assert root.findtext(f"{SVG}title") == pages.TITLE
    assert len(ends) == 4 + 4 + 3
    assert max(ends) < float(root.get("width", 0))
    assert all(f"{one.way} " in told for one in published.figures if one.what == pages.MEDIAN)


@pytest.mark.parametrize("name", pages.PAGES)
def test_the_figures_of_a_page_are_those_of_the_published_run(repository: Path, published: Run, name: str) -> None:
    page = (repository / name).read_text("utf-8")

    assert f"{pages.BEGIN}\n{pages.PAGES[name](published)}\n{END}" in page
    assert written_into(page, pages.PAGES[name](published), begin=pages.BEGIN) == page


def test_the_published_chart_is_that_of_the_published_run(repository: Path, published: Run) -> None:
    assert (repository / "docs/figures/shares.svg").read_text("utf-8") == pages.chart(published)
