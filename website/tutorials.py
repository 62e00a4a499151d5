"""Run the pages of docs/ that hold programs, from their text as it stands, and keep what they print in them.

In a page, in order:

- a ``python`` block with a title is a file: it is written under that name;
- any other ``python`` block runs, all in one namespace; what it prints stands in the ``text`` block behind it;
- a ``console`` block holds commands behind ``$`` and what each prints. No shell is involved; of pipes, ``| head -N``,
  ``| tail -N`` and ``| grep WORDS`` are understood;
- a warning that a page's own line causes fails it;
- files of other languages that have a title (``toml``, ``csv``, ``json``) are written like Python's.

Each page runs in a process and a temporary folder of its own; the site shows what it writes into ``pictures/``.

    hatch run test:python website/tutorials.py [PAGE ...]  compares; status 1 where one differs
    hatch run test:python website/tutorials.py --write [PAGE ...]  writes into the pages what they print
    hatch run test:python website/tutorials.py --alone [PAGE ...]  compares, each in an environment of what it installs
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
INSTALLS = re.compile(r"^`pip install ([^`]+)`, in the root of \[a clone\]", re.MULTILINE)
"""The line by which a page says what it needs."""
DURATION = re.compile(r"\d+(?:\.\d+)? s\b")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title if it has one, and its lines."""

    language: str
    title: str
    text: str


def parsed(page: str) -> list[str | Block]:
    """A page as stretches of prose and blocks."""
    parts: list[str | Block] = []
    prose: list[str] = []
    lines = iter(page.splitlines(keepends=True))
    for line in lines:
        fence = FENCE.match(line)
        if fence is None or not fence[1]:
            prose.append(line)
            continue
        parts.append("".join(prose))
        prose = []
        inside = []
        for inner in lines:
            if inner.rstrip() == "```":
                break
            inside.append(inner)
        title = TITLE.search(fence[2])
        parts.append(Block(fence[1], title[1] if title else "", "".join(inside)))
    return [*parts, "".join(prose)]


def unparsed(parts: list[str | Block]) -> str:
    """The page again."""
    lines = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
        else:
            title = f' title="{part.title}"' if part.title else ""
            lines.append(f"```{part.language}{title}\n{part.text}```\n")
    return "".join(lines)


def performed(parts: list[str | Block]) -> list[str | Block]:
    """Run a page's programs in the current folder; the same parts with what they print now."""
    names: dict[str, Any] = {"__name__": "__tutorial__"}
    done: list[str | Block] = []
    printed: str | None = None
    for part in parts:
        if isinstance(part, Block) and part.language == "text" and printed is not None:
            part, printed = replace(part, text=printed), None
        elif isinstance(part, Block):
            if printed:
                raise SystemExit(f"nothing shows what a block prints: {printed[:200]!r}; put a text block behind it")
            if part.title:
                Path(part.title).parent.mkdir(parents=True, exist_ok=True)
                Path(part.title).write_text(part.text)
            elif part.language == "python":
                printed = _ran(part.text, names)
            elif part.language == "console":
                part = replace(part, text="".join(_called(part.text)))
                importlib.invalidate_caches()  # it may have installed something
        done.append(part)
    return done


def _ran(source: str, names: dict[str, Any]) -> str:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), warnings.catch_warnings():
        warnings.filterwarnings("error", module=str(names["__name__"]))  # a reader would see it
        exec(compile(source, "<page>", "exec"), names)  # the page's own program
    return heard.getvalue()


def _called(text: str) -> Iterator[str]:
    commands = [line[2:] for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
    shown = re.findall(r"^\$ (?:.*\\\n)*.*\n", text, flags=re.MULTILINE)
    for command, line in zip(commands, shown, strict=True):
        yield line
        words, *filters = _piped(shlex.split(command, comments=True))
        if words[:2] == ["pip", "install"]:  # into this page's own folder: the reader's environment is not ours
            uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
            words = [*uv, "--python", sys.executable, "--target", "installed", *words[2:]]
        else:
            words = [
                shutil.which(words[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or words[0],
                *words[1:],
            ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        yield _filtered(done.stdout, filters)


def _piped(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _filtered(text: str, filters: list[list[str]]) -> str:
    lines = [f"{line.rstrip()}\n" for line in text.splitlines()]
    for name, argument in filters:
        if name == "grep":
            lines = [line for line in lines if argument in line]
        else:
            lines = lines[: -int(argument)] if name == "head" else lines[int(argument) :]
    return "".join(lines)


def alike(printed: str, shown: str) -> bool:
    """Whether two outputs say the same: words and whole numbers exactly, others to 5 % or .02, durations not at all."""
    printed, shown = DURATION.sub("some s", printed), DURATION.sub("some s", shown)
    if NUMBER.sub("0", " ".join(printed.split())) != NUMBER.sub("0", " ".join(shown.split())):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(a == b if a.isdecimal() and b.isdecimal() else _near(float(a), float(b)) for a, b in pairs)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 0.02 + 0.05 * max(abs(a), abs(b))


def pages() -> list[Path]:
    """The pages that hold programs to run."""
    return sorted([DOCS / "index.md", *DOCS.glob("tutorials/*.md"), *DOCS.glob("adding/*.md")])


def run_page(path: Path, *, write: bool) -> list[str]:
    """Run one page in a temporary folder; what is wrong with it, nothing where all is well."""
    before = path.read_text(encoding="utf-8")
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path[:0] = [folder, str(Path(folder) / "installed")]
        try:
            after = performed(parsed(before))
            pictures = Path(folder) / "pictures"
            programs = "".join(part.text for part in parsed(before) if isinstance(part, Block))
            shown = re.findall(r"!\[[^]]*\]\(pictures/([^)]+)\)", before)
            if "pictures/" not in programs:  # a script of the site draws what such a page shows
                shown = []
            wrong = [f"no program makes pictures/{name}" for name in shown if not (pictures / name).is_file()]
            if write:
                path.write_text(unparsed(after), encoding="utf-8")
                for name in shown:
                    (path.parent / "pictures").mkdir(exist_ok=True)
                    shutil.copy(pictures / name, path.parent / "pictures" / name)
        finally:
            os.chdir(home)
    old = [part for part in parsed(before) if isinstance(part, Block)]
    new = [part for part in after if isinstance(part, Block)]
    return wrong + [
        f"expected\n{was.text}\nbut it printed\n{now.text}"
        for was, now in zip(old, new, strict=True)
        if not write and not alike(was.text, now.text)
    ]


def installed(page: str) -> list[str]:
    r"""Return what a page's install line names, its braces expanded as a shell does; nothing without such a line.

    Example:
        >>> installed("# A\n\n`pip install ./packages/{a,b} c`, in the root of [a clone](i.md).\n")
        ['./packages/a', './packages/b', 'c']
    """
    line = INSTALLS.search(page)
    words = line[1].replace("'", "").split() if line else []
    return [f"{start}{part}" for word in words for start, part in _expanded(word)]


def _expanded(word: str) -> list[tuple[str, str]]:
    if word.endswith("/*"):
        return [("./packages/", path.name) for path in sorted((ROOT / word[:-2]).iterdir()) if path.is_dir()]
    start, _, rest = word.partition("{")
    return [(start, part) for part in rest.removesuffix("}").split(",")]


def main() -> None:
    """Run the pages that are named, or all, each in a process of its own."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("pages", nargs="*", type=Path)
    reader.add_argument("--write", action="store_true", help="write what the pages print now into them")
    reader.add_argument("--alone", action="store_true", help="in an environment of what the page's install line names")
    reader.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = reader.parse_args()
    if arguments.here:
        (page,) = arguments.pages
        wrong = run_page(page.resolve(), write=arguments.write)
        raise SystemExit("\n".join(wrong) if wrong else 0)
    failed = 0
    chosen = [page for page in arguments.pages or pages() if not arguments.alone or installed(page.read_text("utf-8"))]
    for page in chosen:
        start = time.perf_counter()
        done = _started_alone(page) if arguments.alone else start_page(page, write=arguments.write)
        print(f"{page.name:28} {'ok' if done.returncode == 0 else 'FAILED'} {time.perf_counter() - start:6.1f} s")
        if done.returncode:
            failed += 1
            print(done.stderr[-4000:])
    raise SystemExit(failed > 0)


def _started_alone(page: Path) -> subprocess.CompletedProcess[str]:
    sys.path.insert(0, str(ROOT))
    from website.packages import environment

    needs = installed(page.read_text("utf-8"))
    tools = ["uv", "hatchling"]  # for a page that installs a package of its own
    with tempfile.TemporaryDirectory() as folder:
        pins = ["--constraint", str(ROOT / "constraints.txt")]
        return start_page(page, python=environment(Path(folder) / "alone", sys.executable, [*pins, *needs, *tools]))


def start_page(page: Path, *, write: bool = False, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one page in a process of its own, which finds what the page installs into its folder ``installed``."""
    words = [str(python or sys.executable), __file__, "--here", *(["--write"] if write else []), str(page.resolve())]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environ |= {
        "PYTHONPATH": f"installed{os.pathsep}.",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=900)


if __name__ == "__main__":
    main()
