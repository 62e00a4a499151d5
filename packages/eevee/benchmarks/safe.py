"""Coverage and error of the drawn items' estimate on simulated models, at 1 to 20 % of the items.

    python packages/eevee/benchmarks/safe.py [--models 1000]

Outcomes follow the two-parameter model (5,000 items; log slopes N(log 2, .4), difficulties N(0, 1.2)), fitted on 60
models. New models are like these (ability N(0, 1)), at the frontier (ability 2.5 to 3.5, above all that were seen), or
of other strengths (half of their outcomes do not follow the items). Every twenty models share a draw of items. Beside
AIPW's error stand the plain mean's of as many random items, and those of anchors (by information), of the two-parameter
model's prediction from these, and of the mean of both, as gp-IRT mixes them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _item_world import ITEMS, item_world, rmse
from _setting import record

from eevee.items.anchors import choose_anchors
from eevee.items.drawing import corrected_mean, draw_items
from eevee.items.irt import fit_abilities, sigmoid

TOGETHER = 20
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)


def new_models(kind, count, slope, hard, generator):
    ability = generator.uniform(2.5, 3.5, (count, 1)) if kind == "frontier" else generator.normal(size=(count, 1))
    chance = sigmoid(slope * (ability - hard))
    if kind == "other strengths":
        other = generator.permuted(chance, axis=1)
        chance = np.where(generator.random(chance.shape) < 0.5, chance, other)
    return (generator.random(chance.shape) < chance).astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    slope, hard, irt = item_world(generator)
    ease = irt.probability(irt.ability).mean(0)
    result: dict[str, object] = {"models": options.models, "items": ITEMS}
    fixed = {share: choose_anchors(irt, int(share * ITEMS), "information", generator) for share in SHARES}
    for kind in ("like these", "frontier", "other strengths"):
        gathered: dict[float, list[np.ndarray]] = {share: [] for share in SHARES}
        for _ in range(0, options.models, TOGETHER):
            values = new_models(kind, TOGETHER, slope, hard, generator)
            truth = values.mean(1)
            for share in SHARES:
                size = int(share * ITEMS)

                def told(places, values=values):
                    asked = values[:, places]
                    ability = fit_abilities(asked, np.ones_like(asked), irt.slope[places], irt.offset[places])
                    return asked, irt.probability(ability)

                places = draw_items(ease, size, generator)
                asked, chance = told(places)
                value, low, high = corrected_mean(asked, chance[:, places], chance.mean(1), ITEMS, 0.9)
                anchors, weights = fixed[share]
                answers, by_anchors = told(anchors)
                model = (answers.sum(1) + np.delete(by_anchors, anchors, axis=1).sum(1)) / ITEMS
                plain = values[:, generator.choice(ITEMS, size, replace=False)].mean(1)
                parts = (value, plain, answers @ weights, model, (answers @ weights + model) / 2)
                inside = (low <= truth) & (truth <= high)
                gathered[share].append(np.stack([*(part - truth for part in parts), inside, high - low]))
        for share, blocks in gathered.items():
            off = np.concatenate(blocks, axis=1)
            names = ("AIPW", "plain mean", "anchors", "two-parameter model", "their mean, as gp-IRT")
            result[f"{kind}, {share:.0%}"] = {
                "coverage of 90 %": round(float(off[5].mean()), 3),
                "mean half-width, points": round(50 * float(off[6].mean()), 2),
                "RMSE, points": {name: rmse(off[number]) for number, name in enumerate(names)},
            }
            print(kind, share, result[f"{kind}, {share:.0%}"], flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
