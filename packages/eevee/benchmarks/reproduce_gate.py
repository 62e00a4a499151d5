"""Figures 3, 4 and 5 of the EEVEE paper from the shipped table; writes the figures that REPRODUCTION.md quotes.

Prints rank correlations and percentiles, writes a JSON file, and draws the three pictures as PNG beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _setting import RESULTS, record

from eevee import MlpScorer, RidgeScorer, load_table, published, score
from eevee.answers.evaluation import error_against_k, importance, kendall, predictiveness
from eevee.reports.charts import draw_bars, draw_error_against_k, render


def spearman(a: list[str], b: list[str]) -> float:
    x, y = (np.array([order.index(key) for key in sorted(a)], dtype=float) for order in (a, b))
    return float(np.corrcoef(x, y)[0, 1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pictures", type=Path, default=RESULTS / "gate")
    folder = options.parse_args().pictures
    folder.mkdir(parents=True, exist_ok=True)
    table, paper = load_table("gate"), published()
    result: dict[str, object] = {"figure_3": {}, "tiers": {}, "combinations": {}}
    scorers = {"ridge": RidgeScorer(), "mlp": MlpScorer()}
    for name, scorer in scorers.items():
        alone = predictiveness(table, scorer=scorer)
        ours, theirs = list(alone), list(paper.single_order)
        result["figure_3"][name] = {
            "spearman": round(spearman(ours, theirs), 3),
            "kendall": round(kendall([ours.index(k) for k in theirs], list(range(len(theirs)))), 3),
            "best_five": ours[:5],
            "worst_five": ours[-5:],
        }
        result["tiers"][name] = {}
        for tier in ("small", "base", "big"):
            judged = score(table, paper.tiers[tier], scorer=scorer, randoms=1000 if name == "ridge" else 150)
            result["tiers"][name][tier] = {
                "error": round(judged.error, 4),
                "better_randoms": judged.better_randoms,
                "randoms": judged.randoms,
                "greedy_swap": round(judged.rival.error, 4) if name == "ridge" else None,
                "importance": {key: round(rise, 4) for key, rise in judged.importance.items()},
            }
        if name == "ridge":
            (folder / "figure_3.png").write_bytes(
                render(draw_bars(alone, "error when it is the only one (ridge)"), "png")
            )
    for k, benchmarks in paper.combinations.items():
        judged = score(table, benchmarks, randoms=1000)
        result["combinations"][k] = {"error": round(judged.error, 4), "better_randoms": judged.better_randoms}
    figure = draw_bars(
        importance(table, paper.tiers["small"]), "rise of the error without it (ridge, small tier)", digits=4
    )
    (folder / "figure_4_small.png").write_bytes(render(figure, "png"))
    errors = error_against_k(table, range(1, 27), method="greedy-swap")
    (folder / "figure_5.png").write_bytes(render(draw_error_against_k(errors), "png"))
    result["figure_5"] = {
        k: {"lowest": round(e[0], 4), "median_of_50": round(float(np.median(e)), 4)} for k, e in errors.items()
    }
    record("reproduce_gate", result)


if __name__ == "__main__":
    main()
