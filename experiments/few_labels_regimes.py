"""Images without labels in the seven regimes of Zanella et al. (CVPR 2025): StatA, its guard, and TransCLIP.

    python experiments/few_labels_regimes.py [--batches 1000] [--minutes 60]

A batch has 64 or 1,000 images of few of the 100 classes of a made-up world (`feature_world.py`), or 10,000 of all. Each
batch is drawn from a seed of its own. The regimes take turns, so that all have batches when time is over; the same
command again goes on with the batches that are missing. Intervals are 95 %, Student's, over batches of the gain on
zero-shot, paired; they hold for the one world of each kind that the batches are drawn from.

Rule, fixed before the figures were taken: StatA with its guard is below zero-shot where its interval lies below 0, and
ahead of TransCLIP where the interval of their difference lies above 0. Writes results/few_labels_regimes.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from feature_world import WORLDS, world
from icinw_few_shot import interval
from torch import Tensor

from vision_adapters.tuning import transduce

RESULTS = Path(__file__).parent / "results"
REGIMES = ((64, 1, 4), (64, 2, 10), (64, 5, 25), (1000, 5, 25), (1000, 25, 50), (1000, 50, 100), (10_000, 100, 100))
EVERY = {64: 1, 1000: 10, 10_000: 250}
"""Batches of 64 for each batch of a size: one of 10,000 takes some hundred times as long."""


def batch(name: str, regime: tuple[int, int, int], number: int, drawn: list[Tensor]) -> list[float]:
    """Return points of zero-shot, StatA and TransCLIP without a guard, StatA with it, and whether it fell back."""
    x, y, texts = drawn
    size, least, most = regime
    seed = [sorted(WORLDS).index(name), *regime, number]
    rng = np.random.default_rng(seed)
    classes = torch.from_numpy(rng.permutation(100)[: int(rng.integers(least, most + 1))])
    pool = torch.isin(y, classes).nonzero().flatten()
    rows = pool[torch.from_numpy(rng.permutation(len(pool))[:size])]
    guarded = transduce(x[rows], texts)
    free = transduce(x[rows], texts, guard=False) if guarded.fallback else guarded
    peer = transduce(x[rows], texts, method="transclip", guard=False)
    tables = (x[rows] @ texts.T, free.probabilities, peer.probabilities, guarded.probabilities)
    hits = [100 * float((table.argmax(1) == y[rows]).double().mean()) for table in tables]
    return [*hits, float(guarded.fallback != "")]


def main() -> None:
    """Go on with the batches that are missing, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    worlds = {name: world(0, **spec) for name, spec in WORLDS.items()}
    file = options.results / "few_labels_regimes.json"
    done: dict[str, list[list[float]]] = json.loads(file.read_text()) if file.exists() else {}
    end, written = time.monotonic() + 60 * options.minutes, time.monotonic()
    for number in range(options.batches):
        for name, drawn in worlds.items():
            for regime in REGIMES:
                rows = done.setdefault(f"{name} {' '.join(map(str, regime))}", [])
                behind = len(rows) * EVERY[regime[0]] <= number
                if behind and len(rows) < options.batches:
                    rows.append([round(value, 4) for value in batch(name, regime, len(rows), drawn)])
        if time.monotonic() > min(end, written + 60):
            write(file, done)
            written = time.monotonic()
        if time.monotonic() > end:
            break
    write(file, done)


def write(file: Path, done: dict[str, list[list[float]]]) -> None:
    """Write every batch's figures, and the table."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(rows, separators=(',', ':'))}" for key, rows in done.items())
    file.write_text("{\n" + lines + "\n}\n")
    file.with_suffix(".md").write_text(as_markdown(done))


def as_markdown(done: dict[str, list[list[float]]]) -> str:
    """Return the table, and what the rule says of it."""
    heads = ("world", "batch", "classes", "batches", "zero-shot", "fallbacks", "stata, no guard", "transclip, no guard")
    heads += ("stata", "stata on transclip")
    lines = [
        "# Images without labels in seven regimes",
        "",
        "Printed by `experiments/few_labels_regimes.py`. Gains are",
    ]
    lines += ["points of accuracy on zero-shot with their 95 % interval over batches. The worlds are made up.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    below, ahead = [], []
    for key, rows in done.items():
        name, size, least, most = key.split()
        plain, free, peer, guarded, fell = np.array(rows).T
        gains = [interval(values.tolist()) for values in (free - plain, peer - plain, guarded - plain, guarded - peer)]
        cells = [name, size, f"{least}-{most}", str(len(rows)), f"{plain.mean():.1f}", f"{100 * fell.mean():.1f} %"]
        lines.append("| " + " | ".join([*cells, *(f"{middle:+.2f} ± {half:.2f}" for middle, half in gains)]) + " |")
        below += [key] if gains[2][0] + gains[2][1] < 0 else []
        ahead += [key] if gains[3][0] - gains[3][1] > 0 else []
    lines += ["", f"Below zero-shot: {', '.join(below) or 'none'}. Ahead of TransCLIP: {len(ahead)} of {len(done)}."]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
