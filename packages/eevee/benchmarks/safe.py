"""Coverage and error of the drawn items' estimate on simulated models, at 1 to 20 % of the items.

    python packages/eevee/benchmarks/safe.py [--models 1000]

Outcomes follow the two-parameter model (5,000 items; log slopes N(log 2, .4), difficulties N(0, 1.2)), fitted on 60
models. New models are like these (ability N(0, 1)), at the frontier (ability 2.5 to 3.5, above all that were seen), or
of other strengths (half of their outcomes do not follow the items). Every ten models share a draw of items. Beside
AIPW's error stand the plain mean's of as many random items (exactly, by its variance on the same models), and that of
tinyBenchmarks' anchors by clusters: their weighted mean, the two-parameter model's prediction from
them, and the mean of both, which is gp-IRT with an even mix. `least` is what an unbiased estimate from equal chances
can reach: the spread of outcomes around the true chances.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _item_world import ITEMS, item_world, rmse
from _setting import earlier, record

from eevee.items.drawing import choose_anchors, corrected_mean, draw_items
from eevee.items.irt import fit_abilities, information, sigmoid

TOGETHER = 10
KINDS = ("like these", "frontier", "other strengths")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)


def new_models(kind, count, slope, hard, generator):
    ability = generator.uniform(2.5, 3.5, (count, 1)) if kind == "frontier" else generator.normal(size=(count, 1))
    chance = sigmoid(slope * (ability - hard))
    if kind == "other strengths":
        shuffled = generator.permuted(chance, axis=1)
        chance = np.where(generator.random(chance.shape) < 0.5, chance, shuffled)
    return (generator.random(chance.shape) < chance).astype(float), chance


def predicted(irt, values, places):
    """Outcomes on some items, what the two-parameter model says of all items from them, and of whom it says so."""
    outcomes = values[:, places]
    slope, offset, everything = irt.slope[places], irt.offset[places], np.ones_like(outcomes)
    ability = fit_abilities(outcomes, everything, slope, offset)
    return outcomes, irt.probability(ability), (ability, information(ability, everything, slope, offset))


def by_anchors(irt, values, anchors, weights):
    """The anchors' weighted mean, the model's prediction, and the mean of both."""
    outcomes, chance, _ = predicted(irt, values, anchors)
    model = (outcomes.sum(1) + np.delete(chance, anchors, axis=1).sum(1)) / ITEMS
    return {"anchors": outcomes @ weights, "model": model, "gp-IRT": (outcomes @ weights + model) / 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of models; the others' rows stay")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    slope, hard, irt = item_world(generator)
    ease = irt.probability(irt.ability).mean(0)
    result: dict[str, object] = earlier(Path(__file__).stem) | {"models": options.models, "items": ITEMS}
    fixed = {share: choose_anchors(irt, int(share * ITEMS), generator) for share in SHARES}
    for kind in options.kinds:
        generator = np.random.default_rng(1 + KINDS.index(kind))
        errors: dict[float, dict[str, list[np.ndarray]]] = {share: {} for share in SHARES}
        for _ in range(0, options.models, TOGETHER):
            values, chances = new_models(kind, TOGETHER, slope, hard, generator)
            truth = values.mean(1)
            for share in SHARES:
                size = int(share * ITEMS)
                places = draw_items(ease, size, generator)
                outcomes, chance, known = predicted(irt, values, places)
                value, low, high = corrected_mean(outcomes, chance[:, places], chance.mean(1), ITEMS, 0.9, known)
                remainder = 1 / size - 1 / ITEMS
                row = {
                    "AIPW": value - truth,
                    "plain mean": np.sqrt(truth * (1 - truth) * remainder),
                    "least": np.sqrt((chances * (1 - chances)).mean(1) * remainder),
                    "covered": (low <= truth) & (truth <= high),
                    "half": (high - low) / 2,
                }
                estimates = by_anchors(irt, values, *fixed[share])
                row |= {f"{name} by clusters": guess - truth for name, guess in estimates.items()}
                for name, part in row.items():
                    errors[share].setdefault(name, []).append(part)
        for share, parts in errors.items():
            columns = {name: np.concatenate(blocks) for name, blocks in parts.items()}
            covered, half = columns.pop("covered"), columns.pop("half")
            points = {name: rmse(column) for name, column in columns.items()}
            result[f"{kind}, {share:.0%}"] = {
                "coverage of 90 %": round(float(covered.mean()), 3),
                "mean half-width, points": round(100 * float(half.mean()), 2),
                "RMSE, points": points,
                "AIPW's of the plain mean's": round(points["AIPW"] / points["plain mean"], 3),
                "AIPW's of gp-IRT's by clusters": round(points["AIPW"] / points["gp-IRT by clusters"], 3),
            }
            print(kind, share, result[f"{kind}, {share:.0%}"], flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
