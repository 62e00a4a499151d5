"""The stand-ins: made from seeds, the same whatever the limit, and true to what they claim to show."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from eqben_builder.micro import COLOURS, SHAPES, Scene, generator_at, sample_scene
from gate_data.data import Data
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.micro import actions, medical, questions
from gate_runner.micro.making import SEEDS, draw, scenes_of

SMALL = PACKS["small"]


def stand_in(name: str, limit: int | None = None) -> Data[Any]:
    return BENCHMARKS[name].load("micro", DataRequest(limit=limit))


def test_the_pack_is_the_papers_small_tier() -> None:
    assert SMALL == ("acdc", "ade20k", "cifar100", "clevr-math", "cubirds", "imagenet1k", "iwildcam", "mini")
    assert all("micro" in BENCHMARKS[name].sources for name in SMALL)


def test_no_two_stand_ins_share_a_seed() -> None:
    used = [first + index for first in SEEDS.values() for index in range(3)]
    assert len(set(used)) == len(used)
    assert max(used) < 100_000


@pytest.mark.parametrize("name", SMALL)
def test_a_stand_in_is_the_same_twice_and_begins_alike_under_a_limit(name: str) -> None:
    of_episodes = name in ("mini", "cubirds")  # six images of each class, which an episode takes
    full, few = stand_in(name, None if of_episodes else 56), stand_in(name, 24)
    for whole, part in zip(
        (full.train, full.validation, full.test), (few.train, few.validation, few.test), strict=True
    ):
        first = torch.arange(24)
        if of_episodes:
            first = first // 6 * 20 + first % 6
        assert torch.equal(whole.images[first], part.images)
        assert torch.equal(whole.targets[first], part.targets)
    assert few.digest() == stand_in(name, 24).digest()
    assert full.note == "synthetic stand-in"
    assert BENCHMARKS[name].name_with("micro").startswith("micro/")
    pictures = [image for split in (full.train, full.validation, full.test) for image in split.images.flatten(1)[:40]]
    assert len({picture.numpy().tobytes() for picture in pictures}) == len(pictures)


@pytest.mark.parametrize("name", ["imagenet1k", "cifar100"])
def test_classes_are_balanced(name: str) -> None:
    data = stand_in(name, 420)
    for split in (data.train, data.validation, data.test):
        counts = torch.bincount(split.targets, minlength=len(data.classes))
        assert int(counts.max() - counts.min()) <= 1


@pytest.mark.parametrize("name", ["mini", "cubirds"])
def test_test_classes_never_occur_in_training(name: str) -> None:
    names = BENCHMARKS[name].load("micro", DataRequest(limit=1)).classes
    assert len(set(names)) == len(names) == 120


def test_the_noise_of_an_image_does_not_depend_on_the_others() -> None:
    scenes = scenes_of(5, 300, lambda rng, _: sample_scene(rng, 2))
    assert torch.equal(draw(scenes, 5, noise=0.1).images[:7], draw(scenes[:7], 5, noise=0.1).images)


def test_segmentation_maps_show_the_shape_that_is_nearest() -> None:
    data = BENCHMARKS["ade20k"].load("micro", DataRequest(limit=30))
    images, maps = data.test.images.float(), data.test.targets
    assert set(maps.unique().tolist()) <= set(range(1 + len(SHAPES)))
    inside = torch.stack([image[:, where > 0].std() for image, where in zip(images, maps, strict=True)])
    outside = torch.stack([image[:, where == 0].std() for image, where in zip(images, maps, strict=True)])
    assert bool((inside > outside).all())


def test_the_heart_shrinks_towards_the_apex_and_brightness_says_nothing_of_a_chamber() -> None:
    brightness = []
    for index in range(20):
        heart = medical.volume(generator_at(1, index))
        left = (heart.labels == 3).sum(axis=(1, 2))
        assert left[0] > left[-1] > 0
        assert (heart.labels[0] == 1).sum() > 0
        assert (heart.labels[-1] == 1).sum() == 0  # the right ventricle ends first
        assert any(not np.array_equal(a, b) for a, b in pairwise(heart.labels))
        brightness.append([heart.grey[0][heart.labels[0] == chamber].mean() for chamber in (1, 2, 3)])
    order = np.argsort(brightness, axis=1)
    assert all(len(set(order[:, rank])) == 3 for rank in range(3))  # each chamber is the brightest of some heart


def test_actions_with_a_tool_differ_in_the_tool_or_in_the_way() -> None:
    data = actions.kinetics(DataRequest(limit=12))
    assert sorted(data.train.targets.tolist()) == sorted(2 * list(range(6)))
    assert data.classes[:2] == ("approaching a cross", "leaving a cross")


def answer(text: str, scene: Scene) -> int:
    """Another way to the answer: read the question word by word."""
    numbers = {word: value for value, word in enumerate(questions.ANSWERS)}
    words = text.replace(".", " ").replace("?", " ").split()

    def count(phrase: list[str]) -> int:
        if phrase[0] == "objects":
            return len(scene.items)
        if phrase[0] in COLOURS:
            return sum(item.colour == phrase[0] for item in scene.items)
        stem = phrase[0].removesuffix("es") if phrase[0] == "crosses" else phrase[0].removesuffix("s")
        return sum(item.shape == stem for item in scene.items)

    subject = words[words.index("many") + 1 :]
    if words[0] == "how":
        return count(subject)
    if words[0] == "subtract":
        return count(subject) - count(words[2:])
    return count(subject) + numbers[words[1]]


def test_answers_are_right() -> None:
    kinds = set()
    for index in range(400):
        rng = generator_at(77, index)
        scene = sample_scene(rng, (1, 5))
        text, label = questions.question(rng, scene)
        assert label == answer(text, scene), (text, scene)
        kinds.add(" ".join(text.split()[:1]) + text.split()[-2])
    assert len(kinds) >= 3


def test_every_answer_occurs_and_none_dominates() -> None:
    data = stand_in("clevr-math", 700)
    shares = torch.bincount(data.train.targets, minlength=7).float() / len(data.train)
    assert float(shares.min()) > 0.05
    assert float(shares.max()) < 0.3


def test_animals_are_told_by_their_outline_alone() -> None:
    counts = set()
    for index in range(30):
        scenes, animals = actions.clip(generator_at(3, index))
        first, last = scenes[0].items, scenes[-1].items
        assert sum(item.shape in actions.ANIMALS for item in first) == animals
        assert len(first) == actions.MOST
        assert all((before.x, before.y) != (after.x, after.y) for before, after in zip(first, last, strict=True))
        assert all(0 <= item.x <= 1 and 0 <= item.y <= 1 for scene in scenes for item in scene.items)
        counts.add(animals)
    assert counts == set(range(actions.MOST + 1))


def test_every_question_is_in_the_default_encoders_vocabulary() -> None:
    from gate_runner.encoders.micro_clip import load_micro_clip

    _, tokenizer = load_micro_clip(pretrained=False)
    data = BENCHMARKS["clevr-math"].load("micro", DataRequest(limit=300))
    questions = [*(data.train.texts or ()), *(data.test.texts or ())]
    assert not (tokenizer(questions) == tokenizer.unknown_id).any()
    assert max(len(tokenizer.split(question)) for question in questions) <= tokenizer.context_length - 2
