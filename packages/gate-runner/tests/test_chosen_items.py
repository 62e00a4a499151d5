"""`--items`: chosen test samples are scored alone, and stand for all with an interval."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eevee
import gate_runner
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting import export
from gate_runner.runs import item_subsets
from gate_runner.runs.request import make_request
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.settings.items import items_in, place_of
from gate_runner.tasks import Score
from gate_runner.tasks.job import Outcome

pytest.importorskip("mlxtend")
pytest.importorskip("skimage")

LIMIT = 60


class Projection(nn.Module):
    """A cheap encoder: a random projection of a coarse grid of pixels."""

    image_size = 16

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 1 + seed, generator=torch.Generator().manual_seed(seed)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1) @ self.weight


def scored(output: Path, seed: int, names: str | list[str] = "faces", **options: object) -> gate_runner.Run:
    how = {"limit": LIMIT, "device": "cpu", **options}
    return gate_runner.run(names, encoder=Projection(seed), name=f"p{seed}", output=output, show=False, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """Whole runs of six encoders, and the samples that were chosen from them."""
    folder = tmp_path_factory.mktemp("items")
    runs = [scored(folder / f"r{seed}", seed).folder for seed in range(6)]
    chosen = folder / "chosen.json"
    eevee.choose_items(eevee.read_outcomes(runs), share=0.25).to_json(chosen)
    return chosen, runs


@pytest.fixture(scope="module")
def few(learnt: tuple[Path, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> gate_runner.Run:
    return scored(tmp_path_factory.mktemp("few"), 5, ["faces", "digits"], items=learnt[0])


def test_chosen_samples_are_scored_and_stand_for_all(learnt: tuple[Path, list[Path]], few: gate_runner.Run) -> None:
    chosen, runs = learnt
    items = eevee.read_items(chosen).benchmarks["faces"]
    estimated, other = few
    assert (estimated.status, estimated.data["test"], estimated.data["test_whole"]) == ("ok", 15, LIMIT)
    assert [f"test/{row}" for row in estimated.data["test_items"]] == list(items.items)
    outcomes, every = (np.load(path / "samples" / "faces.seed0.npz")["outcomes"] for path in (few.folder, runs[5]))
    np.testing.assert_array_equal(outcomes, every[estimated.data["test_items"]])  # the very same answers
    estimate = eevee.estimate(items, dict(zip(items.items, outcomes, strict=True)))
    (score,) = estimated.scores
    assert (score.value, score.low, score.high) == (estimate.value, estimate.low, estimate.high)
    assert score.low < score.value < score.high
    assert estimated.note.endswith("estimated from 15 chosen of 60 test samples, with a 90 % interval")
    assert other.note == "all test samples scored: none of this benchmark are chosen"
    assert (other.data["test"], "test_whole" in other.data) == (LIMIT, False)


def test_everything_that_reads_the_run_tells_it(
    learnt: tuple[Path, list[Path]], few: gate_runner.Run, tmp_path: Path
) -> None:
    chosen, runs = learnt
    items = items_in(chosen)
    assert items is not None
    assert json.loads((few.folder / "manifest.json").read_text())["identity"]["items"] == items.digest
    assert all(result.settings["items"] == items.digest for result in few)
    with pytest.raises(UsageError, match="holds a run without items, not with items"):
        scored(runs[5], 5, items=chosen)
    with pytest.raises(UsageError, match=r"faces cannot be compared: items is None in .* and "):
        gate_runner.compare(runs[0], few)
    other = scored(tmp_path / "other", 1, items=chosen)
    compared = gate_runner.compare(other, few, permutations=99)
    assert "estimated from 15 chosen" in compared.contrasts[0].note
    assert any("of those items, not of all samples" in line for line in compared.sentences)
    page = gate_runner.report(other, few, pictures=2)
    assert "estimated from 15 chosen of 60 test samples, with a 90 % interval" in page
    page = re.sub("<details>.*?</details>", "", page, flags=re.DOTALL)  # what stands behind confusions
    assert page.count("data:image/jpeg") == 4  # the hardest of those that were scored
    planned = gate_runner.plan("faces", encoder=Projection(2), output=tmp_path / "p", limit=LIMIT, items=chosen)
    assert planned.parts[0].note.startswith("estimated from 15 chosen")
    with pytest.raises(eevee.EeveeError, match="outcomes of chosen items alone"):
        eevee.read_outcomes([few.folder])


def test_what_does_not_fit_is_refused(learnt: tuple[Path, list[Path]], tmp_path: Path) -> None:
    chosen, _ = learnt
    with pytest.raises(DataError, match=r"--items: .*none.json: cannot be read"):
        Settings(items=tmp_path / "none.json")  # type: ignore[arg-type]  # a path is read
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(DataError, match="not a result of `eevee items`"):
        Settings(items=tmp_path / "x.json")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"chose samples of faces; none of these is asked for \(digits\)"):
        scored(tmp_path / "r", 0, "digits", items=chosen)
    (result,) = scored(tmp_path / "r", 0, items=chosen, limit=50)
    assert "chosen of 60 test samples of other data" in result.reason
    raw = json.loads(chosen.read_text())
    raw["benchmarks"]["faces"]["items"][0] = "img0"
    (tmp_path / "y.json").write_text(json.dumps(raw))
    with pytest.raises(UsageError, match="faces has item 'img0'; expected test/0"):
        Settings(items=tmp_path / "y.json")  # type: ignore[arg-type]
    for beyond in ("test/60", "test/007"):
        raw["benchmarks"]["faces"]["items"][0] = beyond
        (tmp_path / "z.json").write_text(json.dumps(raw))
        with pytest.raises(UsageError, match=rf"faces has item '{beyond}'; expected test/0, test/1, ... of 60"):
            Settings(items=tmp_path / "z.json")  # type: ignore[arg-type]


def test_positions_are_in_plain_digits() -> None:
    assert (place_of("test/3"), place_of("test/\u0663"), place_of("test/")) == (3, None, None)


def test_the_default_folder_names_the_items(learnt: tuple[Path, list[Path]]) -> None:
    settings = Settings(limit=LIMIT, items=learnt[0])  # type: ignore[arg-type]
    assert settings.items is not None
    name = make_request("faces", settings=settings).output.name
    assert name == f"micro-clip-limit60-items-{settings.items.digest[:8]}"


@pytest.fixture(scope="module")
def adaptive(learnt: tuple[Path, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, gate_runner.Run]:
    """A bank of all items, and a run that asks for them until it knows."""
    _, runs = learnt
    folder = tmp_path_factory.mktemp("adaptive")
    bank = folder / "bank.json"
    eevee.choose_items(eevee.read_outcomes(runs), method="adaptive").to_json(bank)
    return bank, scored(folder / "run", 5, items=bank, until=6)


def test_samples_are_asked_until_the_score_is_known(
    learnt: tuple[Path, list[Path]], adaptive: tuple[Path, gate_runner.Run]
) -> None:
    bank, run = adaptive
    (result,) = run
    assert (result.status, result.data["test_whole"]) == ("ok", LIMIT)
    places = result.data["test_items"]
    assert len(places) == len(set(places)) == result.data["test"] <= LIMIT
    outcomes, every = (np.load(path / "samples" / "faces.seed0.npz")["outcomes"] for path in (run.folder, learnt[1][5]))
    np.testing.assert_array_equal(outcomes, every[places])  # the very same answers
    items = eevee.read_items(bank).benchmarks["faces"]
    test = eevee.adaptive_test(items, until=0.06 * items.unit)
    while block := test.next_block():
        test.tell(every[block])
    (score,) = result.scores
    low, value, high = (items.unit * part for part in (test.known().low, test.known().value, test.known().high))
    assert (score.low, score.value, score.high) == pytest.approx((low, value, high))
    assert high - low <= 0.12 * items.unit
    assert low <= items.unit * every.mean() <= high
    assert "asked in" in result.note
    assert "holds at every look" in result.note


def test_without_a_bank_blocks_are_drawn_alike(learnt: tuple[Path, list[Path]], tmp_path: Path) -> None:
    (result,) = scored(tmp_path / "r", 5, items="adaptive", until=15)
    every = np.load(learnt[1][5] / "samples" / "faces.seed0.npz")["outcomes"]
    unit = eevee.read_outcomes(learnt[1])["faces"].unit
    assert result.scores[0].low <= unit * every.mean() <= result.scores[0].high
    assert result.data["test"] <= LIMIT
    planned = gate_runner.plan(
        "faces", encoder=Projection(2), output=tmp_path / "p", limit=LIMIT, items="adaptive", until=15
    )
    assert planned.parts[0].note == "by blocks until ± 15 points: at most so long"


def test_until_needs_items_that_are_asked_by_blocks(
    learnt: tuple[Path, list[Path]], adaptive: tuple[Path, gate_runner.Run], tmp_path: Path
) -> None:
    for options in ({"until": 5}, {"items": learnt[0], "until": 5}):
        with pytest.raises(UsageError, match="belong together; such items is missing"):
            scored(tmp_path / "r", 5, **options)
    with pytest.raises(UsageError, match="belong together; until is missing"):
        scored(tmp_path / "r", 5, items=adaptive[0])
    with pytest.raises(UsageError, match="above 0 and below 50 points, not 60"):
        scored(tmp_path / "r", 5, items="adaptive", until=60)
    with pytest.raises(UsageError, match="none of the benchmarks that are asked for has a score that is the mean"):
        scored(tmp_path / "r", 5, "digits", items=adaptive[0], until=5)
    (result,) = scored(tmp_path / "r", 5, items=adaptive[0], until=5, limit=50)
    assert "chosen of 60 test samples of other data" in result.reason


def test_runs_that_asked_for_other_samples_are_not_paired(
    adaptive: tuple[Path, gate_runner.Run], tmp_path: Path
) -> None:
    bank, run = adaptive
    other = scored(tmp_path / "r", 2, items=bank, until=6)
    assert next(iter(run)).data["test_items"] != next(iter(other)).data["test_items"]
    with pytest.raises(UsageError, match="faces cannot be compared: test samples is"):
        gate_runner.compare(run, other)
    assert "the runs asked for other test samples each" in gate_runner.report(run, other, pictures=2)


@dataclass(frozen=True)
class Asked:
    test: Any


@dataclass(frozen=True)
class Asking:
    data: Asked
    progress: Any


def test_a_last_block_of_wrong_answers_does_not_make_shares_per_cent() -> None:
    """Nothing right in the last block was 0 % as well as 0: the score of all was 15 instead of 0.15."""
    right = np.concatenate([[1.0, 1.0, 1.0], np.zeros(17)])
    blocks = [list(range(10)), list(range(10, 20)), []]
    known = SimpleNamespace(value=0.15, low=0.05, high=0.3)
    test: Any = SimpleNamespace(total=40, most=40, until=0.2, level=0.9)
    test.next_block, test.tell, test.known = lambda: blocks.pop(0), lambda _: None, lambda: known
    split = SimpleNamespace(take=lambda places: places)
    job: Any = Asking(Asked(split), lambda *_: None)

    def run(job: Any) -> Outcome:
        outcomes = right[job.data.test.numpy()]
        return Outcome((Score("acc@1", "higher", float(outcomes.mean()), 0.0, 1.0, 0.1),), outcomes, {})

    outcome, _, counts = item_subsets.in_blocks(job, test, run)
    score = outcome.scores[0]
    assert (score.value, score.low, score.high) == (0.15, 0.05, 0.3)
    assert (counts["test"], counts["interval_level"]) == (20, 0.9)


def test_an_export_says_the_level_and_the_places_of_what_was_scored(few: gate_runner.Run, tmp_path: Path) -> None:
    """The interval of 90 % was called one of 95 %, and the chosen samples the first ones."""
    samples, aggregate = export(read_run(few.folder), "every-eval-ever", tmp_path).files
    intervals = {
        result["evaluation_name"].rpartition("/")[2]: result["score_details"]["uncertainty"]["confidence_interval"]
        for result in json.loads(aggregate.read_text())["evaluation_results"]
    }
    assert {name: interval["confidence_level"] for name, interval in intervals.items()} == {
        "faces": 0.9,
        "digits": 0.95,
    }
    assert "estimated from 15 chosen of 60" in intervals["faces"]["method"]
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    named = [line["sample_id"] for line in lines if "faces" in line["evaluation_name"]]
    assert [int(name.rpartition("/")[2]) for name in named] == next(iter(few)).data["test_items"]
