"""What every reader gives on the made-up trees of the tests, recorded, and compared after a change of the code.

``python experiments/same_samples.py record before.json packages/gate-runner/tests/test_originals.py …`` runs these
tests and writes, for each, digests of all lists of samples and data sets that were made, and all messages of errors;
``same_samples.py compare before.json after.json`` shows where two recordings differ.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

_PLACES = ((r"/tmp/pytest-of-[^/]+/pytest-\d+/", "TMP/"), (r"/tmp/tmp\w{8}", "TMP"), (r"/[0-9a-f]{16}/", "/KEY/"))
"""Parts of paths that differ from run to run."""


def without_places(value: object) -> str:
    """A value as text, without what only says where the tests ran."""
    text = str(value)
    for pattern, replacement in _PLACES:
        text = re.sub(pattern, replacement, text)
    return text


def digest_of(value: object) -> str:
    """A short digest of a value's text."""
    return hashlib.sha256(without_places(value).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _of_split(split: Any) -> list[object]:
    """Files or pixels, targets, texts and groups."""
    images, targets = split.images, split.targets
    values = [getattr(part, "files", None) or getattr(part, "tolist", lambda: None)() for part in (images, targets)]
    if values[1] is None:
        digest = hashlib.sha256()
        targets.note_in(digest)
        values[1] = digest.hexdigest()
    return [*values, split.texts, None if split.groups is None else split.groups.tolist()]


class Recorder:
    """A plugin of pytest that notes what the readers make while each test runs."""

    def __init__(self) -> None:
        self.notes: dict[str, set[str]] = defaultdict(set)
        self.test = ""

    def pytest_sessionstart(self) -> None:
        """Follow what is made, from now on."""
        import gate_data.data
        import gate_data.errors
        import gate_data.original_files

        self._follow(gate_data.data.Data, self._of_data)
        self._follow(gate_data.original_files.Parts, lambda parts: f"parts {digest_of(vars(parts))}")
        self._follow(gate_data.errors.DataError, lambda error: f"error {without_places(error)}")

    def _follow(self, kind: type, note: Callable[[Any], str]) -> None:
        __init__ = kind.__init__

        @wraps(__init__)
        def noted(value: Any, *args: Any, **keywords: Any) -> None:
            __init__(value, *args, **keywords)
            self.notes[self.test].add(note(value))

        kind.__init__ = noted  # type: ignore[misc]

    def _of_data(self, data: Any) -> str:
        splits = [_of_split(split) for split in (data.train, data.validation, data.test)]
        return f"data {digest_of(splits)} {digest_of(data.classes)} {without_places(data.note)}"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the test that runs."""
        self.test = item.nodeid
        yield


def main(action: str, first: str, *further: str) -> int:
    """Record the tests that are named, or compare two recordings."""
    if action == "record":
        recorder = Recorder()
        outcome = pytest.main(["-q", "-p", "no:cacheprovider", *further], plugins=[recorder])
        notes = {test: sorted(lines) for test, lines in recorder.notes.items()}
        Path(first).write_text(json.dumps(notes, indent=0, sort_keys=True))
        return int(outcome)
    before, after = (json.loads(Path(file).read_text()) for file in (first, *further))
    differing = [test for test in sorted(before) if test in after and before[test] != after[test]]
    for test in differing:
        sys.stdout.write(f"{test}\n")
        for sign, lines, others in (("-", before[test], after[test]), ("+", after[test], before[test])):
            sys.stdout.writelines(f"  {sign} {line}\n" for line in lines if line not in others)
    sys.stdout.write(f"{len(before.keys() & after.keys())} tests compared, {len(differing)} differ\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
