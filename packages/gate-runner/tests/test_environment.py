"""`gate-runner env`, as people paste it into a report."""

from __future__ import annotations

import json
import socket
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gate_runner.cli import app
from gate_runner.commands import environment


def test_the_command_names_versions_and_hardware_and_nobody() -> None:
    done = CliRunner().invoke(app, ["env"])
    assert done.exit_code == 0, done.output
    assert f"gate-runner {version('gate-runner')}" in done.output
    assert f"torch {version('torch')}" in done.output
    assert "cores" in done.output
    assert "gate-runner (gate" not in done.output
    for private in (str(Path.home()), socket.gethostname()):
        assert len(private) < 4 or private not in done.output


def test_the_same_as_json() -> None:
    record = json.loads(CliRunner().invoke(app, ["env", "--json"]).output)
    assert record == json.loads(json.dumps(environment.environment()))
    assert set(record["extras"]["gate-runner"]) >= {"hf", "slurm"}


def test_an_extra_lacks_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = environment.installed
    monkeypatch.setattr(environment, "installed", lambda name: None if name == "submitit" else installed(name))
    record = environment.environment()
    assert record["extras"]["gate-runner"]["slurm"] == ["submitit"]
    assert "slurm lacks submitit" in "\n".join(environment.described(record))


def test_a_requirement_for_another_system_is_not_lacking() -> None:
    needed = [requirement.name for requirement in environment._needed("eqben-builder", "mitsuba")]
    assert "mitsuba" in needed
    assert all(
        requirement.marker is None or requirement.marker.evaluate({"extra": "mitsuba"})
        for requirement in environment._needed("eqben-builder", "mitsuba")
    )
    assert "mitsuba" not in [requirement.name for requirement in environment._needed("eqben-builder", "")]
