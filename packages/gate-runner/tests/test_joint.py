"""Augmented training images and what their places are labelled with: both move together, or neither does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

import gate_runner
from gate_data.own import guess, write_benchmark
from gate_runner.detection.tuning import tune_detector
from gate_runner.errors import UsageError
from gate_runner.settings import Settings
from gate_runner.tasks import augmentation, joint
from gate_runner.tasks.joint import OF_NAMES, OF_TASKS, Moved, MovedTargets, Moves
from gate_runner.tasks.recipes import augmentation_for, moves_of
from vision_adapters.rows import SampleRows, sample_generator

SIDE, MAP = 64, 32
PLACES = [(name, moves) for name, moves in {**OF_TASKS, **OF_NAMES}.items() if name != "video"]


def image_and_square() -> tuple[Tensor, Tensor, Tensor]:
    """A dark image with a bright rectangle, its map of half the size, and its box."""
    image = torch.full((3, SIDE, SIDE), 20, dtype=torch.uint8)
    image[:, 12:36, 20:52] = 230
    target = torch.zeros(MAP, MAP, dtype=torch.int16)
    target[6:18, 10:26] = 3
    box = torch.tensor([[2.0, 36 / SIDE, 24 / SIDE, 32 / SIDE, 24 / SIDE], [-1.0, 0.0, 0.0, 0.0, 0.0]])
    return image, target, box


def bright(image: Tensor) -> Tensor:
    """Where the rectangle is, at the map's size."""
    small = interpolate(image[None].float().mean(1, keepdim=True), size=(MAP, MAP), mode="area")[0, 0]
    return small > (small.max() + small.min()) / 2


@pytest.mark.parametrize(("name", "moves"), PLACES, ids=[name for name, _ in PLACES])
def test_a_marked_rectangle_and_its_map_and_box_move_together(name: str, moves: Moves) -> None:
    image, target, box = image_and_square()
    moved = Moved(moves, SIDE)
    shown, kinds = 0, set()
    for step in range(40):
        changed, labels, boxes = (
            function(value, sample_generator(0, step, 5))
            for function, value in ((moved.image, image), (moved.map, target), (moved.boxes, box))
        )
        assert changed.shape == image.shape
        assert labels.shape == target.shape
        assert labels.dtype == target.dtype
        assert boxes[1, 0] == -1
        if not 0.02 < (labels == 3).float().mean() < 0.9:
            continue  # too little is left to compare edges
        shown += 1
        different = (bright(changed) != (labels == 3)).float().mean()
        assert different < 0.1, f"{name}, step {step}: {different:.2f} of the places differ"
        if boxes[0, 0] == 2:
            rows, columns = (labels == 3).nonzero().T
            edges = torch.tensor([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / MAP
            expected = torch.cat([(edges[:2] + edges[2:]) / 2, edges[2:] - edges[:2]])
            assert (boxes[0, 1:] - expected).abs().max() < 2.5 / MAP
        kinds.add(tuple(labels[:2].flatten().tolist() + labels.sum(1).tolist() + labels.sum(0).tolist()))
    assert shown > 20
    assert len(kinds) > 1, f"{name} moved nothing"


def test_a_crop_that_leaves_little_of_an_object_leaves_no_object() -> None:
    box = torch.tensor([[1.0, 0.25, 0.25, 0.3, 0.3]])
    moved = Moved(Moves(2.0), SIDE)
    classes = [float(moved.boxes(box, sample_generator(0, step, 0))[0, 0]) for step in range(40)]
    assert set(classes) == {1.0, -1.0}


def test_nothing_moves_where_rows_are_read_by_their_numbers() -> None:
    _, target, _ = image_and_square()
    make = MovedTargets(target[None], Moved(OF_TASKS["segmentation"], SIDE).map)
    assert torch.equal(make(0, None), target)
    assert not torch.equal(make(0, sample_generator(0, 1, 0)), target)


def test_frames_of_a_clip_move_alike() -> None:
    clip = image_and_square()[0].expand(4, -1, -1, -1)
    moves = replace(OF_TASKS["video"], noise=0.0)
    moved = Moved(moves, SIDE).image(clip, sample_generator(0, 1, 0))
    assert torch.equal(moved[0], moved[3])
    noisy = Moved(OF_TASKS["video"], SIDE).image(clip, sample_generator(0, 1, 0))
    assert not torch.equal(noisy[0], noisy[3])


@pytest.mark.parametrize("task", ["segmentation", "medical-segmentation", "depth", "detection"])
@pytest.mark.parametrize("augment", ["randaugment", "rand-m9-n2"])
def test_what_would_move_images_alone_is_refused(task: str, augment: str) -> None:
    with pytest.raises(UsageError, match=f"augment={augment} moves images, and not what their places are labelled"):
        moves_of(augment, task)


def test_episodes_are_not_varied() -> None:
    for task in ("few-shot", "few-shot-gate"):
        assert moves_of("gate", task) is None
        assert moves_of("none", task) is None
        with pytest.raises(UsageError, match="augment=crop: images of episodes are not varied"):
            moves_of("crop", task)


def test_every_task_is_varied_as_gate_does() -> None:
    assert augmentation_for("gate", "few-shot") == "none"
    assert augmentation_for("gate", "relational") == augmentation_for("gate", "image-text") == "randaugment"
    assert augmentation_for("gate", "segmentation") == "crop of 1/2 of each side and flip and colours"
    assert "quarter turns" in augmentation_for("gate", "video-regression")


@pytest.mark.parametrize("name", ["ade20k", "acdc", "nyu-depth", "odinw-lot"])
@pytest.mark.parametrize("augment", ["gate", "crop-flip"])
def test_a_training_gets_targets_of_its_moved_images(
    name: str, augment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same draws for both, seen in the calls that a real training makes."""
    drawn: dict[str, list[int]] = {"image": [], "map": [], "boxes": []}

    def listening(kind: str, original: Any) -> Any:
        def call(self: Moved, value: Tensor, generator: torch.Generator) -> Tensor:
            drawn[kind].append(generator.initial_seed())
            result: Tensor = original(self, value, generator)
            return result

        return call

    for kind in drawn:
        monkeypatch.setattr(joint.Moved, kind, listening(kind, getattr(Moved, kind)))
    fields = {"augment": augment, "head_start": "random", "steps": 2, "validate_every": 2, "batch_size": 4}
    (result,) = gate_runner.run(
        f"micro/{name}", encoder="micro-dense/random", output=tmp_path / "run", tune="full", limit=12, show=False,
        recipe_fields=fields, isolate="none", device="cpu",
    )  # fmt: skip
    assert result.status == "ok", result.reason
    targets = drawn["map"] or drawn["boxes"]
    assert len(targets) == 8
    assert sorted(drawn["image"]) == sorted(targets)


def test_workers_decode_images_that_are_not_augmented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(24):
        folder = tmp_path / "data" / ("red" if number % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        colour = (200, number, 0) if number % 2 else (0, number, 200)
        Image.new("RGB", (80, 70), colour).save(folder / f"{number}.png")
    path = tmp_path / "data" / "benchmark.toml"
    write_benchmark(guess(tmp_path / "data").values, path)
    streamed: list[int] = []
    by_workers = SampleRows._by_workers

    def listening(self: SampleRows, draws: Any) -> Any:
        streamed.append(self.workers)
        return by_workers(self, draws)

    monkeypatch.setattr(SampleRows, "_by_workers", listening)
    scores = []
    for workers in (0, 1):
        (result,) = gate_runner.run(
            str(path), encoder="micro-dense/random", output=tmp_path / f"{workers}", tune="full",
            show=False, recipe_fields={"steps": 2, "validate_every": 1, "batch_size": 4}, isolate="none", device="cpu",
            decode_workers=workers,
        )  # fmt: skip
        assert result.status == "ok", result.reason
        scores.append((result.scores, result.training["validation"]))
    assert streamed == [1]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("name", ["flickr30k", "clevr-math", "iwildcam"])
def test_images_that_are_indexed_are_augmented_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captions of one image draw it by its number, and read it unvaried."""
    changed: list[int] = []
    original = augmentation.varied

    def listening(*arguments: Any) -> Tensor:
        changed.append(1)
        return original(*arguments)

    monkeypatch.setattr(augmentation, "varied", listening)
    fields = {"augment": "randaugment", "head_start": "random", "steps": 2, "validate_every": 2, "batch_size": 2}
    (result,) = gate_runner.run(
        f"micro/{name}", encoder="micro-dense/random", output=tmp_path / "run", tune="full", show=False,
        limit=12, recipe_fields=fields, isolate="none", device="cpu",
    )  # fmt: skip
    assert result.status == "ok", result.reason
    assert len(changed) >= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "gate"}, "--recipe gate is for encoders"),
        ({"recipe_fields": {"augment": "flip"}}, "augment=flip is for encoders; a detector's images are not varied"),
    ],
)
def test_what_detectors_are_not_trained_with_is_refused(options: dict[str, Any], message: str) -> None:
    nothing: Any = SimpleNamespace()
    job: Any = SimpleNamespace(settings=Settings(tune="full", **options))
    with pytest.raises(UsageError, match=message):
        tune_detector(job, nothing, [], nothing, nothing)
