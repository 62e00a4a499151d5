"""Every command and option of gate-runner that documents and messages name is there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from gate_runner.cli import app

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from website.every_command import RESULTS, commands, pages  # noqa: E402 - found by the line above

ELSEWHERE = {"eevee"}
"""Commands whose words another program reads."""
CALL = re.compile(r"(?<![\w./-])gate-runner ((?:\\\n|[^\n`|&;#)])*)")
TREE: Any = typer.main.get_command(app)


def places() -> list[Path]:
    """Documents, and sources with their messages."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
    return [page for page in pages if "decisions" not in page.parts] + sorted(ROOT.glob("packages/*/src/**/*.py"))


def calls(text: str) -> Iterator[str]:
    """What stands behind ``gate-runner`` where that is a command, not a name."""
    for call in CALL.finditer(text):
        yield call[1].replace("\\\n", " ").strip()


def wrong(call: str) -> str:
    """What of a call is not there; empty where all of it is."""
    words = call.split()
    command, path = TREE, []
    context = typer.Context(command)
    while words and hasattr(command, "list_commands") and re.fullmatch(r"[a-z][a-z-]*", words[0].rstrip(".,:)'\"")):
        name = words.pop(0).rstrip(".,:)'\"")
        if name not in command.list_commands(context) and command.get_command(context, name) is None:
            return f"{' '.join([*path, name])}: no such command" if path or known_verb(name, words) else ""
        command, path = command.get_command(context, name), [*path, name]
    if not path or path[0] in ELSEWHERE or hasattr(command, "list_commands"):
        return ""
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    for word in words:
        flag = re.match(r"--[a-z][a-z-]*", word.lstrip("[("))
        if flag and flag[0] not in options:
            return f"{' '.join(path)}: no option {flag[0]}"
    return ""


def known_verb(name: str, rest: list[str]) -> bool:
    """Whether a word behind the program's name is meant as a command: prose goes on otherwise."""
    return bool(rest) and (rest[0].startswith("--") or rest[0].isupper())


@pytest.mark.parametrize("path", places(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_named_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [message for call in calls(text) if (message := wrong(call))] == []


def test_each_command_of_the_documents_was_run_once_as_it_stands() -> None:
    """``python -m website.every_command PAGE`` runs a page's; what it changes in one is kept beside it."""
    outcomes = json.loads(RESULTS.read_text(encoding="utf-8"))
    documented = {f"{path.relative_to(ROOT)}: {command}" for path in pages([]) for command in commands(path)}
    assert documented - outcomes.keys() == set()
    assert [key for key in documented if outcomes[key]["came out"] == "failed"] == []


def test_what_is_not_there_is_seen() -> None:
    assert wrong("ls metrices") == "ls metrices: no such command"
    assert wrong("run small --limits 3") == "run: no option --limits"
    assert wrong("score FOLDER") == "score: no such command"
    assert wrong("adapt probe FOLDER --shots 5") == wrong("stands above seven libraries") == ""
