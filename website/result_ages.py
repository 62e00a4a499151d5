"""Which version of its script wrote each result file.

``python -m website.result_ages SCRIPT [ARGUMENTS]`` runs a benchmark and enters the files that it wrote;
``--enter RESULT ...`` enters what the script, as it is, wrote already; ``--older REASON RESULT ...`` marks files whose
script was changed since, and the results' page shows the reason.

The list is beside the files, not in them: some are lists, some are read again by their script, which takes each key
for a case.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from website.public import ROOT
from website.results import AGES, OLDER, ages, result_folders, results_of, script_of


def digest_of(script: Path) -> str:
    """SHA-256 of a script's statements: comments, docstrings and layout change nothing."""
    return digest_of_text(script.read_text(encoding="utf-8"))


def digest_of_text(text: str) -> str:
    """The digest of a script's text."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def digest_of_file(result: Path) -> str:
    """SHA-256 of a result file."""
    return hashlib.sha256(result.read_bytes()).hexdigest()[:16]


def entry(result: Path) -> dict[str, str]:
    """What is entered of a file that its script, as it is now, wrote."""
    about: dict[str, Any] = {}
    for path in result.parents[2].glob("src/*/__about__.py"):
        exec(path.read_text(encoding="utf-8"), about)
    version = {"version": about["__version__"]} if about else {}
    return {"script": digest_of(script_of(result)), "result": digest_of_file(result), **version}


def findings(entries: dict[str, dict[str, str]], results: dict[str, Path]) -> list[str]:
    """What is wrong with the entries: a line for each file."""
    lines = [f"{name}: entered, and not there" for name in sorted(entries.keys() - results.keys())]
    for name, path in results.items():
        script = script_of(path)
        again = f"python -m website.result_ages {_shown(script)}"
        have = entries.get(name)
        if have is None:
            lines.append(f"{name}: not entered; {again}")
        elif have["result"] != digest_of_file(path):
            lines.append(f"{name}: not the file that was entered; {again}, or --enter it after a run")
        elif (have["script"] != digest_of(script)) is not (OLDER in have):
            reason = "made by the script as it is, and marked as older"
            if OLDER not in have:
                reason = f"older than {script.name}"
            lines.append(f"{name}: {reason}; {again}")
    return lines


def all_results() -> dict[str, Path]:
    """Every result file of the workspace by its path in it."""
    return {_shown(path): path for folder in result_folders().values() for path in results_of(folder)}


def write(entries: dict[str, dict[str, str]]) -> None:
    """Write the entries, one a line: two branches seldom meet in one."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries))
    AGES.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def main(words: list[str]) -> int:
    """Run a script and enter what it wrote, or enter a file."""
    entries, status = ages(), 0
    if words[:1] == ["--older"]:
        for word in words[2:]:
            entries[_shown(Path(word).resolve())][OLDER] = words[1]
        written = []
    elif words[:1] == ["--enter"]:
        written = [Path(word).resolve() for word in words[1:]]
    else:
        script = Path(words[0]).resolve()
        folder = script.parents[1] if script.name == "run.py" else script.parent
        before = {path: path.stat().st_mtime_ns for path in results_of(folder)}
        status = subprocess.run([sys.executable, str(script), *words[1:]], check=False).returncode
        written = [path for path in results_of(folder) if path.stat().st_mtime_ns != before.get(path)]
        entries = ages()
    for path in written:
        entries[_shown(path)] = entry(path)
        print(f"entered: {_shown(path)}")
    write(entries)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
