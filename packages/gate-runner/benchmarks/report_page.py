"""The report of 20 encoders on 31 benchmarks: how large it is, and how long a browser takes to show it.

Checked first: every score of every run stands in the page. Then its bytes (at most 5 MB), and what a headless chromium
takes from its start to a screenshot of its first screen, alternating with the same for an empty page; the difference of
the medians is what the page costs (at most 2 s). By the clock and in processor seconds of all its processes, since the
clock of a busy machine counts the others' work too. Pictures are noise, which no compression makes small.

Usage: python report_page.py [--repeats 5] [--output report_page.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import numpy as np

from gate_runner.reports import pictures as drawing
from gate_runner.reports.page import build_page
from gate_runner.reports.scores import number
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import SCHEMA, Result, Score
from gate_runner.runs.stored import StoredRun, read_runs
from gate_runner.tasks import task_types
from paired_scores.metrics import score_outcomes

ENCODERS, BENCHMARKS, SAMPLES = 20, 31, 400


def write_runs(root: Path) -> list[StoredRun]:
    """Runs whose encoders differ a little, with learning curves."""
    tasks = [name for name, task in task_types().items() if not task.details and not task.overview]
    base = np.random.default_rng(0).uniform(0.2, 0.7, BENCHMARKS)
    for encoder in range(ENCODERS):
        spec = f"open_clip:ViT-B-{encoder}/laion2b_s34b_b79k"
        folder = RunFolder(root / str(encoder))
        folder.claim({"encoder": {"spec": spec, "parameters": 86_000_000}, "limit": None, "schema": SCHEMA}, {})
        for benchmark in range(BENCHMARKS):
            rng = np.random.default_rng([encoder, benchmark])
            outcomes = (rng.random(SAMPLES) < base[benchmark] + 0.01 * encoder).astype(float)
            score = score_outcomes("acc@1", outcomes, resamples=100)
            steps = range(0, 10_001, 500)
            result = Result(
                benchmark=f"benchmark-{benchmark}",
                name=f"micro/benchmark-{benchmark}",
                task=tasks[benchmark % len(tasks)],
                source="micro",
                seed=0,
                status="ok",
                note="synthetic stand-in",
                encoder={"spec": spec},
                scores=(Score("acc@1", "higher", score.value, score.low, score.high, 0.1),),
                data={"test": SAMPLES, "sha256": str(benchmark)},
                training={"validation": [{"step": s, "acc@1": score.value * s / (s + 900)} for s in steps]},
                seconds={"data": 9.0, "encode": 90.0, "train": 400.0, "test": 5.0, "total": 505.0},
            )
            folder.save(result, outcomes)
    return read_runs([root / str(encoder) for encoder in range(ENCODERS)])


class Noise:
    """Four pictures of noise in place of a benchmark's hardest samples."""

    def hardest(self, count: int) -> tuple[list[drawing.Example], str]:
        """So many, and no reason against it."""
        pixels = np.random.default_rng(0).integers(0, 256, (count, 96, 96, 3)).astype(np.uint8)
        caption = "true: noise"
        return [
            drawing.Example(*drawing.encoded(picture), index, caption, "", "wrong in 20 of 20 runs")
            for index, picture in enumerate(pixels)
        ], ""

    def confused(self, count: int) -> list[tuple[str, list[drawing.Example]]]:
        """One confusion."""
        return [("noise taken for noise", self.hardest(count)[0])]


def seconds(program: str, page: Path, folder: Path) -> tuple[float, float]:
    """From the start of the browser to a screenshot: by the clock, and of processors."""
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        f"--screenshot={folder / 'shot.png'}", "--window-size=1280,900", page.as_uri(),
    ]  # fmt: skip
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "report_page.json")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("there is no chromium here: nothing to measure")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        runs = write_runs(path)
        start = time.perf_counter()
        with patch("gate_runner.reports.pictures.reload_samples", lambda *_: (Noise(), "")):
            text = build_page(runs)
        perf_counter = time.perf_counter() - start
        for run in runs:
            for result in run.results:
                score = result.scores[0]
                if f"{number(score.value)}" not in text or f"{number(score.low)}–{number(score.high)}" not in text:
                    raise SystemExit(f"{run.label} {result.name} is not in the page: no figure is worth printing")
        page, empty = path / "page.html", path / "empty.html"
        page.write_text(text, encoding="utf-8")
        empty.write_text("<!doctype html><title>empty</title>")
        pairs = [(seconds(program, page, path), seconds(program, empty, path)) for _ in range(options.repeats)]
    (full, full_used), (nothing, nothing_used) = (
        tuple(statistics.median(column) for column in zip(*side, strict=True)) for side in zip(*pairs, strict=True)
    )
    report = {
        "megabytes": len(text.encode()) / 1e6,
        "made_seconds": perf_counter,
        "page_seconds": full,
        "empty_seconds": nothing,
        "difference": full - nothing,
        "page_processor_seconds": full_used,
        "empty_processor_seconds": nothing_used,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("gate-runner", "numpy")},
    }
    print(f"{ENCODERS} encoders x {BENCHMARKS} benchmarks: {report['megabytes']:.2f} MB, made in {perf_counter:.1f} s")
    print(f"chromium: {full:.2f} s, an empty page {nothing:.2f} s, so {full - nothing:.2f} s for the page")
    print(f"processor seconds: {full_used:.2f}, an empty page {nothing_used:.2f}, so {full_used - nothing_used:.2f}")
    print(f"at most 5 MB: {'yes' if report['megabytes'] <= 5 else 'no'}")
    for what, value in (("by the clock", full - nothing), ("processor seconds", full_used - nothing_used)):
        print(f"at most 2 s, {what}: {'yes' if value <= 2 else 'no'}")
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
