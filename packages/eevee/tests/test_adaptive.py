"""Adaptive tests: estimates without bias, intervals that hold at every look, and a stop when the score is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eevee import AdaptiveTest, EeveeError, Outcomes, adaptive_test, choose_items, estimate, read_items
from eevee.cli import main
from eevee.items.adaptive import PATHS, _Boundary
from eevee.items.irt import sigmoid


def bank(items=1500, seed=0):
    generator = np.random.default_rng(seed)
    return generator, 2 * np.exp(generator.normal(0, 0.4, items)), generator.normal(0, 2.0, items)


def administer(test, values):
    """The blocks' items, and what was known after each."""
    blocks, estimates = [], []
    while block := test.next_block():
        test.tell(values[block])
        blocks.append(block)
        estimates.append(test.known())
    return blocks, estimates


def test_it_stops_when_it_knows_and_its_intervals_hold_at_every_look():
    generator, slope, offset = bank()
    covered, off, items = [], [], []
    for number in range(60):
        ability = 3.0 if number % 3 == 0 else generator.normal()
        values = (generator.random(1500) < sigmoid(slope * ability + offset)).astype(float)
        test = AdaptiveTest(1500, until=0.04, slope=slope, offset=offset, seed=number)
        blocks, estimates = administer(test, values)
        answered = [item for block in blocks for item in block]
        assert len(set(answered)) == len(answered) == estimates[-1].items
        assert estimates[-1].high - estimates[-1].low <= 0.08
        assert all(a.low <= b.low <= b.high <= a.high for a, b in itertools.pairwise(estimates))
        covered.append(all(estimate.low <= values.mean() <= estimate.high for estimate in estimates))
        off.append(estimates[-1].value - values.mean())
        items.append(estimates[-1].items)
    assert np.mean(covered) >= 0.9
    assert np.mean(items) < 1000
    assert abs(np.mean(off)) < 3 * np.std(off) / np.sqrt(60)


@pytest.mark.long
def test_an_estimate_is_without_bias_whatever_the_bank_says():
    """The mean over draws of the first two blocks is the score also where the items' parameters are nonsense."""
    generator, slope, offset = bank(200)
    values = (generator.random(200) < 0.3).astype(float)
    guesses = []
    for seed in range(800):
        test = AdaptiveTest(200, until=0, slope=slope, offset=offset, most=80, seed=seed)
        administer(test, values)
        guesses.append(test._value)
    assert abs(np.mean(guesses) - values.mean()) < 4 * np.std(guesses) / np.sqrt(800)


def test_uncertain_items_are_asked_more_often():
    generator, slope, offset = bank()
    values = (generator.random(1500) < sigmoid(slope * 0.5 + offset)).astype(float)
    test = AdaptiveTest(1500, until=0, slope=slope, offset=offset, most=500)
    blocks, _ = administer(test, values)
    chance = sigmoid(slope * 0.5 + offset)
    unsure = np.sqrt(chance * (1 - chance))
    wanted = 0.7 * (unsure**2).mean() / unsure.mean() + 0.3 * unsure.mean()
    mean = np.mean(unsure[np.concatenate(blocks[1:])])
    assert (mean - unsure.mean()) > 0.5 * (wanted - unsure.mean()) > 0
    assert sum(map(len, blocks)) == 500


def test_every_item_asked_is_the_mean_itself():
    values = np.random.default_rng(0).random(50)
    test = AdaptiveTest(50, until=0)
    _, estimates = administer(test, values)
    assert estimates[-1] == (pytest.approx(values.mean()), estimates[-1].value, estimates[-1].value, 50)


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_missing_outcomes_leave_the_error_of_every_item_asked_at_nothing(direction):
    """They counted as 0, which is the best where lower outcomes are better, and the worst where higher ones are."""
    generator = np.random.default_rng(0)
    chance = sigmoid(np.add.outer(generator.normal(size=12), generator.normal(size=60)))
    values = (generator.random(chance.shape) < chance).astype(float)
    values[generator.random(values.shape) < 0.2] = np.nan
    toy = Outcomes(
        "toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(60)), values, direction=direction
    )
    bank = choose_items({"toy": toy}, method="adaptive", count=60).benchmarks["toy"]
    assert bank.error == pytest.approx(0, abs=1e-9)


def test_boundaries_are_crossed_as_often_as_was_spent():
    """Fresh paths cross the boundaries of four looks as often as the spending function says, and one look is normal."""
    times, shares = np.array([10.0, 30.0, 35.0, 100.0]), (0.1, 0.3, 0.35, 1.0)
    boundary = _Boundary(0.1)
    critical = [boundary.next(time, share) for time, share in zip(times, shares, strict=True)]
    steps = np.sqrt(np.diff(times, prepend=0.0)) * np.random.default_rng(1).standard_normal((PATHS, 4))
    crossed = (np.abs(steps.cumsum(1)) > critical * np.sqrt(times)).cumsum(1) > 0
    expected = 0.1 * (1 - np.exp(-2.5 * np.array(shares) ** 3))
    assert crossed.mean(0) == pytest.approx(expected, abs=4 * np.sqrt(0.1 / PATHS))
    assert critical[-1] < 1.85  # an interval that is looked at once has 1.645, a fixed mixture 2.8
    single = _Boundary(0.1).next(1.0, 10.0)
    assert single == pytest.approx(1.645, abs=0.03)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_model_that_solves_nothing_or_everything(share):
    test = AdaptiveTest(2000, until=0.03)
    _, estimates = administer(test, np.full(2000, share))
    assert estimates[-1].low <= share <= estimates[-1].high
    assert estimates[-1].items < 1500


def test_what_cannot_be_used():
    with pytest.raises(EeveeError, match=r"until is 1\.5"):
        AdaptiveTest(10, until=1.5)
    with pytest.raises(EeveeError, match="3 slopes and 10 offsets for 10 items"):
        AdaptiveTest(10, until=0.1, slope=np.ones(3))
    test = AdaptiveTest(100, until=0.1)
    block = test.next_block()
    with pytest.raises(EeveeError, match="were not told"):
        test.next_block()
    with pytest.raises(EeveeError, match="expected 40 numbers from 0 to 1"):
        test.tell([2.0] * len(block))
    with pytest.raises(EeveeError, match="expected 40 numbers from 0 to 1"):
        test.tell([1.0])


def test_a_bank_goes_through_its_file_and_the_command(tmp_path, capsys):
    generator, slope, offset = bank(300)
    chance = sigmoid(generator.normal(size=(12, 1)) * slope + offset)
    values = (generator.random(chance.shape) < chance).astype(float)
    np.savez(tmp_path / "o.npz", models=np.array([f"m{i}" for i in range(12)]), toy=values)
    file = tmp_path / "bank.json"
    assert main(["items", "--outcomes", str(tmp_path / "o.npz"), "--method", "adaptive", "--json", str(file)]) == 0
    assert "a bank of 300 items for adaptive tests" in capsys.readouterr().out
    benchmarks = read_items(file).benchmarks["toy"]
    assert len(benchmarks.items) == benchmarks.total == 300
    assert set(benchmarks.errors) == {"plain mean", "adaptive", "drawn", "anchors", "gp-IRT"}
    assert adaptive_test(benchmarks, until=0.1).next_block()
    whole = estimate(benchmarks, {key: float(v) for key, v in zip(benchmarks.items, values[0], strict=True)})
    assert whole.value == whole.low == whole.high == pytest.approx(values[0].mean())
    toy = Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(map(str, range(300))), values)
    with pytest.raises(EeveeError, match="items chosen by drawn; an adaptive test needs --method adaptive"):
        adaptive_test(choose_items({"toy": toy}).benchmarks["toy"], until=0.1)


def test_errors_of_better_models_are_held_out_from_worse_ones():
    generator, slope, offset = bank(400)
    chance = sigmoid(np.sort(generator.normal(size=20))[:, None] * slope + offset)
    values = (generator.random(chance.shape) < chance).astype(float)
    toy = Outcomes("toy", tuple(f"m{i}" for i in range(20)), tuple(map(str, range(400))), values)
    plain = choose_items({"toy": toy}, share=0.1).benchmarks["toy"]
    frontier = choose_items({"toy": toy}, share=0.1, holdout="frontier").benchmarks["toy"]
    assert plain.errors["drawn"] != frontier.errors["drawn"]
    best = np.argsort(values.mean(1))[10:]
    spread = values[best].var(1, ddof=1) * (1 / 40 - 1 / 400)
    assert frontier.errors["plain mean"] == pytest.approx(np.sqrt(spread.mean()))
    with pytest.raises(EeveeError, match="holdout 'date'; expected one of model, family, frontier"):
        choose_items({"toy": toy}, holdout="date")
    with pytest.raises(EeveeError, match="the names of its 20 models tell no families"):
        choose_items({"toy": toy}, holdout="family")
