"""Make the images of the site and the READMEs again: each is drawn by a script, none by hand.

    hatch run test:python website/pictures.py [PICTURE ...]

An image is named by its path; all that change with the code are made by default. Those of screens need Chromium.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website import drawings
from website.packages import ROOT, run

BUILDER = "packages/eqben-builder"
GATE = "packages/eevee/benchmarks/results/gate"
WIDTH = 1000
"""Of a page's image, in pixels."""
RUNS = ["digits", "mnist5000", "faces"]


def drawing(path: Path) -> None:
    """A drawing of docs/architecture.md."""
    if missing := drawings.missing_files():
        raise SystemExit(f"the image names files that do not exist: {', '.join(missing)}")
    path.write_text(drawings.drawings()[path.name], encoding="utf-8")


def script(path: str, *arguments: str) -> None:
    """Run one of the repository's scripts."""
    run([sys.executable, str(ROOT / path), *arguments])


def contact_sheet(path: Path) -> None:
    """What the micro world can draw."""
    script(f"{BUILDER}/benchmarks/contact_sheet.py", "--output", str(path))


def kubric_sheet(path: Path) -> None:
    """Path-traced pairs of each aspect."""
    with tempfile.TemporaryDirectory() as folder:
        run([command(), "eqben", "build", "kubric", folder, "--pairs", "5"])
        script(f"{BUILDER}/benchmarks/kubric_sheet.py", folder, str(path), "--rows", "5")


def review(path: Path) -> None:
    """The page on which people sort pairs out."""
    with tempfile.TemporaryDirectory() as folder:
        run([command(), "eqben", "build", "micro", f"{folder}/pairs", "--pairs", "3"])
        run([command(), "eqben", "review", f"{folder}/pairs", f"{folder}/review.html"])
        screenshot(Path(folder, "review.html"), path, 640)


def report(path: Path) -> None:
    """A report of two encoders."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [f"{scratch}/micro-clip", f"{scratch}/lite"]
        for encoder, folder in zip(("micro-clip", "lite:0"), folders, strict=True):
            run([command(), "run", *RUNS, "--limit", "300", "--encoder", encoder, "--output", folder])
        run([command(), "report", *folders, "--output", f"{scratch}/report.html"])
        screenshot(Path(scratch, "report.html"), path, 1210)


def command() -> str:
    """The program `gate-runner` of this environment."""
    return str(Path(sys.executable).parent / "gate-runner")


def screenshot(page: Path, path: Path, height: int) -> None:
    """The top of a page, in few colours."""
    from PIL import Image

    from website.audit import chromium

    with tempfile.TemporaryDirectory() as folder:
        options = (f"--user-data-dir={folder}", f"--window-size={WIDTH},{height}", "--hide-scrollbars")
        shot = Path(folder, "shot.png")
        subprocess.run(
            chromium(page.as_uri(), *options, f"--screenshot={shot}"), check=True, capture_output=True, timeout=120
        )
        Image.open(shot).convert("RGB").quantize(128).save(path, optimize=True)


def figures(path: Path) -> None:
    """EEVEE's three figures at once, from the paper's table."""
    script("packages/eevee/benchmarks/reproduce_gate.py", "--pictures", str(path.parent))


MADE: dict[str, Callable[[Path], None]] = {
    "docs/pictures/packages.svg": drawing,
    "docs/pictures/request.svg": drawing,
    "docs/pictures/report.png": report,
    "docs/pictures/review.png": review,
    f"{BUILDER}/contact_sheet.png": contact_sheet,
    f"{BUILDER}/kubric_sheet.jpg": kubric_sheet,
    f"{GATE}/figure_3.png": figures,
    f"{GATE}/figure_4_small.png": figures,
    f"{GATE}/figure_5.png": figures,
}
"""Each image and what makes it."""

ELSEWHERE = {
    "docs/pictures/favicon.svg": "docs/pictures/favicon.svg",
    "docs/tutorials/pictures/pairs.png": "docs/tutorials/minimal-pairs-of-my-own.md",
    "experiments/results/eqsim_proof.svg": "experiments/eqsim_proof/report.py",
    "experiments/results/wise_ft.svg": "experiments/wise_ft.py",
}
"""Images with another source, which makes them again in its own time: a page, an experiment, the file itself."""


def main() -> None:
    """Make those that are asked for, one after another."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("pictures", nargs="*", help=f"of {', '.join(MADE)}; all by default")
    names = reader.parse_args().pictures or list(MADE)
    for name in names:
        if name not in MADE:
            raise SystemExit(f"{name!r} is no image that is made here; expected one of {', '.join(MADE)}")
    done: set[tuple[str, Path]] = set()
    for name in names:
        path = ROOT / name
        job = (MADE[name].__name__, path.parent if MADE[name] is figures else path)
        if job not in done:
            MADE[name](path)
            done.add(job)
        print(f"{name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
