"""Power: what the formula promises is what simulated paired tests see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gate_runner.comparison.power import power as power_of
from gate_runner.errors import UsageError
from gate_runner.runs.stored import read_run, read_runs
from paired_scores.paired import paired_test
from paired_scores.power import samples_needed

from ._folders import write_run


def test_the_promised_share_of_simulated_tests_sees_the_difference() -> None:
    rng = np.random.default_rng(0)
    gain, loss = 0.15, 0.07  # one model right alone, the other right alone: a difference of 8 points
    spread = float(np.sqrt(gain + loss - (gain - loss) ** 2))
    count = samples_needed(spread, gain - loss)
    significant = 0
    for _ in range(300):
        drawn = rng.random(count)
        first = (drawn >= gain).astype(float)
        second = (drawn < 1 - loss).astype(float)
        significant += paired_test("acc@1", [first], [second], resamples=1, permutations=999).p < 0.05
    assert abs(significant / 300 - 0.8) < 3 * np.sqrt(0.8 * 0.2 / 300)


def test_two_runs_give_the_closed_form_of_paired_proportions(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, {"digits": skill}, encoder=name) for name, skill in (("a", 0.6), ("b", 0.8))]
    first, second = read_runs(folders)
    (row,) = power_of(first, second, difference=0.05).benchmarks
    gap = second.outcomes(second.results[0]) - first.outcomes(first.results[0])
    assert row.spread == pytest.approx(gap.std(), rel=0.1)  # 1,000 resamples: 2 % of their own error
    assert row.samples_needed == samples_needed(row.spread, 0.05)
    assert row.smallest == pytest.approx(2.8016 * row.spread / np.sqrt(row.samples), rel=1e-3)
    assert row.paired
    again = power_of(first, second, difference=row.smallest).benchmarks[0]
    assert again.power == pytest.approx(0.8, abs=1e-3)


def test_one_run_is_held_against_an_unrelated_model(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", {"digits": 0.6}))
    (row,) = power_of(run).benchmarks
    outcomes = run.outcomes(run.results[0])
    assert row.spread == pytest.approx(np.sqrt(2) * outcomes.std(), rel=0.1)
    assert (row.paired, row.seeds_needed, power_of(run).benchmarks_needed) == (False, None, None)


def test_seeds_help_only_as_far_as_the_samples_let_them(tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path / name,
            {"digits": skill, "micro/cifar100": skill - 0.1, "micro/iwildcam": skill},
            encoder=name,
            seeds=(0, 1, 2),
        )
        for name, skill in (("a", 0.5), ("b", 0.6))
    ]
    power = power_of(*runs, difference=1e-4)
    assert {row.seeds_needed for row in power.benchmarks} == {0}
    assert power.benchmarks_needed is not None
    easy = power_of(*runs, difference=0.9).benchmarks[0]
    assert (easy.seeds_needed, easy.power > 0.99) == (1, True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"difference": 0.0}, "must be positive, not 0.0"), ({"alpha": 0.9}, "got alpha 0.9 and power 0.8")],
)
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: dict[str, float], message: str) -> None:
    run = read_run(write_run(tmp_path / "a", {"digits": 0.6}))
    with pytest.raises(UsageError, match=message):
        power_of(run, **wrong)


def test_runs_on_other_data_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"digits": 0.6, "micro/cifar100": 0.5})
    write_run(tmp_path / "b", {"digits": 0.6}, encoder="b")
    power = power_of(tmp_path / "a", tmp_path / "b")
    assert power.left_out == ("micro/cifar100: no finished result in b",)
