"""The page of commands is what their help prints, and a list of commands shows each line whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from website import commands_page
from website.commands_page import PAGE, below, commands, page


@pytest.fixture(scope="module", autouse=True)
def helps_printed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands_page, "help_of", cache(commands_page.help_of))
        yield


def test_the_page_is_what_help_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m website.commands_page writes it anew"


def test_no_command_is_cut_in_a_list() -> None:
    cut = []
    for _, text in commands(("gate-runner",)):
        names = below(text)
        cut += [line for line in text.splitlines() if line.endswith("...") and line.split()[0] in names]
    assert not cut
