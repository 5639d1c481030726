"""What README and docs say of the code is so."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands
from django.test import override_settings
from django.utils.module_loading import import_string

from tenantlimits.conf import SETTINGS, Responses, conf
from tenantlimits.domain.lanes import Lane
from tenantlimits.domain.pools import PoolSpec
from tenantlimits.gate import admit
from tenantlimits.models import Limit, Tier
from tenantlimits.testing import memory_engine

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
REQUIRED = {"TENANT_RESOLVER": "project.tenancy.tenant_of", "DEFAULT_TIER": "free"}


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def rows_of(text: str, head: str) -> dict[str, str]:
    """First and second cell of each row of the table whose first column has that head; the first is in backticks."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    found = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, second = [cell.strip() for cell in line.split("|")[1:3]]
        found[first.strip("`")] = second.strip("`")
    return found


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The names that GitHub gives to the headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_readme_lists_every_setting_and_no_other() -> None:
    assert list(rows_of(text_of(ROOT / "README.md"), "Setting")) == list(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_writing_the_default_of_the_readme_changes_nothing(name: str) -> None:
    default = rows_of(text_of(ROOT / "README.md"), "Setting")[name]

    if name in REQUIRED:
        assert default == "required"
        return
    with override_settings(TENANTLIMITS=REQUIRED):
        unset = getattr(conf, name)
    with override_settings(TENANTLIMITS=REQUIRED | {name: ast.literal_eval(default)}):
        assert getattr(conf, name) == unset


@pytest.mark.parametrize(
    ("head", "value", "left_out"),
    [
        ("Key of a lane", Lane(name="reads"), {"name"}),
        ("Key of a pool", PoolSpec(name="exports", capacity=10), {"name", "capacity"}),
        ("Key of `RESPONSES`", Responses(), set()),
    ],
)
def test_the_readme_lists_every_key_of_a_setting_with_its_default(head: str, value: Any, left_out: set[str]) -> None:
    told = {name: ast.literal_eval(default) for name, default in rows_of(text_of(ROOT / "README.md"), head).items()}

    assert told == {one.name: getattr(value, one.name) for one in fields(value) if one.name not in left_out}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    commands = set(re.findall(r"\btenantlimits_[a-z]+\b", text_of(page)))
    targets = set(re.findall(r"`make ([a-z-]+)", text_of(page)))
    makefile = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))

    assert commands <= set(get_commands())
    assert targets <= makefile


def test_the_readme_names_every_command() -> None:
    ours = {name for name, app in get_commands().items() if app == "tenantlimits"}

    assert ours == set(re.findall(r"manage\.py (tenantlimits_\w+)", text_of(ROOT / "README.md")))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_compiles_and_what_it_takes_from_us_is_there(page: Path) -> None:
    for block in blocks_of(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tenantlimits"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            if isinstance(node, ast.Constant) and re.fullmatch(r"tenantlimits(\.\w+)+", str(node.value)):
                # A Celery task has a name of its own.
                assert node.value == "tenantlimits.flush_usage" or leads_somewhere(node.value)


def leads_somewhere(path: str) -> bool:
    """Whether a module, or a name in one, is called that."""
    try:
        return bool(importlib.import_module(path))
    except ImportError:
        return bool(import_string(path))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), target
        assert not anchor or anchor in anchors_of(file), target


def test_the_index_of_decisions_lists_every_page_once() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"^- \[(\d{4})\]\((\d{4})-[\w-]+\.md\)", text_of(folder / "README.md"), re.MULTILINE)

    assert [number for number, _ in listed] == sorted(file.name[:4] for file in folder.glob("0*.md"))
    assert all(number == target for number, target in listed)


def test_the_glossary_has_each_word_once_and_says_none_that_it_rules_out() -> None:
    lines = [line for line in text_of(ROOT / "docs/glossary.md").splitlines() if line.startswith("| ")][1:]
    words = [line.split("|")[1].strip() for line in lines]
    ruled_out = {word.strip() for line in lines for word in line.split("|")[3].split(",")}

    assert len(words) == len(set(words))
    assert not set(words) & ruled_out


@pytest.mark.django_db
def test_the_tier_of_the_quick_start_refuses_the_sixth_request() -> None:
    block = next(block for block in blocks_of(ROOT / "README.md") if "Tier.objects.create" in block)

    exec(compile(block, "README.md", "exec"), {})
    with memory_engine(clock=lambda: 1.8e15):
        answers = [admit(lane="reads", tenant="acme") for _ in range(6)]

    assert Limit.objects.get(tier=Tier.objects.get(slug="free")).name == "per-minute"
    assert [answer.allowed for answer in answers] == [True] * 5 + [False]
    assert answers[-1].retry_after_seconds == 12


def test_the_settings_of_the_quick_start_are_at_most_six_lines() -> None:
    settings, urls = blocks_of(ROOT / "README.md")[:2]

    assert len(settings.splitlines()) + len(urls.splitlines()) <= 6
