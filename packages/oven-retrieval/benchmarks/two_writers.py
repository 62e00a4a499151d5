"""Pairs of overlapping edits of one project, in processes of their own: what was reported done is there, nothing else.

    python benchmarks/two_writers.py --pairs 60

Each pair starts together (add, remove, update, update --rebuild, in all combinations). A writer that is
refused must name the other; one that reports success must have its effect; the project must open, whole, afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from oven_retrieval import Entity, KnowledgeBase, build_kb, build_name_index, open_name_index

RESULTS = Path(__file__).parent / "results"
KINDS = ("add", "remove", "update", "rebuild")
WORKER = """
import sys
from oven_retrieval import FolderError
from oven_retrieval.workspace import add_to_workspace, remove_from_workspace, update_workspace
folder, kind, argument = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
try:
    if kind == "add":
        add_to_workspace(argument, folder)
    elif kind == "remove":
        remove_from_workspace([argument], folder)
    else:
        update_workspace(folder, rebuild=kind == "rebuild")
except FolderError as error:
    print("refused", error)
else:
    print("done")
"""


def start(folder: Path, kind: str, argument: str) -> subprocess.Popen[str]:
    """One writer, waiting for the signal."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), kind, argument],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def one_pair(folder: Path, kinds: tuple[str, str], number: int, expected: set[str]) -> list[str]:
    """Run a pair, check the project, and return each one's outcome; `expected` follows what was done."""
    arguments = []
    for writer, kind in enumerate(kinds):
        new = f"new-{number}-{writer}"
        source = folder / f"{new}.csv"
        if kind == "add":
            source.write_text(f"id,name\n{new},name of {new}\n", encoding="utf-8")
        candidates = sorted(expected)
        arguments.append((kind, str(source) if kind == "add" else candidates[number % len(candidates) - writer], new))
    workers = [start(folder, kind, argument) for kind, argument, _ in arguments]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    outcomes = []
    for worker, (kind, argument, new) in zip(workers, arguments, strict=True):
        reports, errors = worker.communicate(timeout=300)
        report = reports.strip().partition("\n")[0]
        assert report == "done" or ("refused" in report and "is writing there" in report), (kinds, reports, errors)
        if report == "done" and kind == "add":
            expected.add(new)
        if report == "done" and kind == "remove":
            expected.discard(argument)
        outcomes.append(report.split(" ")[0])
    kb = KnowledgeBase(folder / "kb", verify=True)
    assert {entity.id for entity in kb} == expected, kinds
    linker = open_name_index(folder / "names", kb, verify=True)
    linker.typos = True
    names = [f"name of {name}" for name in sorted(expected)]
    assert [kb.ids[row] for row in linker.link(names).rows[:, 0].tolist()] == sorted(expected), kinds
    return outcomes


def main() -> int:
    """Run all pairs, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--entities", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=RESULTS / "two_writers.json")
    options = parser.parse_args()
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        expected = {f"e{i}" for i in range(options.entities)}
        kb = build_kb((Entity(name, f"name of {name}") for name in sorted(expected)), folder / "kb")
        build_name_index(kb, folder / "names")
        pairs = itertools.islice(itertools.cycle(itertools.product(KINDS, repeat=2)), options.pairs)
        for number, kinds in enumerate(pairs):
            outcomes += one_pair(folder, kinds, number, expected)
    result = {
        "pairs": options.pairs,
        "done": outcomes.count("done"),
        "refused, naming the other writer": outcomes.count("refused"),
        "lost": 0,
        "entities": options.entities,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), "oven-retrieval": version("oven-retrieval")},
    }
    print(json.dumps(result, indent=1))
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
