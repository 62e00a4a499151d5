"""Kept pair scores: the nearest images, the pairs that are scored, the file that goes on, and the negatives drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from eqsim.pair_scores import PairScores, draw_negatives, nearest_images, score_pairs


def test_neighbours_are_the_sorted_cosines_without_the_image_itself() -> None:
    features = torch.randn(37, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cosines = torch.nn.functional.cosine_similarity(features[:, None], features[None], dim=-1)
    near = nearest_images(features, 6)
    for row in range(37):
        order = sorted((other for other in range(37) if other != row), key=lambda other: -float(cosines[row, other]))
        assert near[row].tolist() == order[:6]
    assert nearest_images(features, 500).shape == (37, 36)


def test_every_pair_of_an_image_with_its_neighbours_captions_is_scored_once(tmp_path: Path) -> None:
    near = nearest_images(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), 3)
    seen: list[tuple[int, int]] = []

    def score(image: Tensor, caption: Tensor) -> Tensor:
        seen.extend(zip(image.tolist(), caption.tolist(), strict=True))
        return (100 * image + caption).float()

    stored = score_pairs(near, score, 2, batch_size=4, path=tmp_path / "folder" / "pairs.pt")
    assert len(seen) == len(set(seen)) == 9 * 3 * 2
    for row in range(9):
        for place in range(3):
            expected = [100.0 * row + 2 * int(near[row, place]) + caption for caption in (0, 1)]
            assert stored.scores[row, place].tolist() == expected
    (tmp_path / "folder" / "pairs.pt.partial").write_text("mine")
    stored.save(tmp_path / "folder" / "pairs.pt")
    assert (tmp_path / "folder" / "pairs.pt.partial").read_text() == "mine"
    loaded = PairScores.load(tmp_path / "folder" / "pairs.pt")
    assert torch.equal(loaded.scores, stored.scores)
    assert torch.equal(loaded.neighbours, near)
    seen.clear()
    score_pairs(near, score, 2, path=tmp_path / "folder" / "pairs.pt")
    assert len(seen) <= 16  # whether the head is the same


def test_what_was_scored_before_an_interruption_is_not_scored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eqsim.pair_scores._KEPT_EVERY", 1)
    near = nearest_images(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), 2)
    calls = 0

    def score(image: Tensor, caption: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return (image * caption).float()

    path = tmp_path / "pairs.pt"
    with pytest.raises(KeyboardInterrupt):
        score_pairs(near, score, 1, batch_size=4, path=path)
    with pytest.raises(ValueError, match=r"pairs\.pt: scores are missing"):
        PairScores.load(path)
    done = score_pairs(near, score, 1, batch_size=4, path=path)
    assert calls == 6  # of four batches, two were there; one looks whether the head is the same
    assert torch.equal(done.scores, score_pairs(near, lambda image, caption: (image * caption).float(), 1).scores)
    with pytest.raises(ValueError, match="of other images or captions"):
        score_pairs(near, score, 2, path=path)
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="does not hold pair scores"):
        score_pairs(near, score, 1, path=path)


def test_scores_of_another_head_are_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsim.pair_scores._KEPT_EVERY", 1)
    near = nearest_images(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), 3)
    path, weight, calls = tmp_path / "pairs.pt", 1.0, 0

    def score(image: Tensor, caption: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return torch.sin(image + weight * caption)

    with pytest.raises(KeyboardInterrupt):
        score_pairs(near, score, 2, batch_size=16, path=path)
    weight = 1.1
    with pytest.raises(ValueError, match=r"pairs\.pt: scores of another head: pair"):
        score_pairs(near, score, 2, batch_size=16, path=path)
    weight = 1.0
    score_pairs(near, score, 2, batch_size=16, path=path)
    weight = 1.1
    with pytest.raises(ValueError, match="another head"):  # all are there, too
        score_pairs(near, score, 2, batch_size=16, path=path)


def test_a_share_of_a_batch_gets_its_hardest_pairs_and_nobody_gets_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    near = nearest_images(torch.randn(40, 4, generator=generator), 10)
    stored = PairScores(near, torch.rand(40, 10, 5, generator=generator))
    rows = torch.randperm(40, generator=generator)[:20]
    counts = torch.zeros(2)
    for _ in range(50):
        drawn = draw_negatives(stored, rows, 0.25, generator, hardest=3)
        assert int(drawn.hard.sum()) == 5
        assert not bool((drawn.images == rows).any())
        assert torch.equal(drawn.captions // 5, drawn.images)
        for row, image, caption, hard in zip(rows.tolist(), *(part.tolist() for part in drawn), strict=True):
            if hard:
                place = near[row].tolist().index(image)
                better = int((stored.scores[row] > stored.scores[row, place, caption % 5]).sum())
                assert better < 3
                counts[0] += 1
            counts[1] += 1
    assert float(counts[0] / counts[1]) == 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nearest_images(torch.ones(1, 3)), "at least two images"),
        (lambda: nearest_images(torch.ones(3, 3), 0), "k of at least 1"),
        (lambda: score_pairs(torch.tensor([[1], [0]]), lambda image, caption: torch.ones(1)), "10 finite scores"),
        (lambda: score_pairs(torch.tensor([[1], [0]]), lambda i, c: torch.full(i.shape, torch.inf)), "not finite"),
        (lambda: score_pairs(torch.tensor([[1], [0]]), lambda i, c: i.float(), 0), "must be at least 1, got 0"),
        (
            lambda: draw_negatives(
                PairScores(torch.tensor([[1], [0]]), torch.ones(2, 1, 1)), torch.tensor([0]), 1.5, torch.Generator()
            ),
            "share from 0 to 1",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_an_image_without_finite_features_is_near_to_none() -> None:
    """A row of NaN was the nearest of every image."""
    features = torch.eye(4)
    features[2, 1] = float("nan")
    with pytest.raises(ValueError, match="row 2 of the features holds NaN or infinity"):
        nearest_images(features, 1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt"):
        PairScores.load(tmp_path / "nowhere.pt")
