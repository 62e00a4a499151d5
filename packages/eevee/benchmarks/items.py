"""Items: 5 % of a made-up benchmark's items against the known score of models that took no part.

Outcomes are drawn from the two-parameter model itself: abilities N(0, 1), log slopes
N(log 2, .4), difficulties N(0, 1.2). Beside the error stands what no method can go below by much: the posterior mean of
somebody who knows every item's parameters and asks the items that leave the score least uncertain.
"""

from __future__ import annotations

import time

import numpy as np
from _setting import record

from eevee import Outcomes, choose_items, estimate
from eevee.items.irt import sigmoid


def knowing(values, truth, slope, hard, count):
    """RMSE, in points, of the posterior mean score given the true parameters and `count` items chosen by them."""
    grid = np.linspace(-4, 4, 161)
    chance = sigmoid(slope * (grid[:, None] - hard)).clip(1e-12, 1 - 1e-12)
    information = slope**2 * chance * (1 - chance)  # information about the ability, at each ability and item
    steep = (slope * chance * (1 - chance)).mean(1) ** 2 * np.exp(-(grid**2) / 2)
    precision, places = np.ones(len(grid)), []
    for _ in range(count):  # the item that leaves the least expected variance of the score
        gain = (steep / precision**2) @ information
        gain[places] = -1
        places.append(int(gain.argmax()))
        precision += information[:, places[-1]]
    unasked = np.setdiff1d(np.arange(len(slope)), places)
    outcomes = values[:, places]
    log = outcomes @ np.log(chance[:, places]).T + (1 - outcomes) @ np.log1p(-chance[:, places]).T - grid**2 / 2
    weight = np.exp(log - log.max(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    score = (outcomes.sum(1) + weight @ chance[:, unasked].sum(1)) / len(slope)
    return 100 * float(np.sqrt(((score - truth) ** 2).mean()))


def main() -> None:
    result: dict[str, object] = {}
    for models, items in ((60, 5_000), (60, 20_000)):
        generator = np.random.default_rng(0)
        able, slope = generator.normal(size=models + 100), 2 * np.exp(generator.normal(0, 0.4, items))
        hard = generator.normal(0, 1.2, items)
        chance = sigmoid(slope * (able[:, None] - hard))
        values = (generator.random(chance.shape) < chance).astype(float)
        ids = tuple(map(str, range(items)))
        clock = time.process_time()
        learnt = Outcomes("made up", tuple(f"m{i}" for i in range(models)), ids, values[:models])
        chosen = choose_items({"made up": learnt}, share=0.05).benchmarks["made up"]
        seconds = time.process_time() - clock
        places = [int(key) for key in chosen.items]
        truth = values[models:].mean(1)
        estimates = [estimate(chosen, {str(j): row[j] for j in places}) for row in values[models:]]
        off = np.array([guess.value for guess in estimates]) - truth
        result[f"{models} models, {items} items"] = {
            "chosen": len(chosen.items),
            "method": chosen.method,
            "said by folds, points": {name: round(100 * error, 2) for name, error in chosen.errors.items()},
            "RMSE on 100 new models, points": round(100 * float(np.sqrt((off**2).mean())), 2),
            "of one who knows the parameters": round(knowing(values[models:], truth, slope, hard, len(places)), 2),
            "of a plain mean of so many random items": round(
                100 * float(np.sqrt((truth * (1 - truth)).mean() / len(places))), 2
            ),
            "coverage of 90 %": float(np.mean([a.low <= t <= a.high for a, t in zip(estimates, truth, strict=True)])),
            "processor_seconds": round(seconds, 1),
        }
        record("items", result)


if __name__ == "__main__":
    main()
