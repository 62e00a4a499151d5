"""Tables and the picture of what `run.py` has finished: python experiments/eqsim_proof/report.py.

Differences are paired by seed, over the seeds that both methods have. Intervals are Student's t at 95 %, and for the
sentence below a table at 95 % over all of its comparisons (Bonferroni).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from data import FIRST_TEST
from methods import GRIDS, METHODS, TRANSFER
from run import CELLS, CONFIRMED, CONFIRMED_CELLS, RESULTS, VALIDATION, Journal, chosen, next_value, tried
from scipy.stats import t as student

NAMES = {
    "contrastive": "contrastive",
    "upweighted": "contrastive, known negatives upweighted",
    "negclip": "NegCLIP",
    "fsc": "FSC-CLIP's calibration",
    "v2": "EqSim v2, known pairs",
    "hybrid": "EqSim hybrid, known pairs",
    "pair": "PairLoss",
    "relative": "EqSim relative",
    "growing": "upweighted, from once to so many times over the steps",
    "swapped": "NegCLIP with the sides of relations exchanged",
    "swaps": "upweighted, and sides exchanged",
    "growing swaps": "both, growing",
}
CELL_NAMES = {
    ("kubric", "heads"): "Kubric's floor scenes, drawn flat; heads from random weights on frozen micro-clip",
    ("micro", "heads"): "the micro world; heads from random weights on frozen micro-clip",
    ("micro", "micro-clip"): "the micro world; micro-clip's last image block and text tower, fine-tuned",
    ("numerals", "micro-clip"): "handwritten numerals; micro-clip's last image block and text tower, fine-tuned",
    (
        "kubric",
        "micro-clip",
    ): "Kubric's floor scenes; micro-clip's last image block and text tower, fine-tuned",
}
COLUMNS = ("group/attribute", "group/count", "group", "group/relation", "r1")
Rows = dict[str, dict[int, dict[str, Any]]]


def interval(values: list[float], comparisons: int = 1) -> tuple[float, float]:
    """Mean and half the width of its interval."""
    if len(values) < 2:
        return (values[0] if values else math.nan), math.nan
    wide = float(student.ppf(1 - 0.025 / comparisons, len(values) - 1))
    return statistics.fmean(values), wide * statistics.stdev(values) / math.sqrt(len(values))


def tested(journal: Journal, world: str, encoder: str) -> Rows:
    """Rows of the test seeds, by method and seed."""
    rows: Rows = {}
    for row in journal.find(world=world, encoder=encoder):
        if row["seed"] >= FIRST_TEST:
            rows.setdefault(row["method"], {})[row["seed"]] = row
    return rows


def differences(rows: Rows, method: str, against: str, score: str) -> list[float]:
    """In points, one for each seed that both have."""
    shared = sorted(set(rows.get(method, {})) & set(rows.get(against, {})))
    return [100 * (rows[method][s]["scores"][score] - rows[against][s]["scores"][score]) for s in shared]


def with_interval(values: list[float], comparisons: int = 1) -> str:
    """A mean with half its interval."""
    mean, half = interval(values, comparisons)
    return "" if not values else f"{mean:+.1f}" + ("" if math.isnan(half) else f" ± {half:.1f}")


def table(journal: Journal, world: str, encoder: str) -> list[str]:
    """One row for each method: the searched weights, means in per cent, and differences."""
    lines = [f"### {CELL_NAMES[world, encoder]}", ""]
    rows = tested(journal, world, encoder)
    if not rows:
        done = len(journal.find(world=world, encoder=encoder))
        return [*lines, f"No test seed was run; {done} runs of its search were.", ""]
    heads = ["weight, of those tried", "seeds", "attribute", "count", "both", "relation, held out", "R@1"]
    heads += [
        "both, less contrastive",
        "less upweighted",
        "relation, less contrastive",
        "R@1, less contrastive",
        "time",
    ]
    lines += ["| loss | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    weights = chosen(journal, world, encoder)
    plain = statistics.median(row["seconds"] for row in rows["contrastive"].values())
    for method in (*METHODS, *TRANSFER):
        if method not in rows:
            continue
        values = ", ".join(f"{weight:g}" for weight in tried(journal, world, encoder, method))
        edge = "" if method == "contrastive" or next_value(journal, world, encoder, method) is None else " (unfinished)"
        cells = ["" if method == "contrastive" else f"{weights[method]:g} of {values}{edge}", str(len(rows[method]))]
        scores = [row["scores"] for row in rows[method].values()]
        cells += [f"{100 * statistics.fmean(score[column] for score in scores):.1f}" for column in COLUMNS]
        for against, score in (("contrastive", "group"), ("upweighted", "group")):
            cells.append("" if method == against else with_interval(differences(rows, method, against, score)))
        for score in ("group/relation", "r1"):
            cells.append(
                "" if method == "contrastive" else with_interval(differences(rows, method, "contrastive", score))
            )
        cells.append(f"{statistics.median(row['seconds'] for row in rows[method].values()) / plain:.2f}")
        lines.append(f"| {NAMES[method]} | " + " | ".join(cells) + " |")
    corrected = len(CONFIRMED) - 1 if (world, encoder) in CONFIRMED_CELLS else len(GRIDS)
    ahead = []
    for method in ("v2", "hybrid", "pair", "relative"):
        mean, half = interval(differences(rows, method, "upweighted", "group"), corrected)
        if mean - half > 0:
            ahead.append(NAMES[method])
    verdict = " and ".join(ahead) if ahead else "no form of EqSim and no PairLoss"
    lines += [
        "",
        f"Ahead of the upweighted contrastive loss by an interval above 0, over {corrected} comparisons: {verdict}.",
    ]
    moved = []
    for method in rows:
        mean, half = interval(differences(rows, method, "contrastive", "group/relation"), len(rows) - 1)
        if method != "contrastive" and mean - half > 0:
            moved.append(f"{NAMES[method]} ({mean:+.1f} ± {half:.1f})")
    verdict = " and ".join(moved) if moved else "none"
    lines += ["", f"Moves the held-out kind by an interval above 0, over {len(rows) - 1} comparisons: {verdict}."]
    return [*lines, ""]


def picture(journal: Journal, path: Path) -> None:
    """Group score against retrieval in each cell that has test seeds: means and 95 % intervals."""
    cells = [cell for cell in CELLS if tested(journal, *cell)]
    figure, axes = plt.subplots(1, len(cells), figsize=(5.5 * len(cells), 5.4), squeeze=False)
    for axis, cell in zip(axes[0], cells, strict=True):
        for method, rows in tested(journal, *cell).items():
            scores = [row["scores"] for row in rows.values()]
            x, y = (interval([100 * score[name] for score in scores]) for name in ("r1", "group"))
            axis.errorbar(x[0], y[0], xerr=x[1], yerr=y[1], fmt="o", capsize=2, label=f"{NAMES[method]}, n={len(rows)}")
        axis.set_title(f"{cell[0]}, {cell[1]}")
        axis.set_xlabel("R@1, both ways, per cent")
        axis.set_ylabel("group score of attribute and count pairs, per cent")
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2)  # below: over no point
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, default=RESULTS / "eqsim_proof.jsonl")
    settings = parser.parse_args()
    journal = Journal(settings.input)
    machine = json.loads(settings.input.with_suffix(".machine.json").read_text(encoding="utf-8"))
    lines = [
        f"Made by `experiments/eqsim_proof`: {len(journal.rows)} trainings, one thread of {machine['processor']},",
        f"torch {machine['torch']}, micro-clip {machine['micro-clip']}, {machine['date']}. Weights were chosen on the",
        f"validation seeds {' and '.join(map(str, VALIDATION))} by the rule in `run.py`, among the values that are",
        "named. Group scores and R@1 in per cent; chance is 16.7 for a group. Differences in points are paired by",
        "seed, with half of their 95 % interval; no method was trained on pairs of the kind `relation`. Time is",
        "processor time over the contrastive loss's; NegCLIP and FSC-CLIP encode half as many texts again.",
        "",
    ]
    for world, encoder in CELLS:
        lines += table(journal, world, encoder)
    text = "\n".join(lines).rstrip("\n") + "\n"
    settings.input.with_suffix(".md").write_text(text, encoding="utf-8")
    picture(journal, settings.input.with_suffix(".svg"))
    print(text)


if __name__ == "__main__":
    main()
