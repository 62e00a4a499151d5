"""Adaptive tests and fixed sets of items on simulated models: how many items, how wrong, and how often intervals hold.

    python packages/eevee/benchmarks/adaptive.py [--simulations 1000]

Items follow the two-parameter model (log slopes N(log 2, .4), difficulties N(0, 1.2)); the item parameters are fitted
on 60 models, and each simulation draws a new model: one like these (ability N(0, 1)), one at the frontier (ability 2.5
to 3.5, above all that were seen), or one whose strengths are others (half of its outcomes do not follow the items). A
test of 5,000 items stops at a half-width of two points. `whenever it stops` is the share of simulations in which the
interval held at the stop, `at every look` in which it held at all looks. A fixed set is drawn with even chances, of as
many items as the adaptive tests asked on average; its estimates are AIPW's and the plain mean's. `items for the same
RMSE` is what a fixed set needs: by the exact variance of a plain mean, and by that of an even draw whose predictor
knows every true chance, which no estimate without bias from it goes below. `bound` are the items of Neyman's
allocation by these chances: no estimate without bias needs fewer for that RMSE; one that leans on the items' model can.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _item_world import ITEMS, item_world, rmse
from _setting import earlier, record

from eevee.items.adaptive import AdaptiveTest
from eevee.items.drawing import corrected_mean, draw_items
from eevee.items.irt import fit_abilities, information, sigmoid

UNTIL = 0.02
KINDS = ("like these", "frontier", "other strengths")


def fixed(irt, ease, values, size, generator):
    """AIPW's and the plain mean's error, and whether AIPW's interval holds."""
    places = draw_items(ease, size, generator)
    ability = fit_abilities(values[None, places], np.ones((1, size)), irt.slope[places], irt.offset[places])
    chance = irt.probability(ability)
    known = ability, information(ability, np.ones((1, size)), irt.slope[places], irt.offset[places])
    value, low, high = corrected_mean(values[None, places], chance[:, places], chance.mean(1), len(values), 0.9, known)
    plain = values[generator.choice(len(values), size, replace=False)].mean()
    return float(value[0]) - values.mean(), plain - values.mean(), low[0] <= values.mean() <= high[0]


def variance(spread: np.ndarray, size: float, *, even: bool) -> float:
    """Of the difference estimate whose predictor knows the true chances, with even chances or Neyman's."""
    share = np.full(len(spread), size / len(spread)) if even else size * spread / spread.sum()
    for _ in range(50):
        over = share >= 1
        if even or not over.any() or np.minimum(share, 1).sum() >= size - 1e-6:
            break
        share = np.where(over, 1.0, share * (size - over.sum()) / share[~over].sum())
    return float((spread**2 * (1 / np.minimum(share, 1) - 1)).sum()) / len(spread) ** 2


def items_for(error: float, spreads: list[np.ndarray], *, even: bool) -> int:
    """Items at which the mean variance over models is that of this error."""
    low, high = 2.0, float(ITEMS)
    while high - low > 1:
        middle = (low + high) / 2
        mean = np.mean([variance(spread, middle, even=even) for spread in spreads])
        low, high = (middle, high) if mean > error**2 else (low, middle)
    return int(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of models; the others' rows stay")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    slope, hard, irt = item_world(generator)
    ease = irt.probability(irt.ability).mean(0)
    result: dict[str, object] = earlier(Path(__file__).stem) | {
        "simulations": options.simulations,
        "items": ITEMS,
        "until, points": 100 * UNTIL,
    }
    for kind in options.kinds:
        generator = np.random.default_rng(1 + KINDS.index(kind))
        off, items, looks, held, always, models, spreads = [], [], [], [], [], [], []
        for number in range(options.simulations):
            ability = generator.uniform(2.5, 3.5) if kind == "frontier" else generator.normal()
            chance = sigmoid(slope * (ability - hard))
            if kind == "other strengths":
                chance = np.where(generator.random(ITEMS) < 0.5, chance, generator.permutation(chance))
            values = (generator.random(ITEMS) < chance).astype(float)
            models.append(values)
            spreads.append(np.maximum(np.sqrt(chance * (1 - chance)), 1e-6))
            test = AdaptiveTest(ITEMS, until=UNTIL, slope=irt.slope, offset=irt.offset, seed=number)
            holding = []
            while block := test.next_block():
                test.tell(values[block])
                score = test.known()
                holding.append(score.low <= values.mean() <= score.high)
            off.append(score.value - values.mean())
            items.append(score.items)
            looks.append(len(holding))
            held.append(holding[-1])
            always.append(all(holding))
        size, error = int(np.mean(items)), float(np.sqrt(np.mean(np.square(off))))
        fixed_sets = [fixed(irt, ease, values, size, generator) for values in models]
        plain = 1 / (error**2 / float(np.mean([values.mean() * (1 - values.mean()) for values in models])) + 1 / ITEMS)
        row = {
            "adaptive's items of the plain mean's": round(size / plain, 3),
            "adaptive": {
                "items, mean": size,
                "items, 10 to 90 % of models": np.quantile(items, [0.1, 0.9]).round().tolist(),
                "looks, mean": round(float(np.mean(looks)), 1),
                "RMSE, points": rmse(off),
                "coverage whenever it stops": round(float(np.mean(held)), 3),
                "coverage at every look": round(float(np.mean(always)), 3),
            },
            "fixed set of as many": {
                "RMSE of AIPW, points": rmse([aipw for aipw, _, _ in fixed_sets]),
                "RMSE of the plain mean, points": rmse([plain_off for _, plain_off, _ in fixed_sets]),
                "coverage of AIPW": round(float(np.mean([covered for _, _, covered in fixed_sets])), 3),
            },
            "items for the same RMSE": {
                "plain mean": int(plain),
                "even draw, true chances known": items_for(error, spreads[:100], even=True),
                "bound: Neyman's allocation, true chances known": items_for(error, spreads[:100], even=False),
            },
        }
        result[kind] = row
        print(kind, row, flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
