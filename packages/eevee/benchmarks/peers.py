"""Our estimates beside those of ppi-python, catsim and py-irt, on the same made-up models and items.

    pip install ppi-python catsim
    pip install --no-deps py-irt pyro-ppl pyro-api opt-einsum ordered-set toml   # py-irt 0.6.6 asks for typer < 0.15
    python packages/eevee/benchmarks/peers.py [--models 300] [--adaptive 60]

Outcomes, models and shares are those of `safe.py`. Both get the outcomes on so many of the 5,000 items and the
two-parameter model's prediction of all of them: ours on our draw, at even steps of the items' ease; ppi-python
(power-tuned, `ppi_mean_pointestimate` and `ppi_mean_ci`) on that draw, and on items drawn evenly, which it assumes.
Reported are the error and the share of 90 % intervals that hold the mean over all items, with half their width.

catsim is the peer of the adaptive test: it asks for the items of most information at the ability that the answers so
far give (`MaxInfoSelector`, `NumericalSearchEstimator`), 100 of 5,000, one by one. Its score is the mean of the answers
and of the items' model at that ability; it has no interval. Ours asks for as many, by blocks.

py-irt is the peer of the items' model: its two-parameter model with hierarchical priors, --steps of variational
inference on the same 60 models. Both adaptive tests are run with its slopes and offsets, too. With --fit, the two fits
alone are compared, and the other rows stay.
"""

from __future__ import annotations

import argparse
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _item_world import ITEMS, item_world_outcomes, rmse
from _setting import earlier, record
from safe import KINDS, TOGETHER, new_models, predicted

from eevee.items.adaptive import AdaptiveTest
from eevee.items.drawing import corrected_mean, draw_items
from eevee.items.irt import Irt, fit_irt

SHARES = (0.02, 0.05)


def by_ppi(outcomes, chance, places):
    """Point estimate and ends of the 90 % interval of each model."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    remaining = np.setdiff1d(np.arange(ITEMS), places)
    rows = []
    for values, expected in zip(outcomes, chance, strict=True):
        parts = values, expected[places], expected[remaining]
        low, high = ppi_mean_ci(*parts, alpha=0.1)
        rows.append([float(np.squeeze(part)) for part in (ppi_mean_pointestimate(*parts), low, high)])
    return np.array(rows).T


def by_catsim(irt, values, size):
    """Mean over all items as the answers to the most informative ones and the items' model give it."""
    from catsim.estimation import NumericalSearchEstimator
    from catsim.item_bank import ItemBank
    from catsim.selection import MaxInfoSelector

    slope = np.maximum(irt.slope, 1e-3)
    bank = ItemBank(np.column_stack([slope, -irt.offset / slope, np.zeros(ITEMS), np.ones(ITEMS)]))
    selector, estimator = MaxInfoSelector(), NumericalSearchEstimator()
    given, answers, ability = [], [], 0.0
    for _ in range(size):
        item = selector.select(item_bank=bank, administered_items=given, est_theta=ability)
        given.append(int(item))
        answers.append(bool(values[item]))
        ability = estimator.estimate(
            item_bank=bank, administered_items=given, response_vector=answers, est_theta=ability
        )
    chance = irt.probability(np.array([ability]))[0]
    chance[given] = answers
    return float(chance.mean())


def by_py_irt(values, steps):
    """The items' parameters as py-irt fits them."""
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    models, items = (dict(enumerate(map(str, range(count)))) for count in values.shape)
    data = Dataset(
        item_ids=set(items.values()),
        subject_ids=set(models.values()),
        item_id_to_ix={key: at for at, key in items.items()},
        ix_to_item_id=items,
        subject_id_to_ix={key: at for at, key in models.items()},
        ix_to_subject_id=models,
        observation_subjects=np.repeat(np.arange(len(models)), len(items)).tolist(),
        observation_items=np.tile(np.arange(len(items)), len(models)).tolist(),
        observations=values.ravel().tolist(),
        training_example=[True] * values.size,
    )
    settings = IrtConfig(model_type="2pl", priors="hierarchical", epochs=steps)
    trainer = IrtModelTrainer(data_path=None, config=settings, dataset=data, verbose=False)
    trainer.train(device="cpu")
    ability, hard, slope = (np.array(trainer.last_params[key]) for key in ("ability", "diff", "disc"))
    # All signs exchanged say the same: abilities are higher for the better models.
    sign = 1.0 if np.corrcoef(ability, values.mean(1))[0, 1] >= 0 else -1.0
    mean, spread = ability.mean(), ability.std()  # abilities as ours: N(0, 1) over the models
    return Irt(sign * slope * spread, slope * (mean - hard), sign * (ability - mean) / spread)


def fitted_by_both(slope, hard, outcomes, steps):
    """The items' model of py-irt, and a row on both fits: their seconds, and how far they recover the truth."""
    irts, row = {}, {"py-irt, steps": steps}
    for name in ("ours", "py-irt"):
        start = time.process_time()
        irts[name] = fit_irt(outcomes) if name == "ours" else by_py_irt(outcomes, steps)
        row[f"{name}, CPU seconds"] = round(time.process_time() - start, 1)
        usable = np.abs(irts[name].slope) > 1e-3
        row[f"{name}, correlation of slopes"] = round(float(np.corrcoef(irts[name].slope, slope)[0, 1]), 3)
        offsets = np.corrcoef(irts[name].offset[usable], (-slope * hard)[usable])[0, 1]
        row[f"{name}, correlation of offsets"] = round(float(offsets), 3)
    return irts["py-irt"], row


def by_blocks(irt, values, size, seed):
    """Estimate and ends of our adaptive test after as many items."""
    test = AdaptiveTest(ITEMS, until=0, most=size, slope=irt.slope, offset=irt.offset, seed=seed)
    while block := test.next_block():
        test.tell(values[block])
    return test.known()


def adaptive(slope, hard, irt, theirs, models):
    """Both adaptive tests on each kind of new model, with our items' model and with py-irt's."""
    size, result = 100, {}
    for number, kind in enumerate(KINDS):
        values, _ = new_models(kind, models, slope, hard, np.random.default_rng(10 + number))
        truth = values.mean(1)
        known = [by_blocks(irt, row, size, seed) for seed, row in enumerate(values)]
        rivals = np.array([by_catsim(irt, row, size) for row in values])
        blocks = [by_blocks(theirs, row, size, seed).value for seed, row in enumerate(values)]
        both = np.array([by_catsim(theirs, row, size) for row in values])
        held = [row.low <= mean <= row.high for row, mean in zip(known, truth, strict=True)]
        result[f"{kind}, 100 items, adaptive"] = {
            "ours, RMSE, points": rmse(np.array([row.value for row in known]) - truth),
            "catsim, RMSE, points": rmse(rivals - truth),
            "ours on py-irt's items, RMSE, points": rmse(np.array(blocks) - truth),
            "catsim on py-irt's items, RMSE, points": rmse(both - truth),
            "ours, coverage of 90 %": round(float(np.mean(held)), 3),
            "models": models,
        }
        print(kind, result[f"{kind}, 100 items, adaptive"], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--adaptive", type=int, default=60, help="models of each kind for the adaptive tests")
    parser.add_argument("--steps", type=int, default=2000, help="of py-irt's fit")
    parser.add_argument("--fit", action="store_true", help="compare the fits alone")
    options = parser.parse_args()
    if any(find_spec(name) is None for name in ("ppi_py", "catsim", "py_irt")):
        raise SystemExit("the peers are not installed: see the first lines of this script")
    slope, hard, irt, outcomes = item_world_outcomes(np.random.default_rng(0))
    theirs, fits = fitted_by_both(slope, hard, outcomes, options.steps)
    print(fits, flush=True)
    if options.fit:
        rows = {"py-irt": version("py-irt"), "fit on 60 models": fits}
        record(Path(__file__).stem, earlier(Path(__file__).stem) | rows)
        return
    ease = irt.probability(irt.ability).mean(0)
    result: dict[str, object] = {"models": options.models, "items": ITEMS, "ppi-python": version("ppi-python")}
    result |= {"catsim": version("catsim"), "py-irt": version("py-irt"), "fit on 60 models": fits}
    result |= adaptive(slope, hard, irt, theirs, options.adaptive)
    for number, kind in enumerate(KINDS):
        generator = np.random.default_rng(1 + number)
        columns: dict[tuple[float, str], list[np.ndarray]] = {}
        for _ in range(0, options.models, TOGETHER):
            values, _ = new_models(kind, TOGETHER, slope, hard, generator)
            truth = values.mean(1)
            for share in SHARES:
                size = int(share * ITEMS)
                drawn = draw_items(ease, size, generator)
                even = np.sort(generator.choice(ITEMS, size, replace=False))
                outcomes, chance, known = predicted(irt, values, drawn)
                ours = corrected_mean(outcomes, chance[:, drawn], chance.mean(1), ITEMS, 0.9, known)
                others = predicted(irt, values, even)
                rows = {
                    "ours": ours,
                    "ppi-python, our draw": by_ppi(outcomes, chance, drawn),
                    "ppi-python, even draw": by_ppi(others[0], others[1], even),
                }
                for name, (value, low, high) in rows.items():
                    held = (low <= truth) & (truth <= high)
                    columns.setdefault((share, name), []).append(np.array([value - truth, held, (high - low) / 2]))
        for (share, name), blocks in columns.items():
            errors, held, half = np.concatenate(blocks, axis=1)
            row = {
                "RMSE, points": rmse(errors),
                "coverage of 90 %": round(float(held.mean()), 3),
                "mean half-width, points": round(100 * float(half.mean()), 2),
            }
            result[f"{kind}, {share:.0%}, {name}"] = row
            print(kind, share, name, row, flush=True)
    record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()
