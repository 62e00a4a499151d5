"""A cheap encoder of our own, and a feature cache for each file of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


class Wrong(Grid):
    def encode_image(self, images):
        return images


def wrong_shape():
    return Wrong()


class Broken(Grid):
    def encode_image(self, images):
        return super().encode_image(images) * float("nan")


def nan():
    return Broken()


class WholeNumbers(Grid):
    def encode_image(self, images):
        return super().encode_image(images).long()


def whole_numbers():
    return WholeNumbers()


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


def whole_places():
    return with_(encode_patches=lambda images: (torch.zeros(len(images), 4, 8, dtype=torch.long), (2, 2)))


def no_grid():
    return with_(encode_patches=lambda images: torch.zeros(len(images), 4, 8))


def number_as_grid():
    return with_(encode_patches=lambda images: (torch.zeros(len(images), 4, 8), 4))


def with_texts():
    return with_(encode_text=lambda texts: torch.tensor([[float(len(text))] * 192 for text in texts]))


def whole_texts():
    return with_(encode_text=lambda texts: torch.zeros(len(texts), 192, dtype=torch.long))


def no_mask():
    return with_(encode_text_tokens=lambda texts: torch.zeros(len(texts), 5, 8))


def list_as_mask():
    return with_(encode_text_tokens=lambda texts: (torch.zeros(len(texts), 5, 8), [5] * len(texts)))


def tokens_alone():
    return with_(encode_text=torch.nn.Embedding(9, 4))


def whole_mask():
    return with_(encode_text_tokens=lambda texts: (torch.ones(len(texts), 5, 8), torch.ones(len(texts), 5).long()))


def made_of_another():
    from vision_features.encoders import load_encoder

    return load_encoder("micro-clip/random")


def no_height():
    return with_(image_size=(0, 32))


def three_sides():
    return with_(image_size=(32, 32, 3))


def size_in_words():
    return with_(image_size="large")


def one_mean():
    return with_(mean=0.5)


def raises():
    return with_(encode_image=lambda images: {}["weights"])


def fails():
    raise RuntimeError("no weights at hand")


def not_an_encoder():
    return 3
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with encoders, importable from the current directory, which is a fresh one."""
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(ENCODER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


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
