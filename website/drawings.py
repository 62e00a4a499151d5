"""Draw the two images of docs/architecture.md: how a request becomes a result, and who depends on whom.

`website/pictures.py` writes them; tests/test_website.py says when they are stale.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
RUNNER = "packages/gate-runner/src/gate_runner"

INK, QUIET, PAPER = "#1f2933", "#4a5568", "#ffffff"
FILL = {"runner": "#dbeafe", "library": "#dcfce7", "file": "#fef3c7", "outside": "#f1f5f9"}


class Box(NamedTuple):
    """A rectangle with a title, the file that it stands for, and a few words."""

    left: float
    top: float
    width: float
    kind: str
    title: str
    file: str
    words: tuple[str, ...]

    @property
    def height(self) -> float:
        """In pixels: a line each for the title, the file and the words."""
        return 16 + 20 + 17 * (bool(self.file) + len(self.words))

    def drawn(self) -> str:
        """SVG."""
        at = self.left + 12
        lines = [f'<text x="{at}" y="{self.top + 24}" class="title">{escape(self.title)}</text>']
        y = self.top + 24
        for text, style in [(self.file, "file"), *((words, "words") for words in self.words)]:
            if text:
                y += 17
                lines.append(f'<text x="{at}" y="{y}" class="{style}">{escape(text)}</text>')
        frame = (
            f'<rect x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}" rx="6" '
            f'fill="{FILL[self.kind]}" stroke="{QUIET}"/>'
        )
        return frame + "".join(lines)


REQUEST = (
    Box(20, 20, 270, "runner", "Command line or Python", "commands/run.py, api.py", ("parse, call, print",)),
    Box(20, 120, 270, "runner", "Settings, RunRequest", "settings/, runs/request.py", ("every check without torch",)),
    Box(20, 220, 270, "runner", "Evaluation units", "runs/unit.py", ("a benchmark and a seed, as data",)),
    Box(20, 320, 270, "runner", "Executor", "executors/executor.py", ("this machine, SLURM, plug-in",)),
    Box(340, 20, 290, "library", "vision-features", "packages/vision-features",
        ("an encoder from a spec string, probed", "on two images; its features, cached")),
    Box(340, 137, 290, "runner", "Benchmark to Data", "benchmark.py",
        ("originals, built-in or micro;", "three splits")),
    Box(340, 254, 290, "runner", "Job", "tasks/job.py", ("encoder, data, settings, seed",)),
    Box(340, 354, 290, "runner", "Task type", "tasks/task.py",
        ("head, loss and metrics by name;", "scores the test split once")),
    Box(680, 20, 280, "library", "eqben-builder", "packages/eqben-builder", ("draws the stand-ins",)),
    Box(680, 120, 280, "library", "knowledge-prompts", "packages/knowledge-prompts", ("texts of classes",)),
    Box(680, 220, 280, "library", "vision-adapters", "packages/adapters", ("heads, losses, training, metrics",)),
    Box(680, 320, 280, "library", "oven-retrieval", "packages/oven-retrieval", ("entities and their search",)),
    Box(20, 480, 270, "file", "Run folder", "runs/folder.py",
        ("one JSON per part, samples beside it,", "written whole or not at all")),
    Box(340, 480, 290, "runner", "compare, report, forecast", "reports/page.py", ("read folders, never encoders",)),
    Box(680, 480, 280, "library", "eevee", "packages/eevee", ("which benchmarks tell the rest",)),
)  # fmt: skip
"""Boxes of the first image: left the run, in the middle what a worker does, right the libraries."""

ARROWS = ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (8, 5), (9, 7), (10, 7), (11, 7), (3, 12), (12, 13), (14, 13))


def arrow(start: Box, end: Box) -> str:
    """A line from the edge of one box to that of another."""
    if abs(start.left - end.left) < 1 and abs(start.top - end.top) < 200:
        x = start.left + start.width / 2
        points = [(x, start.top + start.height), (x, end.top)]
    elif start.left < end.left:
        points = _across(start.left + start.width, start, end.left, end)
    else:
        points = _across(start.left, start, end.left + end.width, end)
    (a, b), (c, d) = points[0], points[-1]
    return f'<path d="M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}" class="arrow" marker-end="url(#head)"/>'


def _across(a: float, start: Box, b: float, end: Box) -> list[tuple[float, float]]:
    return [(a, start.top + start.height / 2), (b, end.top + end.height / 2)]


def picture(width: float, height: float, title: str, parts: list[str]) -> str:
    """One SVG with its styles inside; the paper is drawn, so that it can be read on dark pages too."""
    style = (
        f"text{{font-family:system-ui,sans-serif;fill:{INK}}}.title{{font-size:15px;font-weight:600}}"
        f".file{{font-size:12px;font-family:ui-monospace,monospace;fill:{QUIET}}}.words{{font-size:13px}}"
        f".arrow{{stroke:{QUIET};stroke-width:1.5;fill:none}}"
    )
    head = (
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{QUIET}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f'<title>{escape(title)}</title><style>{style}</style>{head}<rect width="100%" height="100%" fill="{PAPER}"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def missing_files() -> list[str]:
    """Files that the first image names and that do not exist."""
    named = [path for box in REQUEST for path in re.split(r", ", box.file) if path]
    return [name for name in named if not any((ROOT / base / name).exists() for base in ("", RUNNER))]


def request_picture() -> str:
    """How a request becomes a result."""
    hand_over = '<path d="M290 360C 316 360 314 60 338 60" class="arrow" marker-end="url(#head)"/>'
    back = '<path d="M485 440L485 460L300 460L200 478" class="arrow" marker-end="url(#head)"/>'
    drawn = [arrow(REQUEST[a], REQUEST[b]) for a, b in ARROWS if (a, b) != (3, 12)]
    boxes = [box.drawn() for box in REQUEST]
    return picture(980, 580, "How a request becomes a result", [*drawn, hand_over, back, *boxes])


def dependencies() -> dict[str, tuple[str, list[str]]]:
    """Of each package its distribution name and what it requires, read from its pyproject.toml."""
    required_by = {}
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        required = [re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in project["dependencies"]]
        required_by[path.parent.name] = (project["name"], [name for name in required if name != "jaxtyping"])
    return required_by


def packages_picture() -> str:
    """The runner above, then what is built on libraries, the libraries, and lowest those that others import."""
    required_by = dependencies()
    every = [folder for folder in required_by if folder != "gate-runner"]
    siblings = {required_by[folder][0]: folder for folder in every}
    ours = {folder: {siblings[name] for name in required_by[folder][1] if name in siblings} for folder in every}
    lowest = sorted(folder for folder in set().union(*ours.values()) if not ours[folder])
    (upper,) = (folder for folder in every if ours[folder] - set(lowest))
    below = sorted(ours[upper] - set(lowest))
    libraries = [*below, *(folder for folder in every if folder not in (*lowest, *below, upper))]
    name, required = required_by["gate-runner"]
    outside = ", ".join(requirement for requirement in required if requirement not in siblings)
    top = Box(
        20,
        20,
        len(libraries) * 200 - 8,
        "runner",
        name,
        "packages/gate-runner",
        ("knows all, each inside the command that needs it", outside),
    )
    built = _library(20, 150, len(below) * 200 - 8, upper, required_by, siblings)
    built = built._replace(words=(", ".join(name for name in required_by[upper][1] if name not in siblings),))
    row = built.top + built.height + 40
    boxes = [top]
    for column, folder in enumerate(libraries):
        boxes.append(_library(20 + column * 200, row, 192, folder, required_by, siblings))
    arrows = [_down(built.left + built.width / 2, top.top + top.height, built.top)]
    for box in boxes[1:]:
        over = built if box.file in below else top
        arrows.append(_down(box.left + 96, over.top + over.height, row))
    row = max(box.top + box.height for box in boxes) + 60
    step = top.width / max(1, len(lowest))
    for place, folder in enumerate(lowest):
        box = _library(20 + place * step, row, step - 8, folder, required_by, siblings)
        users = [user for user in boxes[1:] if required_by[folder][0] in required_by[user.file][1]]
        arrows += [
            f'<path d="M{user.left + 96:.0f} {user.top + user.height}L{_inside(user.left + 96, box):.0f} {row - 2}" '
            f'class="arrow" marker-end="url(#head)"/>'
            for user in users
        ]
        boxes.append(box)
    boxes.append(built)
    height = max(box.top + box.height for box in boxes) + 20
    return picture(32 + len(libraries) * 200, height, "Who depends on whom", [*arrows, *(box.drawn() for box in boxes)])


def _down(x: float, start: float, end: float) -> str:
    """An arrow straight down."""
    return f'<path d="M{x:.0f} {start:.0f}L{x:.0f} {end - 2:.0f}" class="arrow" marker-end="url(#head)"/>'


def _library(
    left: float,
    top: float,
    width: float,
    folder: str,
    required_by: dict[str, tuple[str, list[str]]],
    ours: dict[str, str],
) -> Box:
    """A library's box, with the third parties that it requires, two a line."""
    name, required = required_by[folder]
    outside = [requirement for requirement in required if requirement not in ours]
    lines = [", ".join(outside[at : at + 2]) for at in range(0, len(outside), 2)]
    return Box(left, top, width, "library", name, folder, tuple(lines))


def _inside(x: float, box: Box) -> float:
    """The nearest place on the upper edge of a box, 20 px from its corners at least."""
    return min(max(x, box.left + 20), box.left + box.width - 20)


def drawings() -> dict[str, str]:
    """File name to SVG."""
    return {"request.svg": request_picture(), "packages.svg": packages_picture()}
