"""Encoders, heads, trainings and losses on a pretended GPU: the CPU's values, and few waits and copies in each step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
IN_THE_SUITE = (
    "device", "encoders", "losses", "frozen acdc", "frozen chexpert", "frozen winoground", "frozen odinw-lot",
    "resumed frozen", "detectors rt_detr_v2", "finetune siglip", "kept finetune",
)  # fmt: skip
"""Groups and cases that the suite runs: each kind of code once; the other tasks are marked ``again``."""
STEPS = {"frozen": 4, "trained": 8, "modes": 2, "resumed": 4, "kept": 2}
"""At most so many optimiser steps in a case of a group, over all of its learning rates."""
CACHED = {"detectors rt_detr_v2": 3}
"""Tensors that transformers keeps of a size of images, for the rest of the process."""
TRAINING = "adapters/src/vision_adapters/"
PER_STEP = {f"{TRAINING}training/step.py": 2, f"{TRAINING}losses.py": 2}
"""Waits in a step by the file that makes them: for its numbers, in clipping (a real GPU does without), for labels."""
PER_EPISODE = 48
"""Waits of a few-shot task in an episode, whose head is solved in it; there are four."""
PER_RUN = 24
"""Waits of a training in any other file there: what begins and ends it, and its validations."""
OF_WEIGHTS = f"{TRAINING}finetune.py"
"""Copies each weight before a training and after it, once a run."""


@pytest.fixture(params=["suite", pytest.param("rest", marks=pytest.mark.again)])
def reports(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return _found(request.param == "rest")


@cache
def _found(rest: bool) -> list[dict[str, Any]]:
    """What one process found of its cases, started once, whatever the order of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.pretended.cases", folder, *(["--but"] if rest else []), *IN_THE_SUITE]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    found = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    names = {report["case"] for report in found}
    known = names | {name.partition(" ")[0] for name in names}
    assert known.isdisjoint(IN_THE_SUITE) if rest else known.issuperset(IN_THE_SUITE)
    assert len(names) > 20
    return found


def test_values_are_the_cpus(reports: list[dict[str, Any]]) -> None:
    assert {report["case"]: report["wrong"] for report in reports if report["wrong"]} == {}


def test_no_tensor_stays_on_the_device(reports: list[dict[str, Any]]) -> None:
    counts = [0, *(report["left"] for report in reports)]
    more = {report["case"]: now - was for report, was, now in zip(reports, counts, counts[1:], strict=False)}
    assert {case: count for case, count in more.items() if count > CACHED.get(case, 0)} == {}


def test_a_step_waits_for_the_device_a_bounded_number_of_times_and_copies_from_pinned_memory(
    reports: list[dict[str, Any]],
) -> None:
    for report in reports:
        steps = STEPS.get(report["case"].partition(" ")[0])
        assert report["counts"]["upload paged"] > 0  # the weights: copies are counted
        waits: Counter[str] = Counter()
        for line, times in report["places"].items():
            kind, file = line.rpartition(":")[0].rsplit(" ", 1)
            waits[file] += times if kind == "wait" else 0
            assert not (kind == "upload paged" and f"{TRAINING}heads/" in file), (report["case"], line)
        for file, times in waits.items():
            if steps is not None and file.startswith(TRAINING) and file != OF_WEIGHTS:
                bound = PER_STEP[file] * steps if file in PER_STEP else PER_RUN
                bound = 4 * PER_EPISODE if file == f"{TRAINING}episodes.py" else bound
                assert times <= bound, (report["case"], file, times)
