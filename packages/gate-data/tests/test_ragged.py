"""Samples with several rows, splits of anything, and what is done with both, against plain lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.ragged import Ragged, taken

LISTS = [[3, 1], [], [2], [5, 5, 4], []]


@pytest.fixture
def labels() -> Ragged:
    return Ragged.of([{"label": np.array(row, dtype=np.int64)} for row in LISTS])


def test_it_is_a_list_of_lists(labels: Ragged) -> None:
    assert [label["label"].tolist() for label in labels] == LISTS
    assert [labels[at]["label"].tolist() for at in range(5)] == LISTS
    order = np.array([3, 0, 0, 4])
    assert [label["label"].tolist() for label in labels.take(order)] == [LISTS[at] for at in order]
    both = labels.joined(taken(labels, order))
    assert [label["label"].tolist() for label in both] == LISTS + [LISTS[at] for at in order]
    again = Ragged.from_arrays(labels.to_arrays())
    assert [label["label"].tolist() for label in again] == LISTS


def test_a_batch_is_padded_and_masked(labels: Ragged) -> None:
    batch = labels.collate(np.array([0, 1, 3]))
    assert batch["label"].tolist() == [[3, 1, 0], [0, 0, 0], [5, 5, 4]]
    assert batch["mask"].tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert labels.collate(np.array([1, 4]))["label"].shape == (2, 0)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"a": [1]}, {"b": [1]}], "sample 1 has columns {'b': 1}, expected \\['a'\\], equally long"),
        ([{"a": [1], "b": [1, 2]}], "sample 0 has columns {'a': 1, 'b': 2}"),
    ],
)
def test_samples_that_do_not_fit_are_named(samples: list[dict[str, list[int]]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Ragged.of(samples)
    with pytest.raises(DataError, match="column 'a' has 1 rows, expected 3"):
        Ragged({"a": np.zeros(1)}, np.array([1, 2]))


def _images(count: int, *more: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.uint8).view(-1, *(1 for _ in more), 1, 1, 1).expand(count, *more, 3, 2, 2)


def test_splits_of_pairs_clips_and_ragged_targets(labels: Ragged) -> None:
    texts = tuple(f"{sample}{text}" for sample in range(5) for text in "ab")
    pairs = Split(_images(5, 2), torch.arange(5), texts)
    chosen = pairs.take(torch.tensor([4, 1]))
    assert chosen.texts == ("4a", "4b", "1a", "1b")
    assert chosen.images[:, 0, 0, 0, 0].tolist() == [4, 1]
    assert pairs.limited(2).texts == texts[:4]
    boxes = Split(_images(5), labels, groups=torch.tensor([0, 0, 1, 1, 1]))
    assert len(boxes.limited(3)) == 5
    assert len(boxes.limited(2).targets) == 2
    assert boxes.take(torch.tensor([3])).targets[0]["label"].tolist() == [5, 5, 4]


def test_every_value_is_in_the_digest(labels: Ragged) -> None:
    def digest(targets: Ragged, texts: tuple[str, ...] = ()) -> str:
        split = Split(_images(5), targets, texts)
        return Data(split, split, split, ()).digest()

    same = digest(labels)
    assert digest(Ragged.of(list(labels))) == same
    shifted = Ragged({"label": labels.columns["label"]}, labels.lengths[[1, 0, 2, 3, 4]])
    other = Ragged({"label": labels.columns["label"] + 1}, labels.lengths)
    assert len({same, digest(shifted), digest(other), digest(labels, ("a",) * 5)}) == 4


def test_parts_of_different_length_are_refused(labels: Ragged) -> None:
    with pytest.raises(DataError, match="4 images and 5 targets"):
        Split(_images(4), labels)
    with pytest.raises(DataError, match="5 images and 7 texts"):
        Split(_images(5), labels, ("a",) * 7)
    with pytest.raises(DataError, match="5 images and 2 groups"):
        Split(_images(5), labels, groups=torch.zeros(2))


def test_ends_are_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item of a batch summed the lengths of all samples before it."""
    boxes = Ragged({"label": np.arange(300)}, np.full(100, 3))
    assert boxes[41]["label"].tolist() == [123, 124, 125]
    monkeypatch.setattr(np, "cumsum", lambda *_: pytest.fail("summed again"))
    assert boxes[-1]["label"].tolist() == [297, 298, 299]
    monkeypatch.undo()
    assert boxes.take(np.array([7, 2]))[1]["label"].tolist() == [6, 7, 8]
