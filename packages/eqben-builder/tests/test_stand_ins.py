"""The drawn sets: made from seeds, the same whatever the limit, and true to what they claim to show."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from eqben_builder.micro import COLOURS, SHAPES, generator_at, sample_scene
from eqben_builder.stand_ins import STAND_INS, TEXTS, Boxes, clips, medical, questions
from eqben_builder.stand_ins.drawing import IGNORED, SEEDS, draw, scenes_of

PAGE = Path(__file__).parents[3] / "docs" / "packages" / "eqben-builder.md"
SPLITS = ("train", "validation", "test")


def splits_of(drawn):
    return [getattr(drawn, name) for name in SPLITS]


def test_no_two_sets_share_a_seed():
    used = [first + index for first in SEEDS.values() for index in range(3)]
    assert len(set(used)) == len(used)
    assert max(used) < 100_000
    assert set(STAND_INS) - set(SEEDS) == {"room_depths"}  # the rooms of `rooms`


@pytest.mark.parametrize("name", STAND_INS)
def test_a_set_has_the_shapes_that_its_record_says_and_begins_alike_under_a_limit(name):
    few, more = STAND_INS[name](5), STAND_INS[name](12)
    assert few.classes == more.classes
    for split, longer in zip(splits_of(few), splits_of(more), strict=True):
        n = len(split)
        assert split.images.dtype == np.uint8
        assert split.images.shape[-3:] in ((64, 64, 3), (32, 32, 3))
        assert len(split.targets) == n
        assert n == 0 or len(split.texts or ()) % n == 0
        assert np.array_equal(longer.images[:n], split.images)
        if isinstance(split.targets, tuple):
            assert all(isinstance(boxes, Boxes) and boxes.box.shape == (len(boxes.label), 4) for boxes in split.targets)
            continue
        assert np.array_equal(longer.targets[:n], split.targets)
        assert split.targets.dtype in (np.int64, np.float32)
        if split.targets.dtype == np.int64 and few.classes:
            assert set(np.unique(split.targets)) <= {IGNORED, *range(len(few.classes))}
    images = [image.tobytes() for split in splits_of(few) for image in split.images]
    assert len(set(images)) == len(images)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="limit = 0, expected at least 1"):
        STAND_INS["plates"](0)


def test_a_limit_keeps_the_images_of_a_class_that_an_episode_takes():
    full, few = STAND_INS["birds"](None), STAND_INS["birds"](24)
    first = np.arange(24) // 6 * 20 + np.arange(24) % 6
    for whole, part in zip(splits_of(full), splits_of(few), strict=True):
        assert np.array_equal(whole.images[first], part.images)
        assert np.array_equal(whole.targets[first], part.targets)
    assert len(set(few.classes)) == len(few.classes) == 120
    kinds = [set(split.targets.tolist()) for split in splits_of(full)]
    assert [len(kind) for kind in kinds] == [60, 20, 40]  # numbered in each split: the names of all follow one another


@pytest.mark.parametrize("name", ["coloured_shapes", "patterned_shapes"])
def test_classes_are_balanced(name):
    drawn = STAND_INS[name](420)
    for split in splits_of(drawn):
        counts = np.bincount(split.targets, minlength=len(drawn.classes))
        assert counts.max() - counts.min() <= 1


def test_the_noise_of_an_image_does_not_depend_on_the_others():
    scenes = scenes_of(5, 300, lambda rng, _: sample_scene(rng, 2))
    images = draw(scenes, 5, noise=0.1).images
    assert np.array_equal(images[:7], draw(scenes[:7], 5, noise=0.1).images)
    assert np.array_equal(images[290:], draw(scenes[290:], 5, noise=0.1, numbers=range(290, 300)).images)


def test_maps_show_the_shape_that_is_nearest():
    test = STAND_INS["shape_maps"](30).test
    assert set(np.unique(test.targets)) <= set(range(1 + len(SHAPES)))
    inside = [image[where > 0].std() for image, where in zip(test.images, test.targets, strict=True)]
    outside = [image[where == 0].std() for image, where in zip(test.images, test.targets, strict=True)]
    assert np.all(np.array(inside) > np.array(outside))


def test_boxes_are_the_tightest_around_what_is_visible():
    """Of the lot, whose things are brighter than its ground: no bright row or column lies outside of all boxes."""
    for image, boxes in zip(*(getattr(STAND_INS["boxed_lot"](12).test, name) for name in ("images", "targets")),
                            strict=True):  # fmt: skip
        covered = np.zeros(image.shape[:2], dtype=bool)
        for x, y, wide, high in boxes.box.astype(int).tolist():
            covered[y : y + high, x : x + wide] = True
            bright = image[y : y + high, x : x + wide].max(axis=-1) > 160
            assert all(edge.any() for edge in (bright[:2], bright[-2:], bright[:, :2], bright[:, -2:]))
        assert np.all(boxes.area <= boxes.box[:, 2] * boxes.box[:, 3])
        assert (image.max(axis=-1) > 200)[~covered].mean() < 0.01


def test_the_heart_shrinks_towards_the_apex_and_brightness_says_nothing_of_a_chamber():
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


def test_slices_of_a_heart_stay_together():
    split = STAND_INS["hearts"](10).test
    assert split.groups.tolist() == [0] * 8 + [1] * 8


def test_meetings_differ_in_the_tool_or_in_the_way():
    drawn = STAND_INS["meetings"](12)
    assert sorted(drawn.train.targets.tolist()) == sorted(2 * list(range(6)))
    assert drawn.classes[:2] == ("approaching a cross", "leaving a cross")


def answer(text, scene):
    """Another way to the answer: read the question word by word."""
    numbers = {word: value for value, word in enumerate(questions.ANSWERS)}
    words = text.replace(".", " ").replace("?", " ").split()

    def count(phrase):
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


def test_answers_are_right():
    kinds = set()
    for index in range(400):
        rng = generator_at(77, index)
        scene = sample_scene(rng, (1, 5))
        text, label = questions.question(rng, scene)
        assert label == answer(text, scene), (text, scene)
        kinds.add(" ".join(text.split()[:1]) + text.split()[-2])
    assert len(kinds) >= 3


def test_every_answer_occurs_and_none_dominates():
    drawn = STAND_INS["count_questions"](700)
    shares = np.bincount(drawn.train.targets, minlength=7) / len(drawn.train)
    assert shares.min() > 0.05
    assert shares.max() < 0.3


def test_animals_are_distinguished_by_their_outline_alone():
    counts = set()
    for index in range(30):
        scenes, animals = clips.clip(generator_at(3, index))
        first, last = scenes[0].items, scenes[-1].items
        assert sum(item.shape in clips.ANIMALS for item in first) == animals
        assert len(first) == clips.MOST
        assert all((before.x, before.y) != (after.x, after.y) for before, after in zip(first, last, strict=True))
        assert all(0 <= item.x <= 1 and 0 <= item.y <= 1 for scene in scenes for item in scene.items)
        counts.add(animals)
    assert counts == set(range(clips.MOST + 1))


def test_texts_are_of_the_sets_own_classes():
    assert set(TEXTS) == {"makers", "things", "textures", "counting", "colours", "shapes"}
    for name, texts in TEXTS.items():
        assert STAND_INS[name](2).classes == tuple(texts.classes)
        for sentences in texts.knowledge.values():
            assert set(sentences) <= set(texts.classes)
        assert all("{}" in template for template in texts.templates)


def test_the_page_lists_every_set():
    if not PAGE.exists():
        pytest.skip("the page is not part of an installed package")
    section = PAGE.read_text(encoding="utf-8").split("## Synthetic stand-ins")[1].split("## The micro world")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    assert sorted(listed) == sorted(STAND_INS)
    assert f"{len(STAND_INS)} small data sets" in section
