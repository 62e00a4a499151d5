"""The page of all commands: python -m website.commands_page writes docs/commands.md from what each `--help` prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from unittest import mock

from website.public import ROOT

PAGE = ROOT / "docs" / "commands.md"

COMMAND = re.compile(r"^ {2,4}([a-z][a-z0-9-]*)(?: {2,}|$)", re.MULTILINE)
"""A command's line in the list of its parent's help."""

HEAD = """# Commands

What each command's `--help` prints, 80 characters wide.

"""


@cache
def programs() -> dict[str, str]:
    """Names of the programs that the packages install, and where each begins."""
    tables = [tomllib.loads(path.read_text()) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    return {name: at for table in tables for name, at in table["project"].get("scripts", {}).items()}


def help_of(words: tuple[str, ...]) -> str:
    """What a command prints when its user needs help, without colours."""
    module, function = programs()[words[0]].split(":")
    printed = io.StringIO()
    width = mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})
    arguments = mock.patch.object(sys, "argv", [*words, "--help"])
    with width, arguments, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        getattr(import_module(module), function)()
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def below(text: str) -> list[str]:
    """Names of the commands that a help lists, in its order."""
    section = re.search(r"^(?:Commands|positional arguments):\n(?P<lines>(?:[ \t].*\n?|\n(?= ))+)", text, re.MULTILINE)
    if section is None or ("positional" in section[0] and "  COMMAND\n" not in section[0]):
        return []
    return COMMAND.findall(section["lines"])


def commands(words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """A command and all below it, each with its help."""
    text = help_of(words)
    yield words, text
    for name in below(text):
        yield from commands((*words, name))


def page() -> str:
    """Markdown of the page. Commands that gate-runner passes on are shown where their own program has them."""
    names = programs()
    parts = [HEAD]
    for program in sorted(names, key=lambda program: (program != "gate-runner", program)):
        for words, text in commands((program,)):
            if words[0] == "gate-runner" and len(words) > 2 and words[1] in names:
                continue
            parts.append(f"{'#' * min(len(words) + 1, 4)} `{' '.join(words)}`\n\n```text\n{text}\n```\n\n")
    return "".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
