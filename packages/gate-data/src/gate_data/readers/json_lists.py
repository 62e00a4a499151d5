"""The entries of a list in a JSON file, one after another: files of gigabytes never lie in memory as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from wary_files.limits import refuse_special, within
from wary_files.text import json_object

_PIECE = 1 << 20
_BLANK = " \t\n\r"
_AFTER = {*_BLANK, ",", "]", "}", ":"}


def entries(path: Path, field: str) -> Iterator[tuple[int, Any]]:
    """The entries of a list that is a field of the object that a file holds, with their numbers from 0.

    What follows the list is read, too, so that a file that was cut short is found.
    """
    refuse_special(path)
    with path.open(encoding="utf-8-sig") as file:
        text = _Text(file, f"one value in {path}")
        names: set[str] = set()
        for _ in text.separated("{", "}"):
            name = text.value()
            if not isinstance(name, str):
                raise ValueError(f"a field's name is {name!r}, expected text")
            if name in names:
                raise ValueError(f"the key {name[:80]!r} comes twice in one object")
            names.add(name)
            text.expect(":")
            if text.peek() == "[":
                for index, _ in enumerate(text.separated("[", "]")):
                    entry = text.value()
                    if name == field:
                        yield index, entry
            elif (value := text.value()) is not None and name == field:
                raise ValueError(f"{field!r} is {type(value).__name__}, expected a list")
        if text.peek():
            raise ValueError("something follows the object")


class _Text:
    """A text that is read piece by piece, from which values are taken one by one."""

    def __init__(self, file: TextIO, name: str) -> None:
        self.file, self.name, self.held, self.at, self.before, self.over = file, name, "", 0, 0, False
        self.decoder = json.JSONDecoder(object_pairs_hook=json_object)

    def peek(self) -> str:
        """The next sign that is not blank; empty at the end."""
        while True:
            while self.at < len(self.held) and self.held[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self.held) or not self._more():
                return self.held[self.at : self.at + 1]

    def skipped(self, sign: str) -> bool:
        """Whether the next sign is this one; it is then behind us."""
        if self.peek() != sign:
            return False
        self.at += 1
        return True

    def expect(self, sign: str) -> None:
        """Take this sign."""
        if not self.skipped(sign):
            shown = f"found {self.peek()!r}" if self.peek() else "the file ends"
            raise ValueError(f"expected {sign!r} at character {self.before + self.at}, {shown}")

    def separated(self, start: str, end: str) -> Iterator[None]:
        """Stops before each of the values between two signs, which whoever asks has to take."""
        self.expect(start)
        if self.skipped(end):
            return
        while True:
            yield
            if self.skipped(end):
                return
            self.expect(",")

    def value(self) -> Any:
        """Take a value; one that goes on behind what is held is tried again with more."""
        self.peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.held, self.at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise ValueError(f"{error.msg} at character {self.before + error.pos}") from error
                continue
            if self.held[end : end + 1] in _AFTER or not self._more():  # a number may go on
                self.at = end
                return value

    def _more(self) -> bool:
        """Hold another piece, as large as what is held, without what is behind us."""
        if self.over:
            return False
        piece = self.file.read(max(_PIECE, len(self.held) - self.at))
        self.over = not piece
        self.before += self.at
        self.held, self.at = self.held[self.at :] + piece, 0
        within(len(self.held), "bytes", self.name)
        return not self.over
