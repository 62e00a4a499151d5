"""Fine-tuning by ELEVATER's protocol: its grid, its head, and a search that a kill does not begin again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gate_runner.errors import UsageError
from gate_runner.executors import run
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.runs.results import Result
from gate_runner.settings import Settings
from gate_runner.tasks.elevater.searched import grid
from gate_runner.tasks.recipes import head_form
from vision_adapters.training import side_by_side
from vision_adapters.tuning.elevater import RATES
from vision_features.encoders.own import adopt


class Tiny(nn.Module):
    """A convolution, and texts by their letters."""

    image_size, mean, std = 16, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix = nn.Conv2d(3, 12, 4, stride=4), nn.Linear(12, 8)

    def encode_image(self, images: Tensor) -> Tensor:
        features: Tensor = self.mix(self.stem(images).relu().mean((2, 3)))
        return features

    def encode_text(self, texts: list[str]) -> Tensor:
        values = torch.zeros(len(texts), 8)
        for row, text in enumerate(texts):
            for letter in text:
                values[row, ord(letter) % 8] += 1
        return values


def tiny() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return adopt(Tiny(), "tiny")


def searched(folder: Path, encoder: Any = None, observer: Any = None, **options: Any) -> Result:
    settings = Settings(
        limit=48, tune="full", shots=("5",), init=("language",), projection=("2p",), probe="elevater", device="cpu"
    ).changed(**options)
    request = make_request(["icinw-textures"], encoder or tiny(), output=folder, settings=settings)
    (result,) = run(request, observer or Observer())
    return result


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A search that nothing stopped."""
    result = searched(tmp_path_factory.mktemp("searched"))
    assert result.status == "ok", result.reason
    return result


def told(result: Result) -> tuple[Any, ...]:
    assert result.headline is not None, result.reason
    return result.headline.value, result.training["validated"], result.training["chosen"], result.training["tried"]


def test_the_grid_is_the_papers_and_the_best_of_it_is_trained_for_long(undisturbed: Result) -> None:
    tried = undisturbed.training["tried"]
    assert len(tried) == len(grid()) == 42
    assert {row[0] for row in tried} == set(RATES)
    chosen = undisturbed.training["chosen"]
    known = [(row[2], -row[0], -row[1]) for row in tried if row[2] is not None]
    assert (-chosen["lr"], -chosen["weight_decay"]) == max(known)[1:]
    assert undisturbed.training["validated"] == max(known)[0]
    assert all(row[2] is None for row in tried if row[0] * row[1] >= 1)  # such decays erase the weights
    assert chosen["steps"] == 50  # an epoch of 20 images is one batch


def test_the_encoder_is_put_back(tmp_path: Path) -> None:
    encoder = tiny()
    before = encoder.fingerprint()
    assert searched(tmp_path, encoder, init=("random",)).status == "ok"
    assert encoder.fingerprint() == before


@pytest.mark.parametrize("phase", ["choose recipe", "train"])
def test_a_killed_search_goes_on_to_the_same_bits(
    phase: str, undisturbed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stops(Observer):
        def progress(self, name: str, seed: int, kind: str, done: int, total: int) -> None:
            if kind == phase and done == 20:
                raise KeyboardInterrupt

    counts: list[int] = []
    original = side_by_side._Job.side_by_side

    def counted(self: Any, trials: Any) -> Any:
        counts.append(len(trials))
        return original(self, trials)

    monkeypatch.setattr(side_by_side._Job, "side_by_side", counted)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, observer=Stops())
    first = sum(counts)
    counts.clear()
    again = searched(tmp_path)
    assert told(again) == told(undisturbed)
    assert sum(counts) == (first - 20 if phase == "choose recipe" else 0)
    assert not list((tmp_path / "unfinished").glob("*.pt*"))


def test_pieces_of_a_batch_and_run_after_run_give_the_same(undisturbed: Result, tmp_path: Path) -> None:
    """The head's batch normalisation sees whole batches."""
    pieces = searched(tmp_path, micro_batches=2)
    assert pieces.training["chosen"] == undisturbed.training["chosen"]
    assert told(pieces)[0] == pytest.approx(told(undisturbed)[0], abs=1e-6)


TABLE_9: list[dict[str, Any]] = [
    {"head_norm": "batchnorm"}, {"head_norm": "l2-batchnorm"}, {"head_norm": "l2"}, {"head_norm": "none"},
    {"train_scale": "true"}, {"logit_scale": 100, "train_scale": True},
]  # fmt: skip


@pytest.mark.parametrize("fields", TABLE_9, ids=str)
def test_settings_of_table_9_can_be_had(fields: dict[str, Any], undisturbed: Result, tmp_path: Path) -> None:
    result = searched(tmp_path, recipe_fields=fields)
    assert result.status == "ok", result.reason
    more = result.training["trained_parameters"] - undisturbed.training["trained_parameters"]
    assert more == (1 if "train_scale" in fields else 0)
    same = told(result) == told(undisturbed)
    assert same == (fields == TABLE_9[0])  # the paper's choice is the default


def test_the_form_of_heads_depends_on_the_probe() -> None:
    assert head_form(Settings(probe="elevater")) == ("batchnorm", 1.0, False)
    assert head_form(Settings()) == (None, None, False)
    chosen = Settings(probe="elevater", recipe_fields={"head_norm": "none", "logit_scale": "100"})
    assert head_form(chosen) == ("raw", 100.0, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe_fields": {"head_norm": "l3"}}, "unknown value of head_norm 'l3'; nearest: l2"),
        ({"recipe_fields": {"logit_scale": "0"}}, "logit_scale is '0', expected a number above 0"),
        ({"recipe_fields": {"train_scale": "so"}}, "unknown value of train_scale 'so'"),
        ({"recipe_fields": {"lr": 1}}, "probe=elevater with --tune full sets lr itself"),
        ({"recipe": "gate"}, "searches a recipe in one process: it goes without --recipe"),
        ({"tune": "frozen", "recipe_fields": {"head_norm": "l2"}}, "head_norm is for sweeps that train whole encoders"),
        ({"probe": "anchored", "shots": (), "init": (), "projection": (), "recipe_fields": {"head_norm": "l2"}},
         "head_norm is for sweeps that train whole encoders"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_one_line(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    def ask() -> None:
        settings = Settings(tune="full", shots=("5",), init=("language",), projection=("2p",), probe="elevater")
        eval_units_of(make_request(["icinw-textures"], tiny(), output=tmp_path, settings=settings.changed(**options)))

    with pytest.raises(UsageError, match=message):
        ask()
