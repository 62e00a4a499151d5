"""Cheap encoders of our own, feature caches for each file of tests, and the project's data where it is there."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

from eqben_builder.stand_ins import STAND_INS
from eqben_builder.stand_ins.data import DrawnSet
from gate_runner import stand_ins
from gate_runner.choosing import costs
from gate_runner.tasks import classification
from vision_features.encoders import micro_clip, probe
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.spec import SHIPPED

ENCODER = '''
"""Colours and edges in a coarse grid: no weights, no training, and better than nothing."""

import torch
from torch import nn


class Grid(nn.Module):
    image_size = 32

    def places(self, images):
        edges = torch.cat([images, images.diff(dim=2, append=images[:, :, -1:]).abs()], dim=1)
        return torch.cat([nn.functional.adaptive_avg_pool2d(edges, 8), nn.functional.adaptive_max_pool2d(edges, 8)], 1)

    def encode_image(self, images):
        return nn.functional.avg_pool2d(self.places(images), 2).flatten(1)

    def encode_patches(self, images):
        return self.places(images).flatten(2).transpose(1, 2), (8, 8)


def grid():
    return Grid()


class Broken(Grid):
    def encode_image(self, images):
        return super().encode_image(images) * float("nan")


def nan():
    return Broken()


class Pair(Grid):
    def encode_image(self, images):
        return super().encode_image(images), "logits"


def pair():
    return Pair()


def with_(**given):
    """The grid, of which something is otherwise."""
    made = Grid()
    vars(made).update(given)
    return made


def raises():
    return with_(encode_image=lambda images: {}["weights"])


def raises_late():
    made, calls = Grid(), []

    def encode(images):
        calls.append(len(images))
        if len(calls) > 2:
            raise RuntimeError("the sensor has gone")
        return Grid.encode_image(made, images)

    made.encode_image = encode
    return made


class NoPatches(nn.Module):
    image_size = 32

    def forward(self, images):
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)


def pooled_only():
    return NoPatches()


def fails():
    raise RuntimeError("no weights at hand")
'''


@pytest.fixture(scope="session", autouse=True)
def speeds_of_few_calls() -> Iterator[None]:
    """A choice measures each encoder for 0.4 s, on batches of 32; how fast it is here no test asks."""
    real = costs.speeds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "speeds", lambda encoder, batch: real(encoder, min(batch, 2), seconds=0.0))
        yield


@pytest.fixture(scope="module", autouse=True)
def estimated_on_two_folds(request: pytest.FixtureRequest) -> Iterator[None]:
    """A head of few images is scored on five folds, and fitted again for each; test_few_labelled has them all."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_few_labelled.py":
            patch.setattr(classification, "UNSEEN_FOLDS", 2)
        yield


@pytest.fixture(scope="session", autouse=True)
def stand_ins_drawn_once() -> Iterator[None]:
    """Runs on a stand-in that was drawn before get copies: drawing takes up to seconds, copying milliseconds."""

    @lru_cache(maxsize=16)
    def drawn(name: str, limit: int | None) -> DrawnSet:
        return STAND_INS[name](limit)

    def copied(name: str, limit: int | None = None) -> DrawnSet:
        return copy.deepcopy(drawn(name, limit))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_ins, "STAND_INS", {name: partial(copied, name) for name in STAND_INS})
        yield


@pytest.fixture(scope="session", autouse=True)
def shipped_encoders_made_once() -> Iterator[None]:
    """An encoder that comes along is read and checked at its first load; later ones copy it, in a fifth of the time."""
    real, check = lru_cache(micro_clip.load_micro_clip), probe.probe
    seen: dict[tuple[str, str], tuple[Any, Any]] = {}

    def copied(**named: Any) -> tuple[Any, Any]:
        model, tokenizer = real(**named)
        return copy.deepcopy(model), tokenizer

    def probed(encoder: Encoder) -> dict[str, Any]:
        if encoder.outputs or encoder.spec.partition("/")[0] not in SHIPPED:
            return check(encoder)
        key = encoder.spec, str(encoder.device)
        if key not in seen:
            outputs = check(encoder)
            seen[key] = outputs, encoder.readouts()
        outputs, encoder._readouts = copy.deepcopy(seen[key])
        return outputs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro_clip, "load_micro_clip", copied)
        patch.setattr(probe, "probe", probed)
        yield


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with encoders, importable from the current directory, which is a fresh one."""
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(ENCODER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def shared_data() -> Path:
    """The folder with real data, beside the repository; the test is skipped where it is not there."""
    value = os.environ.get("VLB_SHARED_DATA")
    root = Path(value) if value else Path(__file__).parents[4] / "shared" / "data"
    if not root.is_dir():
        pytest.skip("the project's shared data is not here")
    return root


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Features that the tests of one file encode are not found by those of another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATE_RUNNER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cold_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Called, it makes an empty cache the one that is used from now on; the first is there at once."""

    def emptied() -> Path:
        folder = tmp_path_factory.mktemp("cache")
        monkeypatch.setenv("GATE_RUNNER_CACHE", str(folder))
        return folder

    emptied()
    return emptied
