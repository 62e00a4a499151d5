"""Items: 5 % of a made-up benchmark's items against the known score of models that took no part.

Outcomes are drawn from the two-parameter model itself: abilities N(0, 1), log slopes
N(log 2, .4), difficulties N(0, 1.2).
"""

from __future__ import annotations

import time

import numpy as np
from _setting import record

from eevee import Outcomes, choose_items, estimate
from eevee.items.irt import sigmoid


def main() -> None:
    result: dict[str, object] = {}
    for models, items in ((60, 5_000), (60, 20_000)):
        generator = np.random.default_rng(0)
        able, slope = generator.normal(size=models + 100), 2 * np.exp(generator.normal(0, 0.4, items))
        chance = sigmoid(slope * (able[:, None] - generator.normal(0, 1.2, items)))
        values = (generator.random(chance.shape) < chance).astype(float)
        ids = tuple(map(str, range(items)))
        clock = time.process_time()
        known = Outcomes("made up", tuple(f"m{i}" for i in range(models)), ids, values[:models])
        chosen = choose_items({"made up": known}, share=0.05).benchmarks["made up"]
        seconds = time.process_time() - clock
        places = [int(key) for key in chosen.items]
        truth = values[models:].mean(1)
        found = [estimate(chosen, {str(j): row[j] for j in places}) for row in values[models:]]
        off = np.array([one.value for one in found]) - truth
        result[f"{models} models, {items} items"] = {
            "chosen": len(chosen.items),
            "method": chosen.method,
            "said by folds, points": {name: round(100 * error, 2) for name, error in chosen.errors.items()},
            "RMSE on 100 new models, points": round(100 * float(np.sqrt((off**2).mean())), 2),
            "of a plain mean of so many random items": round(
                100 * float(np.sqrt((truth * (1 - truth)).mean() / len(places))), 2
            ),
            "coverage of 90 %": float(np.mean([a.low <= t <= a.high for a, t in zip(found, truth, strict=True)])),
            "processor_seconds": round(seconds, 1),
        }
        record("items", result)


if __name__ == "__main__":
    main()
