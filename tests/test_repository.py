"""The repository keeps what its files say about each other."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tenantlimits

# Written in pieces, so that this file does not contain what it forbids.
FORBIDDEN = [
    r"(?<![\w.])/" + r"(work|root)/",
    r"/tmp/" + r"(bash_jobs|pytest-of)",
    r"/home/" + r"\w+/",
    r"pypi\." + r"org",
    r"pythonhosted\." + r"org",
    r"npmjs\." + r"(org|com)",
    r"deb\." + r"debian\.org",
]


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text())


def test_the_changelog_starts_with_the_version_of_the_package(repository):
    changelog = (repository / "CHANGELOG.md").read_text()

    top = re.search(r"^## (\S+)", changelog, re.MULTILINE)

    assert top
    assert top[1] == tenantlimits.__version__


def test_every_make_target_says_what_it_does(repository):
    makefile = (repository / "Makefile").read_text()
    rules = re.findall(r"^([a-z][a-z-]*):(.*)$", makefile, re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)

    without_help = [target for target, rest in rules if " ## " not in rest]

    assert without_help == []
    assert phony
    assert sorted(phony[1].split()) == sorted(target for target, _ in rules)


def test_every_direct_dependency_is_pinned(repository, pyproject):
    project = pyproject["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *pyproject["dependency-groups"].values(),
    ]
    needed = {canonicalize_name(Requirement(line).name) for lines in lists for line in lines}
    constraints = (repository / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in constraints if line and not line.startswith("#")]

    pinned = {canonicalize_name(pin.name) for pin in pins if re.fullmatch(r"==[^*,]+", str(pin.specifier))}

    assert needed - pinned == set()
    assert len({(pin.name, str(pin.marker)) for pin in pins}) == len(pins)


def test_no_file_names_a_path_of_a_machine_or_the_host_of_a_registry(repository):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    pattern = re.compile("|".join(FORBIDDEN))
    files = [repository / name for name in listed.stdout.split("\0") if name]

    found = {
        f"{file.relative_to(repository)}: {match[0]}"
        for file in files
        if file.is_file()
        for match in pattern.finditer(file.read_text(errors="replace"))
    }

    assert found == set()
