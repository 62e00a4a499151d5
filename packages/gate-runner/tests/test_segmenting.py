"""Zero-shot segmentation's parts against slow definitions: windows, answers, refinement, counts, words, presets."""

from __future__ import annotations

import hashlib
import os
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gate_runner.errors import DataError, UsageError
from gate_runner.settings import Settings
from gate_runner.settings.values import PATCH_FEATURES, list_digest
from gate_runner.settings.values import PRESETS as PRESET_NAMES
from gate_runner.tasks.segmenting import counts
from gate_runner.tasks.segmenting.answers import Answer, answer
from gate_runner.tasks.segmenting.pamr import affinities, refined
from gate_runner.tasks.segmenting.presets import PRESETS, SETS, find_preset
from gate_runner.tasks.segmenting.published import NAMES, presets_table, published, published_table
from gate_runner.tasks.segmenting.windows import Cutting, Scored, Scorer, between, stretched
from gate_runner.tasks.segmenting.words import LISTS, list_of, words_of
from knowledge_prompts.class_words import ClassWords
from vision_adapters.losses import IGNORED
from vision_features.encoders import load_encoder
from vision_features.encoders.patch_features import VARIANTS, find_variant
from vision_features.encoders.surgery import Surgery


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# windows


@pytest.mark.parametrize("size", [(7, 9), (13, 5), (30, 41)])
def test_lines_are_those_of_a_stretched_map(size: tuple[int, int]) -> None:
    maps = torch.randn(3, 7, 6, generator=generator())
    whole = F.interpolate(maps[None], size, mode="bilinear", align_corners=False)[0]
    torch.testing.assert_close(stretched(maps, size, 0, size[0]), whole, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(stretched(maps, size, 2, 5), whole[:, 2:5], atol=1e-5, rtol=1e-5)
    assert torch.equal(between(maps, 7, 0, 7), maps)


def slow_canvas(scored: Scored) -> torch.Tensor:
    """The whole image's scores at once, as the published codes have them."""
    total = torch.zeros(scored.patches.shape[1], *scored.size)
    count = torch.zeros(scored.size)
    high, wide = scored.window
    for scores, (top, left) in zip(scored.patches, scored.places, strict=True):
        total[:, top : top + high, left : left + wide] += F.interpolate(
            scores[None], scored.window, mode="bilinear", align_corners=False
        )[0]
        count[top : top + high, left : left + wide] += 1
    assert bool((count > 0).all())
    return F.interpolate((total / count)[None], scored.shape, mode="bilinear", align_corners=False)[0]


def some_scores(shape: tuple[int, int], words: int = 5, window: int = 16, stride: int = 6) -> Scored:
    cutting = Cutting(16, window, stride, 4, False)
    size = cutting.shape(*shape)
    places = cutting.places(*size)
    patches = torch.randn(len(places), words, 4, 4, generator=generator(1))
    return Scored(patches, places, (window, window), size, shape)


@pytest.mark.parametrize("shape", [(16, 16), (23, 40), (50, 17), (9, 31)])
def test_lines_of_an_image_are_those_of_the_whole_canvas(shape: tuple[int, int]) -> None:
    scored = some_scores(shape)
    whole = slow_canvas(scored)
    for first, last in ((0, shape[0]), (0, 1), (shape[0] - 1, shape[0]), (3, 7)):
        lines = scored.lines(slice(1, 4), first, last)
        torch.testing.assert_close(lines, whole[1:4, first:last], atol=2e-5, rtol=1e-4)


def test_windows_lie_as_the_published_codes_lay_them() -> None:
    cutting = Cutting(336, 224, 112, 16, False)
    assert cutting.shape(375, 500) == (336, 448)
    assert cutting.places(336, 448) == [(top, left) for top in (0, 112) for left in (0, 112, 224)]
    assert Cutting(336, 224, 112, 16, False)._starts(400) == [0, 112, 176]
    assert cutting.shape(100, 2000) == (224, 2048)  # the longer side has a limit, and a window fits
    whole = Cutting(336, 0, 0, 16, False)
    assert whole.shape(375, 500) == (336, 448)
    assert whole.places(336, 448) == [(0, 0)]


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_scores_do_not_depend_on_the_batch(batch: int) -> None:
    encoder = load_encoder("micro-clip/random")
    words = F.normalize(torch.randn(4, 128, generator=generator(2)), dim=-1)
    images = [
        torch.randint(0, 256, (3, *shape), generator=generator(3), dtype=torch.uint8)
        for shape in ((64, 64), (70, 150), (64, 64))
    ]
    cutting = Cutting(64, 64, 32, 8, True)
    scorer = Scorer(Surgery(encoder), find_variant("sclip"), words, cutting, batch)
    scored = list(scorer.over(images))
    assert [entry.shape for entry in scored] == [(64, 64), (70, 150), (64, 64)]
    alone = [next(iter(scorer.over([image]))) for image in images]
    for together, single in zip(scored, alone, strict=True):
        torch.testing.assert_close(together.patches, single.patches, atol=1e-5, rtol=1e-4)
    tokens = Surgery(encoder).encode(encoder.prepare(images[0][None]), find_variant("sclip")).tokens
    expected = (F.normalize(tokens, dim=-1) @ words.T).transpose(1, 2).reshape(1, 4, 8, 8)
    torch.testing.assert_close(scored[0].patches, expected, atol=1e-5, rtol=1e-4)


def test_whole_images_pass_at_their_own_shape() -> None:
    encoder = load_encoder("micro-clip/random")
    images = [torch.zeros(3, 64, 64, dtype=torch.uint8), torch.zeros(3, 60, 121, dtype=torch.uint8)]
    scorer = Scorer(Surgery(encoder), find_variant("naclip"), torch.randn(2, 128), Cutting(64, 0, 0, 8, False), 8)
    assert [tuple(entry.patches.shape) for entry in scorer.over(images)] == [(1, 2, 8, 8), (1, 2, 8, 16)]
    assert encoder.image_size == 64


# answers


def slow_answer(canvas: torch.Tensor, of_class: list[int], scale: float) -> Answer:
    """The softmax over words, the largest word of each class, the largest class: as the published codes have it."""
    probabilities = (canvas.double() * scale).softmax(dim=0)
    classes = torch.stack(
        [
            probabilities[[word for word, owner in enumerate(of_class) if owner == label]].amax(dim=0)
            for label in range(max(of_class) + 1)
        ]
    )
    confidence, best = classes.max(dim=0)
    return Answer(best, confidence)


@pytest.mark.parametrize("most", [1, 200, 10_000_000])
def test_an_answer_is_its_slow_definition_whatever_fits_into_memory(most: int) -> None:
    scored, of_class = some_scores((23, 40)), [0, 0, 1, 2, 1]
    expected = slow_answer(slow_canvas(scored), of_class, 7.0)
    given = answer(scored, torch.tensor(of_class), 7.0, most_values=most)
    assert float((given.classes == expected.classes).double().mean()) > 0.999  # ties of rounding
    torch.testing.assert_close(given.confidence, expected.confidence.float(), atol=1e-4, rtol=1e-4)
    dropped = given.above(0.9, 2)
    assert torch.equal(dropped == 2, (given.classes == 2) | (given.confidence < 0.9))
    assert torch.equal(given.above(0.9, None), given.classes)


def test_classes_of_little_area_go_to_the_next_word() -> None:
    scored, of_class = some_scores((23, 40)), [0, 1, 2, 3, 4]
    probabilities = (slow_canvas(scored) * 7.0).softmax(dim=0)
    first = probabilities.argmax(dim=0)
    areas = torch.bincount(first[first != 0], minlength=5)
    large = areas > 0.2 * areas.sum()
    large[0] = True
    assert 0 < int(large.sum()) < 5
    expected = (probabilities * large[:, None, None]).argmax(dim=0)
    given = answer(scored, torch.tensor(of_class), 7.0, least_area=0.2, background=0, most_values=300)
    assert float((given.classes == expected).double().mean()) > 0.999


# refinement


def slow_pamr(image: np.ndarray, maps: np.ndarray, dilations: tuple[int, ...], steps: int) -> np.ndarray:
    """By loops over pixels, in float64."""
    channels, high, wide = image.shape
    around = [(d, a) for d in (-1, 0, 1) for a in (-1, 0, 1) if d or a]

    def at(values: np.ndarray, row: int, column: int) -> float:
        return float(values[min(max(row, 0), high - 1), min(max(column, 0), wide - 1)])

    for step in range(steps):
        del step
        following = np.zeros_like(maps)
        for row in range(high):
            for column in range(wide):
                places = [(row + d * by, column + a * by) for by in dilations for d, a in around]
                alike = [0.0] * len(places)
                for channel in range(channels):
                    own = at(image[channel], row, column)
                    near = [at(image[channel], *place) for place in places]
                    spread = np.std([*near, *[own] * len(dilations)], ddof=1)
                    for number, value in enumerate(near):
                        alike[number] -= abs(own - value) / (1e-8 + 0.1 * spread) / channels
                powers = [exp(value - max(alike)) for value in alike]
                for label in range(len(maps)):
                    taken = sum(power * at(maps[label], *place) for power, place in zip(powers, places, strict=True))
                    following[label, row, column] = taken / sum(powers)
        maps = following
    return maps


def test_refinement_is_its_slow_definition() -> None:
    image, maps = torch.rand(3, 6, 7, generator=generator(4)), torch.randn(2, 6, 7, generator=generator(5))
    given = refined(maps, affinities(image, (1, 2)), (1, 2), 3)
    expected = slow_pamr(image.double().numpy(), maps.double().numpy(), (1, 2), 3)
    np.testing.assert_allclose(given.numpy(), expected, atol=2e-4)
    assert float(affinities(torch.full((3, 6, 7), 0.3)).std()) < 1e-6  # an even image has no edges


def test_refined_answers_do_not_depend_on_how_many_words_fit() -> None:
    scored, of_class = some_scores((23, 40)), torch.tensor([0, 1, 2, 3, 4])
    image = torch.randint(0, 256, (3, 23, 40), generator=generator(6), dtype=torch.uint8)
    few, many = (answer(scored, of_class, 7.0, image=image, most_values=most) for most in (1, 10**9))
    assert torch.equal(few.classes, many.classes)
    assert float((few.classes == answer(scored, of_class, 7.0).classes).double().mean()) < 0.99


# counts


def mmseg_miou(answers: list[np.ndarray], truths: list[np.ndarray], classes: int) -> tuple[float, float, float]:
    """mmsegmentation's mIoU, mAcc and aAcc: areas of intersection and union are summed over images first."""
    intersect, union, label = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    for given, true in zip(answers, truths, strict=True):
        mask = true != IGNORED
        given, true = given[mask], true[mask]
        hit = given[given == true]
        areas = [np.histogram(part, bins=classes, range=(0, classes - 1))[0] for part in (hit, given, true)]
        intersect += areas[0]
        union += areas[1] + areas[2] - areas[0]
        label += areas[2]
    with np.errstate(invalid="ignore"):
        return float(np.nanmean(intersect / union)), float(np.nanmean(intersect / label)), intersect.sum() / label.sum()


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_mmsegmentation_on_random_maps_with_ignored_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, shapes = 7, [(11, 13), (5, 8), (20, 4)]
    truths = [rng.integers(0, classes, shape) for shape in shapes]
    answers = [
        np.where(rng.random(shape) < 0.4, true, rng.integers(0, classes, shape))
        for true, shape in zip(truths, shapes, strict=True)
    ]
    truths = [np.where(rng.random(true.shape) < 0.2, IGNORED, true) for true in truths]
    rows = np.stack(
        [counts.pixels(torch.from_numpy(a), torch.from_numpy(t), classes) for a, t in zip(answers, truths, strict=True)]
    )
    scores = counts.scores(rows, rows, ("miou", "mean_acc", "overall_acc"), 0, 0)
    expected = mmseg_miou(answers, truths, classes)
    assert [score.value for score in scores[:3]] == pytest.approx(expected, abs=1e-12)
    assert all(score.low <= score.value <= score.high for score in scores[1:3])
    by_class = [row["iou"][0] for row in counts.by_class(rows, [str(label) for label in range(classes)], 0)]
    assert float(np.mean(by_class)) == pytest.approx(expected[0], abs=1e-12)
    assert scores[3].metric == "miou_things"
    assert scores[3].value == pytest.approx(float(np.mean(by_class[1:])), abs=1e-12)


def test_a_class_without_a_pixel_is_left_out_of_the_mean() -> None:
    truth, given = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 2, 1, 1]])
    rows = counts.pixels(given, truth, 3)[None]
    assert counts.interval(rows, 0)[0] == pytest.approx((0.5 + 1) / 2)
    assert [row["iou"] is None for row in counts.by_class(rows, ["a", "b", "c"], 0)] == [False, False, True]


def test_maps_that_cannot_be_counted_say_why() -> None:
    with pytest.raises(DataError, match="class map has 2 x 3 pixels, its image 3 x 2: expected the same size"):
        counts.pixels(torch.zeros(3, 2), torch.zeros(2, 3), 2)
    with pytest.raises(DataError, match="has the value 7, expected 0 to 1 or -100"):
        counts.pixels(torch.zeros(1, 2), torch.tensor([[0, 7]]), 2)


def test_the_curve_is_what_each_threshold_gives_alone() -> None:
    rng = np.random.default_rng(0)
    truths = [torch.from_numpy(rng.integers(0, 4, (9, 9))) for _ in range(3)]
    truths[0][:2] = IGNORED
    answers = [
        Answer(torch.from_numpy(rng.integers(0, 4, (9, 9))), torch.from_numpy(rng.random((9, 9)).astype(np.float32)))
        for _ in truths
    ]
    answers[1].confidence[0, 0] = 0.25  # on a threshold: it stays
    curve = counts.Curve(4, 1)
    for given, truth in zip(answers, truths, strict=True):
        curve.add(given.classes, given.confidence, truth)
    for threshold, value in curve.points():
        rows = np.stack([counts.pixels(a.above(threshold, 1), t, 4) for a, t in zip(answers, truths, strict=True)])
        assert value == pytest.approx(counts.interval(rows, 0, 0)[0], abs=1e-12), threshold
    assert curve.best() == max(curve.points(), key=lambda point: point[1])[0]


# words


CLASSES = ("background", "person", "tv")


def test_words_come_from_names_synonyms_and_published_lists(tmp_path: Path) -> None:
    plain = words_of(CLASSES, background="background", synonyms={"person": ["man", "woman", "person"]})
    assert plain.words == ("background", "person", "man", "woman", "tv")
    assert (plain.of_class, plain.background) == ((0, 1, 1, 1, 2), 0)
    for separator in (", ", "; ", ";"):
        file = tmp_path / "cls.txt"
        file.write_text(f"sky{separator}wall\nperson{separator}person in shirt\ntelevision monitor\n")
        listed = words_of(CLASSES, file=file, background="background")
        assert listed.words == ("sky", "wall", "person", "person in shirt", "television monitor")
        assert listed.of_class == (0, 0, 1, 1, 2)
        assert len(listed.digest) == 32
    without = words_of(CLASSES, background="background", by_threshold=True)
    assert (without.words, without.of_class) == (("person", "tv"), (1, 2))
    assert "2 words for 2 classes, none for the background" in without.sentence


def test_words_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="word 'tv' stands for two classes, 'person' and 'tv'"):
        words_of(CLASSES, synonyms={"person": ["tv"]})
    file = tmp_path / "cls.txt"
    file.write_text("sky\nperson\nperson\n")
    with pytest.raises(UsageError, match="word 'person' stands for two classes, 'person' and 'tv'"):
        words_of(CLASSES, file=file)
    file.write_text("sky\nperson\n\n")
    with pytest.raises(DataError, match=r"cls.txt has 2 lines, and there are 3 classes \('background' to 'tv'\)"):
        words_of(CLASSES, file=file)
    file.write_text("sky\n , \nscreen\n")
    with pytest.raises(DataError, match=r"cls\.txt, line 2: no word for the class 'person'"):
        words_of(CLASSES, file=file)
    with pytest.raises(DataError, match="cannot be read"):
        words_of(CLASSES, file=tmp_path / "none.txt")
    with pytest.raises(UsageError, match="synonyms are given for 'cat', which is no class"):
        words_of(CLASSES, synonyms={"cat": ["kitten"]})
    with pytest.raises(UsageError, match="background class 'sky' is not among the classes"):
        words_of(CLASSES, background="sky")
    with pytest.raises(UsageError, match="needs data with a background class"):
        words_of(CLASSES, by_threshold=True)


def test_a_list_with_a_mark_of_its_bytes_has_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "cls.txt").write_bytes(b"\xef\xbb\xbfsky\nperson\ntv\n")
    assert words_of(CLASSES, file=tmp_path / "cls.txt").words == ("sky", "person", "tv")


def test_lists_that_are_pipes_or_without_end_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cls_voc21.txt")
    for path in (tmp_path, tmp_path / "cls_voc21.txt"):
        with pytest.raises(DataError, match=r"cls_voc21\.txt is no file that holds data, but a pipe"):
            list_digest(path)
    with pytest.raises(DataError, match="a pipe"):
        words_of(CLASSES, file=tmp_path / "cls_voc21.txt")
    (tmp_path / "cls_voc21.txt").unlink()
    (tmp_path / "cls_voc21.txt").write_bytes(b"a" * 1_000_001)
    with pytest.raises(DataError, match="more than 1,000,000 bytes"):
        list_digest(tmp_path)


def test_a_folder_of_lists_is_known_by_what_each_holds(tmp_path: Path) -> None:
    (tmp_path / "cls_a.txt").write_text("sky\nperson\n")
    (tmp_path / "cls_b.txt").write_text("tv\n")
    first = list_digest(tmp_path)
    (tmp_path / "cls_a.txt").write_text("sky\n")
    (tmp_path / "cls_b.txt").write_text("person\ntv\n")
    assert list_digest(tmp_path) != first


def test_a_published_list_may_have_a_word_twice_and_a_folder_has_a_list_for_each_set(tmp_path: Path) -> None:
    """The published lists of COCO-Object have beds in the background and as a class: the background then has them."""
    file = tmp_path / "cls_voc21.txt"
    file.write_text("sky, bed\nperson\nbed\n")
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    words = words_of(CLASSES, file=file, background="background", published=digest)
    assert (words.words, words.of_class) == (("sky", "bed", "person", "bed"), (0, 0, 1, 2))
    assert "'bed' is both 'background' and 'tv'" in words.sentence
    weights, _ = words.embedded(lambda texts: np.array([[len(text), 1.0] for text in texts]), ClassWords(("a {}",)))
    assert torch.equal(weights[1], weights[3])
    with pytest.raises(UsageError, match="word 'bed' stands for two classes, 'background' and 'tv'"):
        words_of(CLASSES, file=file, published="another")
    assert list_of(tmp_path, "voc21") == file
    assert list_of(file, "anything") == file
    with pytest.raises(DataError, match=r"has no cls_coco_object\.txt, the list for coco-object"):
        list_of(tmp_path, "coco-object")
    with pytest.raises(DataError, match="has none for these data: name a file"):
        list_of(tmp_path, "")


def test_each_word_is_the_mean_over_templates_and_each_text_is_encoded_once() -> None:
    texts: list[str] = []

    def encode(batch: object) -> np.ndarray:
        texts.extend(batch)  # type: ignore[call-overload]
        return np.array([[len(text), text.count("o"), 1.0] for text in batch])  # type: ignore[attr-defined]

    words = words_of(CLASSES)
    weights, templates = words.embedded(encode, ClassWords(("a {}", "no {} here")))
    assert templates == ("a {}", "no {} here")
    assert len(texts) == len(set(texts)) >= 6
    raw = np.array([[len(t := f.format("tv")), t.count("o"), 1.0] for f in templates])
    mean = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(weights[2].numpy(), mean / np.linalg.norm(mean), atol=1e-6)


# presets and settings


def test_names_of_settings_are_those_of_the_records() -> None:
    assert tuple(VARIANTS) == PATCH_FEATURES
    assert tuple(PRESETS) == PRESET_NAMES
    for preset in PRESETS.values():
        assert set(preset.sets) <= set(SETS)
        assert not preset.features or preset.features in PATCH_FEATURES
        assert set(preset.words) in (set(), set(SETS))
    assert set(LISTS) == set(NAMES) == set(SETS)


def test_published_rows_name_known_sets_presets_and_their_sources() -> None:
    for row in published():
        assert set(row["scores"]) <= set(SETS)
        assert row.get("preset", "encoder") in PRESETS
        assert row["source"].endswith(")")
    table = published_table()
    naclip = next(row for row in table.rows if "naclip" in row)
    assert (naclip[0], naclip[10], naclip[12]) == ("NACLIP", "42.5", "PAMR")
    assert len(presets_table().rows) == 4 * len(SETS)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("sclip", "voc21", (336, 224, 112, 65, 0.1, 0.1, "none")),
        ("sclip", "coco-164k", (448, 224, 112, 40, 0, 0, "none")),
        ("clearclip", "voc21", (448, 448, 224, 50, 0.5, 0, "none")),
        ("clearclip", "cityscapes", (448, 224, 224, 50, 0, 0, "none")),
        ("naclip", "voc20", (336, 0, 112, 40, 0, 0, "pamr")),
        ("naclip", "cityscapes", (560, 224, 112, 40, 0, 0, "pamr")),
        ("proxyclip", "ade20k", (448, 336, 112, 40, 0, 0, "none")),
        ("proxyclip", "coco-object", (336, 336, 112, 40, 0.25, 0, "none")),
    ],
)
def test_presets_are_the_published_settings(name: str, data: str, expected: tuple[object, ...]) -> None:
    preset = find_preset(name).of_set(data)
    given = (
        preset.side,
        preset.window,
        preset.stride,
        preset.scale,
        preset.threshold,
        preset.least_area,
        preset.refine,
    )
    assert given == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"patch_features": "sclop"}, "nearest: sclip"),
        ({"preset": "naclop"}, "nearest: naclip"),
        ({"background_threshold": "1.5"}, "number from 0 to 1, not '1.5'"),
        ({"background_threshold": "some"}, "preset, none, validation or a number"),
        ({"class_words": "nowhere.txt"}, "nowhere.txt is no file and no folder"),
    ],
)
def test_settings_that_are_none_are_refused_at_the_door(values: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings(**values)  # type: ignore[arg-type]


def test_results_are_known_by_their_setting(tmp_path: Path) -> None:
    assert not {"preset", "class_words", "background", "background_threshold", "refine"} & set(Settings().identity())
    file = tmp_path / "cls.txt"
    file.write_text("a\n")
    first = Settings(class_words=file, preset="sclip").identity()
    file.write_text("b\n")
    assert first["preset"] == "sclip"
    assert first["class_words"] != Settings(class_words=file).identity()["class_words"]
