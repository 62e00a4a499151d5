"""The environments of the two commands: the first holds what the packages declare, the second every extra too."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENTS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]


def folders() -> set[str]:
    return {f"packages/{path.parent.name}" for path in ROOT.glob("packages/*/pyproject.toml")}


def test_the_first_commands_environment_holds_the_packages_alone() -> None:
    lean = ENVIRONMENTS["default"]
    assert {member["path"] for member in lean["workspace"]["members"] if "features" not in member} == folders()
    assert "dependencies" not in lean


def test_the_tests_environment_holds_every_extra() -> None:
    installed = {member["path"]: set(member["features"]) for member in ENVIRONMENTS["test"]["workspace"]["members"]}
    declared = {}
    for folder in folders():
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        declared[folder] = set(project.get("optional-dependencies", {}))
    assert installed == declared
