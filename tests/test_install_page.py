"""The page on installation names, for each package, exactly the folders that its requirements lead to."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/install.md").read_text(encoding="utf-8")


def _projects() -> dict[str, tuple[str, set[str]]]:
    """Folder and requirements by the name of each package."""
    projects = {}
    for file in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        needs = {re.split(r"[\[<>=!~; ]", need)[0] for need in project["dependencies"]}
        projects[project["name"]] = (file.parent.name, needs)
    return projects


def _folders(name: str, projects: dict[str, tuple[str, set[str]]]) -> set[str]:
    folder, needs = projects[name]
    return {folder}.union(*(_folders(need, projects) for need in needs if need in projects))


def test_each_command_installs_what_its_package_needs_and_nothing_more() -> None:
    projects = _projects()
    rows = re.findall(r"^\| `([\w-]+)` \| `pip install ([^`]+)` \|", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} == set(projects) - {"gate-runner"}
    for name, command in rows:
        listed = re.fullmatch(r"\./packages/(?:\{([\w,-]+)\}|([\w-]+))", command)
        assert listed is not None, command
        assert set((listed[1] or listed[2]).split(",")) == _folders(name, projects), name


def test_the_runner_needs_every_package() -> None:
    projects = _projects()
    assert _folders("gate-runner", projects) == {folder for folder, _ in projects.values()}


def test_each_readme_installs_what_its_package_needs() -> None:
    projects = _projects()
    for name, (folder, _) in projects.items():
        readme = (ROOT / "packages" / folder / "README.md").read_text(encoding="utf-8")
        line = re.search(r"^(?:\$ )?pip install (.*?)(?: *#.*)?$", readme, re.MULTILINE)
        assert line is not None, name
        words = re.sub(r"\[[\w,]+\]|'", "", line[1])
        if words == "./packages/*":
            listed = {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}
        else:
            parts = re.findall(r"\./packages/(?:\{([\w,-]+)\}|([\w-]+))", words)
            listed = {folder for braced, single in parts for folder in (braced or single).split(",")}
        assert listed == _folders(name, projects), name
