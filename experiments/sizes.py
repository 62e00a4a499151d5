"""Measure what a reader passes and an install brings: files, lines, imports, copied passages.

    python experiments/sizes.py --as before      # before a change of the packages' shape
    python experiments/sizes.py --as after       # after it: writes results/sizes.json, prints both

- Files that a first ``gate-runner run digits --limit 20`` passes, in one process, from an empty cache: a function of
  theirs runs, or the body of a class at the import; how many do by functions alone is printed next to it.
- Lines of source by package: of code and documentation together, files of ``src`` alone.
- ``import`` of each package and of all its public names: CPU seconds, median of ``--rounds`` processes, and MB that
  are resident afterwards. Bytecode is there.
- CPU seconds of ``--help`` of every command of docs/commands.md, likewise, and of ``prompts show``.
- Passages of six lines or more that stand in two packages: blank lines, comments and imports left out.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results" / "sizes.json"
WINDOW = 6
ROUNDS = 5
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
"""Every command by its heading; `tests/test_commands_page.py` proves that it lists them all."""
SLOW = 0.4
"""CPU seconds that a ``--help`` takes at most, as planned."""

PASSED = """
import inspect, json, sys, threading
place = sys.argv[1]
seen, functions = set(), set()

def noted(frame, event, argument):
    code = frame.f_code
    if code.co_filename.startswith(place) and "/src/" in code.co_filename and code.co_name != "<module>":
        seen.add(code.co_filename[len(place):])
        if code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a class, which an import runs
            functions.add(code.co_filename[len(place):])

threading.settrace(noted)
sys.settrace(noted)
from gate_runner.cli import main
try:
    main(["run", "digits", "--limit", "20", "--isolate", "none", "--output", sys.argv[2]])
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
sys.settrace(None)
threading.settrace(None)
print(json.dumps([sorted(seen), sorted(functions)]))
"""

IMPORTED = """
import json, os, resource, sys, time
module = __import__(sys.argv[1])
for name in getattr(module, "__all__", []):
    try:
        getattr(module, name)
    except ImportError:  # of an extra
        continue
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([own.ru_utime + own.ru_stime, own.ru_maxrss / 1024, "torch" in sys.modules]))
"""


def modules() -> dict[str, Path]:
    """Source folders by import name."""
    return {path.parent.name: path.parent for path in sorted(ROOT.glob("packages/*/src/*/__about__.py"))}


def files_passed() -> dict[str, Any]:
    """Files of each package of which a function runs in a first run."""
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PASSED, f"{ROOT / 'packages'}{os.sep}", f"{name}/run"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GATE_RUNNER_CACHE": f"{name}/cache"},
        )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    by_package: dict[str, int] = defaultdict(int)
    passed, functions = json.loads(done.stdout.splitlines()[-1])
    for path in passed:
        by_package[path.split("/")[0]] += 1
    runner = [path.partition("/src/gate_runner/")[2] for path in passed if path.startswith("gate-runner/")]
    by_functions = {"all": len(functions), "gate-runner": sum(path.startswith("gate-runner/") for path in functions)}
    return {
        "all": len(passed),
        "by_functions": by_functions,
        "by_package": dict(sorted(by_package.items())),
        "runner": runner,
    }


def lines() -> dict[str, int]:
    """Lines of each package's source."""
    return {
        name: sum(len(path.read_text("utf-8").split("\n")) - 1 for path in folder.rglob("*.py"))
        for name, folder in modules().items()
    }


def import_costs(rounds: int) -> dict[str, dict[str, Any]]:
    """CPU seconds and resident MB of importing each package and using one name of it."""
    costs = {}
    for name in modules():
        runs = []
        for _ in range(rounds + 1):
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", IMPORTED, name], capture_output=True, text=True, check=True
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        seconds, megabytes, torch = zip(*runs[1:], strict=True)
        costs[name] = {
            "cpu_seconds": round(statistics.median(seconds), 2),
            "mb": round(statistics.median(megabytes)),
            "torch": torch[0],
        }
    return costs


def programs() -> dict[str, list[str]]:
    """Module and function that each installed command starts."""
    tables = [tomllib.loads(path.read_text("utf-8")) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    return {name: at.split(":") for table in tables for name, at in table["project"].get("scripts", {}).items()}


def cpu_seconds(words: list[str], rounds: int) -> float:
    """CPU seconds of a command in a process of its own: the median, of processes that find bytecode."""
    module, function = programs()[words[0]]
    code = (
        f"import sys, importlib, resource\nsys.argv = {words!r}\n"
        f"try: getattr(importlib.import_module({module!r}), {function!r})()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "own = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(own.ru_utime + own.ru_stime)"
    )
    runs = []
    for _ in range(rounds + 1):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")
        runs.append(float(done.stdout.splitlines()[-1]))
    return round(statistics.median(runs[1:]), 2)


def empty_process() -> float:
    """CPU seconds of a process that does nothing: other work on the machine makes all CPU seconds longer alike."""
    code = "import resource; own = resource.getrusage(resource.RUSAGE_SELF); print(own.ru_utime + own.ru_stime)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(ROUNDS)]
    return round(statistics.median(map(float, runs)), 3)


def help_seconds(pattern: str, rounds: int) -> dict[str, Any]:
    """CPU seconds of each command's help: the median and the slowest of all, and those that take longer than `SLOW`."""
    every = re.findall(r"^#+ `(.+)`$", COMMANDS_PAGE.read_text("utf-8"), re.MULTILINE)
    listed = [command for command in every if re.fullmatch(pattern, command)]
    seconds = {command: cpu_seconds([*command.split(), "--help"], rounds) for command in listed}
    slowest = max(seconds, key=seconds.__getitem__)
    return {
        "commands": len(seconds),
        "median": statistics.median(seconds.values()),
        "slowest": {slowest: seconds[slowest]},
        f"above_{SLOW:g}": {command: took for command, took in seconds.items() if took > SLOW},
        "programs": {command: took for command, took in seconds.items() if " " not in command},
    }


def code_lines(source: str) -> list[tuple[int, str]]:
    """Number and text of each line that is neither blank, a comment, nor an import."""
    imported: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    rows = enumerate((re.sub(r"\s+", " ", line).strip() for line in source.split("\n")), start=1)
    return [(number, line) for number, line in rows if line and not line.startswith("#") and number not in imported]


def copied_passages() -> list[str]:
    """Passages of `WINDOW` lines or more that stand in files of two packages, the longest first."""
    windows: dict[tuple[str, ...], list[tuple[str, str, int]]] = defaultdict(list)
    texts: dict[str, list[tuple[int, str]]] = {}
    for name, folder in modules().items():
        for path in sorted(folder.rglob("*.py")):
            place = str(path.relative_to(ROOT / "packages"))
            rows = texts[place] = code_lines(path.read_text("utf-8"))
            for start in range(len(rows) - WINDOW + 1):
                windows[tuple(line for _, line in rows[start : start + WINDOW])].append((name, place, start))
    starts: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for copies in windows.values():
        for index, (name, place, start) in enumerate(copies):
            for other_name, other, second in copies[index + 1 :]:
                if other_name != name:
                    starts[place, other].add((start, second))
    passages = []
    for (place, other), pairs in starts.items():
        for start, second in sorted(pairs):
            if (start - 1, second - 1) in pairs:
                continue
            length = WINDOW
            while (start + length - WINDOW + 1, second + length - WINDOW + 1) in pairs:
                length += 1
            passages.append((length, f"{place}:{texts[place][start][0]}", f"{other}:{texts[other][second][0]}"))
    return [f"{length} lines: {place} = {other}" for length, place, other in sorted(passages, reverse=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as", dest="name", default="after", help="under which name the figures are kept")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes whose median counts, after one more")
    parser.add_argument("--commands", default=".*", help="a pattern of the commands whose help is measured")
    parser.add_argument("--passages", action="store_true", help="print the copied passages alone")
    options = parser.parse_args()
    if options.passages:
        print("\n".join(copied_passages()))
        return
    figures = {
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 1),
        "empty_process_cpu_seconds": empty_process(),
        "machine": {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "files_of_a_first_run": files_passed(),
        "lines": lines(),
        "imports": import_costs(options.rounds),
        "help_cpu_seconds": help_seconds(options.commands, options.rounds),
        "prompts_show_cpu_seconds": cpu_seconds(["prompts", "show", "cat"], options.rounds),
        "copied_passages": copied_passages(),
    }
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    report[options.name] = figures
    RESULTS.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
