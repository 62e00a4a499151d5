"""Tables and the picture of what `run.py` has finished: python experiments/eqsim_proof/report.py.

Differences are paired by seed. Intervals are Student's t at 95 %, and at 95 % over all comparisons with the contrastive
loss in a table (Bonferroni).
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
from run import FIRST_TEST, RESULTS, VALIDATION, Ledger, choose
from scipy.stats import t as student

NAMES = {
    "": "contrastive",
    "hinge": "VSE++ hinge",
    "cyclip": "CyCLIP",
    "v1": "EqSim v1, all pairs",
    "v2": "EqSim v2, known pairs",
    "hybrid": "EqSim hybrid, known pairs",
    "pair": "PairLoss",
    "relative": "EqSim relative",
    "pair-mined": "PairLoss, mined",
    "relative-mined": "EqSim relative, mined",
    "v2-mined": "EqSim v2, mined",
}
SETTINGS = {
    "main": "32 known pairs in 128",
    "few": "4 known pairs in 128",
    "none": "no known pairs, neighbours mined",
    "count-only": "count pairs only (attribute and relation held out)",
    "attribute-only": "attribute pairs only (count and relation held out)",
}
COLUMNS = ("group/attribute", "group/count", "group/relation", "group", "r1")


def label(terms: dict[str, float]) -> str:
    return "contrastive" if not terms else "+ " + " + ".join(f"{NAMES[name]} ({w:g})" for name, w in terms.items())


def interval(values: list[float], comparisons: int = 1) -> tuple[float, float]:
    """Mean and half the width of its interval."""
    if len(values) < 2:
        return values[0], math.nan
    wide = float(student.ppf(1 - 0.025 / comparisons, len(values) - 1))
    return statistics.fmean(values), wide * statistics.stdev(values) / math.sqrt(len(values))


def arms(rows: list[dict[str, Any]], setting: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = []
    for row in rows:
        if row["setting"] == setting and row["terms"] not in found:
            found.append(row["terms"])
    return sorted(found, key=lambda terms: (bool(terms), len(terms), list(NAMES).index(next(iter(terms), ""))))


def table(ledger: Ledger, setting: str, tests: list[dict[str, Any]]) -> list[str]:
    """One row for each arm: means in per cent, and differences to the contrastive loss on the same seeds."""
    found = arms(tests, setting)
    if not found:
        return [f"{SETTINGS[setting]}: not run.", ""]
    comparisons = max(len(found) - 1, 1)
    heads = ["seeds", "attribute", "count", "relation", "mean of the first two", "R@1"]
    heads += ["group, difference", "corrected", "R@1, difference"]
    lines = [f"### {SETTINGS[setting]}", "", "| loss | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    start = [row["scores"] for row in tests if row["setting"] == "start"]
    if setting == "main":
        cells = [f"{100 * statistics.fmean(row[column] for row in start):.1f}" for column in COLUMNS]
        lines.append(f"| before training | {len(start)} | " + " | ".join(cells) + " | | | |")
    base = {row["seed"]: row["scores"] for row in tests if row["setting"] == setting and not row["terms"]}
    for terms in found:
        rows = {r["seed"]: r["scores"] for r in tests if r["setting"] == setting and r["terms"] == terms}
        cells = [str(len(rows))]
        cells += [f"{100 * statistics.fmean(row[column] for row in rows.values()):.1f}" for column in COLUMNS]
        shared = sorted(set(rows) & set(base))
        if terms and shared:
            group = [100 * (rows[seed]["group"] - base[seed]["group"]) for seed in shared]
            recall = [100 * (rows[seed]["r1"] - base[seed]["r1"]) for seed in shared]
            mean, half = interval(group)
            cells += [f"{mean:+.1f} ± {half:.1f}", f"± {interval(group, comparisons)[1]:.1f}"]
            mean, half = interval(recall)
            cells.append(f"{mean:+.1f} ± {half:.1f}")
        else:
            cells += ["", "", ""]
        lines.append(f"| {label(terms)} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def by_kind(tests: list[dict[str, Any]]) -> list[str]:
    """What each arm does to M, |d| and |a| of fresh pairs."""
    heads = ["M", "median of d", "median of a", "M above 0"]
    lines = ["### What moves: count pairs", "", "| loss | " + " | ".join(heads) + " |", "|---" * 5 + "|"]
    for terms in arms(tests, "main"):
        rows = [row["scores"] for row in tests if row["setting"] == "main" and row["terms"] == terms]
        cells = [f"{statistics.fmean(row[f'{name}/count'] for row in rows):.3f}" for name in ("M", "d", "a")]
        above = 100 * statistics.fmean(row["M>0/count"] for row in rows)
        lines.append(f"| {label(terms)} | " + " | ".join(cells) + f" | {above:.1f} % |")
    return [*lines, "", "Medians over pairs of M, |d| and |a| in units of the cosine, means over seeds.", ""]


def picture(ledger: Ledger, tests: list[dict[str, Any]], path: Path) -> None:
    """Group score against retrieval: each arm with its intervals, and the search on the validation seed beside it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 6.4))
    left.set_prop_cycle(color=plt.get_cmap("tab20").colors[::2] + plt.get_cmap("tab20").colors[1::2])
    for terms in arms(tests, "main"):
        rows = [row["scores"] for row in tests if row["setting"] == "main" and row["terms"] == terms]
        x, y = (interval([100 * row[name] for row in rows]) for name in ("r1", "group"))
        left.errorbar(x[0], y[0], xerr=x[1], yerr=y[1], fmt="o", capsize=2, label=f"{label(terms)}, n={len(rows)}")
    left.set_title("test seeds, means and 95 % intervals")
    searched = [row for row in ledger.rows if row["seed"] in VALIDATION and row["setting"] == "main"]
    for name in ("hinge", "cyclip", "v1", "v2", "hybrid", "pair", "relative"):
        rows = sorted((row for row in searched if list(row["terms"]) == [name]), key=lambda row: row["terms"][name])
        points = [(100 * row["scores"]["r1"], 100 * row["scores"]["group"]) for row in rows]
        right.plot(*zip(*points, strict=True), "o-", label=NAMES[name])
        for row, point in zip(rows, points, strict=True):
            right.annotate(f"{row['terms'][name]:g}", point, fontsize=7)
    plain = next(row["scores"] for row in searched if not row["terms"])
    right.plot(100 * plain["r1"], 100 * plain["group"], "k*", markersize=12, label="contrastive")
    right.set_title("validation seed: every weight that was tried")
    for axis in (left, right):
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
    ledger = Ledger(settings.input)
    tests = [row for row in ledger.rows if row["seed"] >= FIRST_TEST]
    machine = json.loads(settings.input.with_suffix(".machine.json").read_text(encoding="utf-8"))
    seconds = [row["seconds"] for row in ledger.rows if row["seconds"]]
    chosen = ", ".join(f"{NAMES[name]} {value:g}" for name, value in choose(ledger).items())
    lines = [
        f"Made by `experiments/eqsim_proof`: {len(seconds)} trainings of {statistics.median(seconds):.0f} processor",
        f"seconds (median), one thread of {machine['processor']}, torch {machine['torch']}, micro-clip",
        f"{machine['micro-clip']}, {machine['date']}. Chosen on the validation seed, of three values each:",
        f"{chosen}; the rule is `choose` in `run.py`.",
        "In brackets is the weight of PairLoss and of the relative form; for the others it is the norm of the gradient",
        "over the contrastive loss's on the first batch. Group scores and R@1 in per cent; chance is 16.7 and 0.25.",
        "Differences are to the contrastive loss on the same seeds and batches, with half of their 95 % interval;",
        "`corrected` is that half width at 95 % over all comparisons of the table.",
        "",
    ]
    for setting in SETTINGS:
        lines += table(ledger, setting, tests)
    lines += by_kind(tests)
    text = "\n".join(lines).rstrip("\n") + "\n"
    settings.input.with_suffix(".md").write_text(text, encoding="utf-8")
    picture(ledger, tests, settings.input.with_suffix(".svg"))
    print(text)


if __name__ == "__main__":
    main()
