"""Does EqSim help, and what helps as much? Trains with each loss and scores pairs that nobody trained on.

    python experiments/eqsim_proof/floor.py FOLDER raster            # the second world's pictures, once
    python experiments/eqsim_proof/run.py --pictures FOLDER          # the same command continues where it stopped
    python experiments/eqsim_proof/report.py                         # table and picture of what there is

Every method starts from the same weights of its seed, and takes the same batches: 128 samples, of which 64 are 32 known
pairs. The rule, written before any test seed was looked at:

1. Weights are chosen on the validation seeds 1 and 2: of the values tried, the one with the highest mean group score on
   pairs of the trained kinds among those whose mean R@1 is at most one point below the contrastive loss's; where none
   is, the one with the highest R@1.
2. A grid begins with three values a factor of four apart. While the best is at an end it goes on past that end, to six
   values at most, the same for every method.
3. The weight that is chosen goes to the test seeds, and no other: 201, 202, ... in this order, every method on a seed
   before the next. Differences are paired by seed.

4. What is tried for kinds that are in no known pair (`methods.TRANSFER`: a curriculum, and captions whose two sides are
   exchanged, which is the held-out kind in text alone) is run in one cell, the micro world's heads, by the same rule:
   pairs of the held-out kind choose nothing, and are looked at on the test seeds.
5. The forms that were ahead of the upweighted control on the fine-tuned encoder of the micro world (`CONFIRMED`) are
   run on it in two further worlds, Kubric's scenes and handwritten numerals, by points 1 to 3. One holds there if its
   paired 95 % interval against the control, over both comparisons of a world (Bonferroni), lies above 0.

A cell is one encoder in one world. Encoders whose every weight is random stay at chance in both worlds, by the control
too: after 1,500 of these steps a small one has a group score of .11 to .12 (chance .17), and an R@1 of .02 to .05. One
line of JSON for each run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from data import FIRST_TEST, WORLDS
from methods import GRIDS, METHODS, MOST_TRIED, TRANSFER, TRANSFER_GRIDS
from study import batches, evaluate, train
from towers import ENCODERS

from vision_features.encoders.micro_clip import FILES

RESULTS = Path(__file__).parents[1] / "results"
VALIDATION = (1, 2)
LOSS_ALLOWED = 0.01
CELLS = (
    ("kubric", "heads"),
    ("micro", "heads"),
    ("micro", "micro-clip"),
    ("numerals", "micro-clip"),
    ("kubric", "micro-clip"),
)
CONFIRMED = ("upweighted", "pair", "relative")
"""Methods of `CONFIRMED_CELLS`, which were added to see whether what helped in the micro world helps elsewhere."""
CONFIRMED_CELLS = (("kubric", "micro-clip"), ("numerals", "micro-clip"))
TRANSFER_CELL = ("micro", "heads")


def grids_of(world: str, encoder: str) -> dict[str, tuple[float, ...]]:
    """What is searched in a cell."""
    if (world, encoder) in CONFIRMED_CELLS:
        return {method: GRIDS[method] for method in CONFIRMED}
    return GRIDS | TRANSFER_GRIDS if (world, encoder) == TRANSFER_CELL else GRIDS


class Journal:
    """Finished runs, one line of JSON each; what is there is not run again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            lines = path.read_text(encoding="utf-8").split("\n")
            self.rows = [json.loads(line) for line in lines if line.endswith("}")]

    def find(self, **wanted: object) -> list[dict[str, Any]]:
        """Return the rows that have these values."""
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row, on disk too, and print it."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        scores = row["scores"]
        print(f"{row['world']} {row['encoder']} {row['seed']} {row['method']} {row['weight']:g}", end=": ")
        print(f"group {scores['group']:.3f}, R@1 {scores['r1']:.3f}, {row['seconds']:.1f} s", flush=True)


class Bench:
    """One cell: its encoder, and the data of one seed at a time."""

    def __init__(self, journal: Journal, world: str, encoder: str, pictures: Path | None) -> None:
        self.journal, self.world, self.name, self.pictures = journal, world, encoder, pictures
        self.encoder: Any = None
        self.seed = -1

    def run(self, seed: int, method: str, weight: float) -> None:
        """Train and score, unless that was done before."""
        cell = {"world": self.world, "encoder": self.name, "seed": seed, "method": method, "weight": weight}
        if self.journal.find(**cell):
            return
        self.encoder = self.encoder or ENCODERS[self.name]()
        if seed != self.seed:
            data, self.evaluation = WORLDS[self.world](seed, self.encoder.encode, self.pictures)
            self.drawn, self.seed = batches(data, self.encoder.steps, seed), seed
        towers, seconds = train(self.encoder, self.drawn, seed, method, weight)
        scores = {name: round(value, 5) for name, value in evaluate(towers, self.evaluation).items()}
        self.journal.add(cell | {"seconds": round(seconds, 2), "scores": scores})

    def search(self) -> dict[str, float]:
        """Choose every method's weight by the rule above."""
        for seed in VALIDATION:
            self.run(seed, "contrastive", 0.0)
        for seed in VALIDATION:
            for method, grid in grids_of(self.world, self.name).items():
                for weight in grid:
                    self.run(seed, method, weight)
        for method in grids_of(self.world, self.name):
            while (further := next_value(self.journal, self.world, self.name, method)) is not None:
                for seed in VALIDATION:
                    self.run(seed, method, further)
        return chosen(self.journal, self.world, self.name)


def tried(journal: Journal, world: str, encoder: str, method: str) -> dict[float, tuple[float, float]]:
    """Mean group score and R@1 on the validation seeds, by weight."""
    rows = [row for row in journal.find(world=world, encoder=encoder, method=method) if row["seed"] in VALIDATION]
    by_weight: dict[float, list[dict[str, float]]] = {}
    for row in rows:
        by_weight.setdefault(row["weight"], []).append(row["scores"])
    full = {weight: scores for weight, scores in sorted(by_weight.items()) if len(scores) == len(VALIDATION)}
    return {
        weight: (statistics.fmean(row["group"] for row in scores), statistics.fmean(row["r1"] for row in scores))
        for weight, scores in full.items()
    }


def best(journal: Journal, world: str, encoder: str, method: str) -> float:
    """The weight that the first point of the rule takes."""
    values = tried(journal, world, encoder, method)
    least = tried(journal, world, encoder, "contrastive")[0.0][1] - LOSS_ALLOWED
    fine = [weight for weight, (_, r1) in values.items() if r1 >= least]
    return max(fine or values, key=lambda weight: values[weight][0 if fine else 1])


def next_value(journal: Journal, world: str, encoder: str, method: str) -> float | None:
    """The value past the end at which the best one lies, or None where it lies inside or enough were tried."""
    weights = list(tried(journal, world, encoder, method))
    at = weights.index(best(journal, world, encoder, method))
    if 0 < at < len(weights) - 1 or len(weights) >= MOST_TRIED:
        return None
    return weights[0] / 4 if at == 0 else weights[-1] * 4


def chosen(journal: Journal, world: str, encoder: str) -> dict[str, float]:
    """The weight of each method that goes to the test seeds."""
    searched = [method for method in grids_of(world, encoder) if tried(journal, world, encoder, method)]
    return {"contrastive": 0.0} | {method: best(journal, world, encoder, method) for method in searched}


def machine() -> dict[str, str]:
    """What the runs were made on."""
    model = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    return {
        "processor": model.partition(":")[2].strip(),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "micro-clip": hashlib.sha256((FILES / "weights.safetensors").read_bytes()).hexdigest()[:12],
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="test seeds")
    parser.add_argument("--cell", nargs=2, metavar=("WORLD", "ENCODER"), help="only this one")
    parser.add_argument("--pictures", type=Path, help="folder that floor.py made")
    parser.add_argument("--output", type=Path, default=RESULTS / "eqsim_proof.jsonl")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    journal = Journal(settings.output)
    settings.output.with_suffix(".machine.json").write_text(json.dumps(machine(), indent=1) + "\n", encoding="utf-8")
    cells = [tuple(settings.cell)] if settings.cell else CELLS
    benches = [Bench(journal, world, encoder, settings.pictures) for world, encoder in cells]
    for bench in benches:
        if bench.world == "kubric" and settings.pictures is None:
            sys.exit("the kubric world needs --pictures FOLDER: run floor.py FOLDER raster first")
    for bench in benches:
        weights = bench.search()
        print(f"{bench.world}, {bench.name}: chosen {weights}", flush=True)
        for seed in range(FIRST_TEST, FIRST_TEST + settings.seeds):
            for method in (*METHODS, *TRANSFER):
                if method in weights:
                    bench.run(seed, method, weights[method])


if __name__ == "__main__":
    main()
