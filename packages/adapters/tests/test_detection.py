"""The detection head: boxes, losses, and that it learns and resumes to the bit; COCO's metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("torchvision")

from torchvision.ops import box_iou, generalized_box_iou

from vision_adapters.detection import DenseHead, Detections, box_convert
from vision_adapters.detection.dense import generalized_iou, suppressed
from vision_adapters.heads import seeded
from vision_adapters.training import Recipe, fit


def world(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Tokens of an 8 x 8 grid whose channels say which class lies there, and one or two objects each."""
    generator = torch.Generator().manual_seed(seed)
    tokens = 0.1 * torch.randn(count, 64, 6, generator=generator)
    truth = torch.full((count, 2, 5), -1.0)
    for row in range(count):
        for index in range(int(torch.randint(0, 3, (1,), generator=generator))):
            label = int(torch.randint(0, 2, (1,), generator=generator))
            x, y, w, h = (int(v) for v in torch.randint(1, 4, (4,), generator=generator))
            x, y = x + 3 * index, y + 2 * index
            w, h = min(w, 8 - x), min(h, 8 - y)
            tokens[row].view(8, 8, 6)[y : y + h, x : x + w, label] += 2
            truth[row, index] = torch.tensor([label, (x + w / 2) / 8, (y + h / 2) / 8, w / 8, h / 8])
    return tokens, truth


def hit_rate(head: DenseHead, tokens: Tensor, truth: Tensor) -> float:
    """Share of objects that one of the three best boxes of their class overlaps by half."""
    detections = head.detections(head(tokens), most=3)
    hits = total = 0
    for row in range(len(tokens)):
        for label, *box in truth[row].tolist():
            if label >= 0:
                mine = detections.labels[row] == int(label)
                overlap = box_iou(_corners(detections.boxes[row][mine]), _corners(torch.tensor([box])))
                total, hits = total + 1, hits + int(bool((overlap > 0.5).any()))
    return hits / total


def new_head() -> DenseHead:
    return seeded(lambda: DenseHead(6, 2, grid=(8, 8), width=16, depth=1), 0)


@pytest.mark.long
def test_a_head_learns_where_things_are_and_resumes_to_the_bit(tmp_path: Path) -> None:
    (tokens, truth), (test_tokens, wanted) = world(48, 0), world(24, 1)

    def train(head: DenseHead, steps: int, *, stop: int = -1, checkpoint: Path | None = None) -> DenseHead:
        def stops(phase: str, done: int, total: int) -> None:
            if done == stop:
                raise KeyboardInterrupt

        fit(
            head,
            (tokens,),
            truth,
            loss=head.loss,
            recipe=Recipe(lr=3e-3, steps=steps, batch_size=12, validate_every=steps // 2, schedule="cosine"),
            validate=lambda module: hit_rate(module, test_tokens, wanted),  # type: ignore[arg-type]
            direction="higher",
            seed=0,
            checkpoint=checkpoint,
            progress=stops,
        )
        return head

    untrained = new_head()
    learnt = train(new_head(), 160)
    start = float(untrained.loss(untrained(test_tokens), wanted).detach())
    assert float(learnt.loss(learnt(test_tokens), wanted).detach()) < 0.75 * start
    assert hit_rate(learnt, test_tokens, wanted) > hit_rate(untrained, test_tokens, wanted) + 0.2
    whole = train(new_head(), 24)
    with pytest.raises(KeyboardInterrupt):
        train(new_head(), 24, stop=15, checkpoint=tmp_path / "state")
    resumed = train(new_head(), 24, checkpoint=tmp_path / "state")
    for value, again in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(value, again)


def _corners(boxes: Tensor) -> Tensor:
    return box_convert(boxes, "cxcywh", "xyxy")


def test_overlaps_of_boxes() -> None:
    first = torch.tensor([[0.0, 0, 2, 2], [0, 0, 1, 1], [0, 0, 0, 0]])
    second = torch.tensor([[1.0, 1, 3, 3], [0, 0, 1, 1], [2, 2, 3, 3]])
    assert generalized_iou(first, second).tolist() == pytest.approx([1 / 7 - 2 / 9, 1.0, -8 / 9])
    corners = _corners(torch.rand(2, 9, 4, generator=torch.Generator().manual_seed(0)) + 0.01)
    for picture in corners:
        torch.testing.assert_close(
            generalized_iou(picture[:, None], picture[None]),
            generalized_box_iou(picture, picture),
            rtol=1e-4,
            atol=1e-5,
        )


def test_suppression_against_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    boxes = torch.cat([torch.rand(60, 2, generator=generator), 0.2 + 0.4 * torch.rand(60, 2, generator=generator)], 1)
    scores = torch.rand(60, generator=generator).sort(descending=True).values
    labels = torch.arange(60) % 2
    overlap = box_iou(_corners(boxes), _corners(boxes))
    left, keep = list(range(60)), []
    while left:
        best = left.pop(0)
        keep.append(best)
        left = [row for row in left if labels[row] != labels[best] or float(overlap[best, row]) <= 0.3]
    assert 10 < len(keep) < 50
    ours = suppressed(Detections(boxes[None], scores[None], labels[None]), 0.3, 50)
    assert torch.equal(ours.boxes[0, : len(keep)], boxes[keep])
    assert torch.equal(ours.scores[0, : len(keep)], scores[keep])
    assert ours.scores[0, len(keep) :].tolist() == [0.0] * (50 - len(keep))
    assert torch.equal(
        suppressed(Detections(boxes[None], scores[None], labels[None]), 0.3, 5).boxes[0], boxes[keep[:5]]
    )


def test_of_two_objects_at_a_place_the_smaller_is_learned_and_a_tiny_one_is_not_lost() -> None:
    head = new_head()
    big, small = [0.0, 0.5, 0.5, 0.9, 0.9], [1.0, 0.5, 0.5, 0.2, 0.2]
    tiny, none = [1.0, 0.2, 0.2, 0.01, 0.01], [-1.0, 0.0, 0.0, 0.0, 0.0]
    owner = head._owners(torch.tensor([[big, small], [tiny, none], [none, none]]))
    assert int((owner[0] == 1).sum()) > 0
    near = (head.places - 0.5).abs().amax(dim=1) < 0.1
    assert 1 in owner[0][near].tolist()
    assert 0 not in owner[0][near].tolist()
    assert int((owner[1] == 0).sum()) == 1
    assert set(owner[2].tolist()) == {-1}


def test_a_picture_without_objects_still_teaches() -> None:
    tokens, _ = world(2, 0)
    empty = torch.full((2, 1, 5), -1.0)
    head = new_head()
    loss = head.loss(head(tokens), empty)
    loss.backward()
    assert torch.isfinite(loss)
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in head.parameters())


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="must be at least 1, got dim=0"):
        DenseHead(0, 2, grid=(2, 2))
    with pytest.raises(ValueError, match=r"expected \[n, 4, d\]"):
        DenseHead(3, 2, grid=(2, 2), width=16)(torch.zeros(1, 5, 3))


def slow_average_precision(
    truth: list[list[list[float]]], detections: list[list[list[float]]], threshold: float
) -> float:
    """Of one class: greedy matching by falling score, then precision at 101 recalls, one detection after another."""

    def overlap(a: list[float], b: list[float]) -> float:
        sides = [min(a[k] + a[k + 2], b[k] + b[k + 2]) - max(a[k], b[k]) for k in (0, 1)]
        shared = max(0.0, sides[0]) * max(0.0, sides[1])
        return shared / (a[2] * a[3] + b[2] * b[3] - shared)

    listed = sorted(
        ((-row[4], picture, row) for picture, rows in enumerate(detections) for row in rows), key=lambda x: x[0]
    )
    free = [set(range(len(rows))) for rows in truth]
    right = []
    for _, picture, row in listed:
        able = [(overlap(row, truth[picture][box]), box) for box in free[picture]]
        best = max(able, default=(0.0, -1))
        right.append(best[0] >= threshold)
        free[picture] -= {best[1]} if right[-1] else set()
    total, precisions = sum(map(len, truth)), []
    for recall in np.linspace(0, 1, 101):
        at = [sum(right[: n + 1]) / (n + 1) for n in range(len(right)) if sum(right[: n + 1]) / total >= recall - 1e-12]
        precisions.append(max(at, default=0.0))
    return float(np.mean(precisions))


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_is_what_one_detection_after_another_gives(seed: int) -> None:
    from vision_adapters.detection import match_detections, mean_average_precision
    from vision_adapters.detection.average_precision import average_precisions
    from vision_adapters.detection.matching import Matches

    rng = np.random.default_rng(seed)
    truth = [[[*rng.uniform(0, 20, 2), *rng.uniform(4, 12, 2)] for _ in range(rng.integers(0, 4))] for _ in range(6)]
    truth[0].append([1.0, 2.0, 5.0, 6.0])
    detections = [
        [[*(side + rng.normal(0, 0.7) for side in box), rng.random()] for box in boxes]
        + [[*rng.uniform(0, 20, 2), *rng.uniform(4, 12, 2), rng.random()] for _ in range(2)]
        for boxes in truth
    ]

    def rows(listed: list[list[list[float]]], **more: Any) -> Matches:
        table = np.array([row for picture in listed for row in picture])
        columns = {"box": table[:, :4], "label": np.zeros(len(table), int)}
        return Matches({**columns, **{key: make(table) for key, make in more.items()}}, np.array([*map(len, listed)]))

    matches = match_detections(
        rows(truth, crowd=lambda table: np.zeros(len(table), bool)), rows(detections, score=lambda table: table[:, 4])
    )
    of_coco = match_detections(  # which writes 0 and 1
        rows(truth, crowd=lambda table: np.zeros(len(table), int)), rows(detections, score=lambda table: table[:, 4])
    )
    assert all(np.array_equal(of_coco.columns[key], column) for key, column in matches.columns.items())
    thresholds = np.linspace(0.5, 0.95, 10)
    slow = [slow_average_precision(truth, detections, threshold) for threshold in thresholds]
    values = np.ones((1, len(truth)))
    assert average_precisions(matches, values)[0, 0] == pytest.approx(slow, abs=1e-9)
    assert mean_average_precision(matches, values)[0] == pytest.approx(np.mean(slow), abs=1e-9)


def test_a_batch_without_objects_has_the_loss_of_one_that_is_padded() -> None:
    head = seeded(lambda: DenseHead(12, 3, grid=(4, 4), width=16), 0)
    logits = head(torch.randn(2, 16, 12, generator=torch.Generator().manual_seed(0)))
    empty, padded = head.loss(logits, torch.zeros(2, 0, 5)), head.loss(logits, torch.full((2, 1, 5), -1.0))
    assert float(empty.detach()) == float(padded.detach()) > 0
    empty.backward()
