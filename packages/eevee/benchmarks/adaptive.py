"""Adaptive tests and fixed sets of items on simulated models: how many items, how wrong, and how often intervals hold.

    python packages/eevee/benchmarks/adaptive.py [--simulations 1000]

Items follow the two-parameter model (log slopes N(log 2, .4), difficulties N(0, 1.2)); the item parameters are fitted
on 60 models, and each simulation draws a new model: one like these (ability N(0, 1)), one at the frontier (ability 2.5
to 3.5, above all that were seen), or one whose strengths are others (half of its outcomes do not follow the items). A
test of 5,000 items stops at a half-width of two points. `whenever it stops` is the share of simulations in which the
interval held at the stop, `at every look` in which it held at all looks. A fixed set is drawn with even chances, of as
many items as the adaptive tests asked on average, and of twice as many; its estimates are AIPW's and the plain mean's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _item_world import ITEMS, item_world, rmse
from _setting import record

from eevee.items.adaptive import AdaptiveTest
from eevee.items.drawing import corrected_mean, draw_items
from eevee.items.irt import fit_abilities, sigmoid

UNTIL = 0.02


def fixed(irt, ease, values, size, generator):
    """AIPW's and the plain mean's error, and whether AIPW's interval holds."""
    places = draw_items(ease, size, generator)
    ability = fit_abilities(values[None, places], np.ones((1, size)), irt.slope[places], irt.offset[places])
    chance = irt.probability(ability)
    found = corrected_mean(values[None, places], chance[:, places], chance.mean(1), len(values), 0.9)
    plain = values[generator.choice(len(values), size, replace=False)].mean()
    return float(found[0][0]) - values.mean(), plain - values.mean(), found[1][0] <= values.mean() <= found[2][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    slope, hard, irt = item_world(generator)
    ease = irt.probability(irt.ability).mean(0)
    result: dict[str, object] = {"simulations": options.simulations, "items": ITEMS, "until, points": 100 * UNTIL}
    for kind in ("like these", "frontier", "other strengths"):
        off, asked, held, always, models = [], [], [], [], []
        for number in range(options.simulations):
            ability = generator.uniform(2.5, 3.5) if kind == "frontier" else generator.normal()
            chance = sigmoid(slope * (ability - hard))
            if kind == "other strengths":
                chance = np.where(generator.random(ITEMS) < 0.5, chance, generator.permutation(chance))
            values = (generator.random(ITEMS) < chance).astype(float)
            models.append(values)
            test = AdaptiveTest(ITEMS, until=UNTIL, slope=irt.slope, offset=irt.offset, seed=number)
            good = True
            while block := test.next_block():
                test.tell(values[block])
                known = test.known()
                good &= known.low <= values.mean() <= known.high
            off.append(known.value - values.mean())
            asked.append(known.items)
            held.append(known.low <= values.mean() <= known.high)
            always.append(good)
        size = int(np.mean(asked))
        row = {
            "adaptive": {
                "items, mean": size,
                "items, 10 to 90 % of models": np.quantile(asked, [0.1, 0.9]).round().tolist(),
                "RMSE, points": rmse(off),
                "coverage whenever it stops": round(float(np.mean(held)), 3),
                "coverage at every look": round(float(np.mean(always)), 3),
            }
        }
        for label, count in (("as many", size), ("twice as many", min(2 * size, ITEMS))):
            tried = [fixed(irt, ease, values, count, generator) for values in models]
            row[f"fixed set of {label}"] = {
                "items": count,
                "RMSE of AIPW, points": rmse([one[0] for one in tried]),
                "RMSE of the plain mean, points": rmse([one[1] for one in tried]),
                "coverage of AIPW": round(float(np.mean([one[2] for one in tried])), 3),
            }
        result[kind] = row
        print(kind, row, flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
