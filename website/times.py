"""How long the site takes to build, and each page that holds programs to run.

    hatch run test:python website/times.py [--build "hatch run docs:build"]

Both clocks are kept in website/results/times.json: the seconds that passed say something only where nothing else runs,
processor time says it everywhere. Exit status 1 where processor time is over what is allowed, or a page fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website.packages import RESULTS, ROOT
from website.tutorials import pages, start_page

MOST_BUILD = 60
MOST_PAGES = 360
"""Seconds, of the build and of all pages together."""


def timed(work: Callable[[], subprocess.CompletedProcess[str]]) -> dict[str, float]:
    """Seconds that pass while a child works, and its processor time.

    Raises:
        SystemExit: it fails.
    """
    clock, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = work()
    passed, after = time.monotonic() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{done.args}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(passed, 1), "processor seconds": round(processor, 1)}


def main() -> None:
    """Build, run the pages, keep, judge."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("--build", default="hatch run docs:build", help="the command that builds the site")
    words = shlex.split(reader.parse_args().build)
    waiting = os.getloadavg()[0]
    build = timed(lambda: subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False))
    rows: list[dict[str, Any]] = []
    for page in pages():
        rows.append({"page": page.relative_to(ROOT / "docs").as_posix(), **timed(partial(start_page, page))})
        print(rows[-1], flush=True)
    total = {key: round(sum(row[key] for row in rows), 1) for key in build}
    values = {
        "build": {**build, "at most": MOST_BUILD},
        "all pages": {**total, "at most": MOST_PAGES},
        "processes waiting for 2 cores before": round(waiting, 1),
        "date": date.today().isoformat(),
        "pages": rows,
    }
    (RESULTS / "times.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    print(f"build {build}, pages {total}")
    raise SystemExit(build["processor seconds"] > MOST_BUILD or total["processor seconds"] > MOST_PAGES)


if __name__ == "__main__":
    main()
