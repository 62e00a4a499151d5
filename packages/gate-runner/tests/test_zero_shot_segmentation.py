"""Zero-shot segmentation as a task: on stand-ins, on folders of one's own, and what cannot be scored."""

from __future__ import annotations

import hashlib
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import gate_runner
from gate_runner.benchmarks import DataRequest
from gate_runner.benchmarks.own import own_benchmark
from gate_runner.benchmarks.resolving import find_benchmark, resolve
from gate_runner.errors import DataError, MissingCapabilityError, UsageError
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.tasks import Job, Outcome, find_task_type, run_task
from gate_runner.tasks.drawing import map_colours
from gate_runner.tasks.segmenting.beside import TRAINED
from gate_runner.tasks.segmenting.presets import SETS, find_preset
from gate_runner.tasks.segmenting.tables import overview
from paired_scores.metrics import evaluate
from vision_features.encoders import load_encoder
from vision_features.encoders.own import adopt

from . import _gate_files as write

NAME = "zero-shot-segmentation"


def outcome_of(
    name: str,
    *,
    limit: int | None = 24,
    encoder: Any = "micro-clip",
    training: dict[str, Any] | None = None,
    **how: Any,
) -> Outcome:
    benchmark = find_benchmark(name)
    benchmark = replace(benchmark, training={**benchmark.training, **(training or {})})
    loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
    data = benchmark.load("micro", DataRequest(None, limit))
    return run_task(Job(loaded, benchmark, data, Settings(**how)))


def test_names_of_variants_are_found_again() -> None:
    assert [benchmark.id for benchmark in resolve([f"ade20k@{NAME}"])] == [f"ade20k@{NAME}"]
    unit = find_benchmark(f"ade20k@{NAME},features=naclip")
    assert (unit.task, unit.training["features"], unit.training["protocol_set"]) == (NAME, "naclip", "ade20k")
    own = find_benchmark(f"{NAME}@features=value")
    assert (own.id, own.training["features"]) == (f"{NAME}@features=value", "value")
    with pytest.raises(UsageError, match="no variant 'features=naclop'; expected features= with one of class-token"):
        find_benchmark(f"{NAME}@features=naclop")
    with pytest.raises(UsageError, match=f"there is ade20k@{NAME}"):
        find_benchmark("ade20k@words")


def test_words_find_more_than_the_class_token_and_far_more_than_blind_maps() -> None:
    """Disjoint intervals on half of the stand-in; all of it is in benchmarks/words_of_patches.py."""
    outcomes = {name: outcome_of(f"{NAME}@features={name}", limit=100) for name in ("value", "class-token")}
    best, plain = (outcomes[name].scores[0] for name in ("value", "class-token"))
    assert best.low > plain.high
    assert best.low > 3 * best.chance
    beside = outcomes["value"].training["beside"]
    assert beside["trained_head"]["miou"][1] > best.high
    assert beside["whole_image"]["miou"][2] < best.low
    assert beside["blind"]["miou"][0] == best.chance


def test_patches_of_micro_dense_have_words_of_large_things() -> None:
    """The good variants are above the class-token grid and the blind map, intervals and all; random weights are not."""
    encoder = load_encoder("micro-dense")
    score = {
        name: outcome_of(f"large-things@features={name}", limit=60, encoder=encoder).scores[0]
        for name in ("class-token", "value", "sclip", "clearclip", "naclip")
    }
    plain = score.pop("class-token")
    assert all(each.low > plain.high > plain.chance for each in score.values())
    assert min(each.low for each in score.values()) > 5 * plain.chance
    random = outcome_of("large-things@features=sclip", limit=60, encoder="micro-dense/random:3").scores[0]
    assert random.value < random.chance + 0.02


def test_a_score_is_the_metric_of_a_plain_loop() -> None:
    from vision_features.encoders.patch_features import find_variant
    from vision_features.encoders.surgery import Surgery

    given = outcome_of(f"{NAME}@features=maskclip", limit=10)
    encoder, benchmark = load_encoder("micro-clip"), find_benchmark(NAME)
    data = benchmark.load("micro", DataRequest(None, 10))
    words = []
    for name in data.classes:
        each = nn.functional.normalize(encoder.encode_text([f"a {name} square", f"a {name} circle"]), dim=-1)
        words.append(nn.functional.normalize(each.mean(dim=0), dim=0))
    maps = []
    for image in data.test.images:
        tokens = Surgery(encoder).encode(encoder.prepare(image[None]), find_variant("maskclip")).tokens[0]
        cosines = nn.functional.normalize(tokens, dim=-1) @ torch.stack(words).T
        square = cosines.T.reshape(1, len(words), 8, 8)
        maps.append(nn.functional.interpolate(square, (64, 64), mode="bilinear")[0].argmax(dim=0))
    expected = evaluate("overall_acc", torch.stack(maps).short(), data.test.targets, resamples=0).value
    assert next(score.value for score in given.scores if score.metric == "overall_acc") == pytest.approx(
        expected, abs=1e-3
    )


def test_backgrounds_are_words_or_thresholds() -> None:
    name = f"ade20k@{NAME},features=sclip"
    chosen = outcome_of(name, background_threshold="validation", background="threshold")
    about = chosen.training["threshold"]
    assert about["rule"] == "validation"
    assert dict(map(tuple, about["validation"]))[about["value"]] == max(value for _, value in about["validation"])
    assert [score.metric for score in chosen.scores] == ["miou", "mean_acc", "overall_acc", "miou_things"]
    on_curve = dict(map(tuple, about["curve"]))[about["value"]]
    assert on_curve == pytest.approx(chosen.scores[0].value, abs=1e-9)
    fixed = outcome_of(name, background_threshold=0.55)
    assert fixed.training["threshold"]["value"] == 0.55
    assert "threshold 0.55 (fixed)" in fixed.training["setting"]
    plain = outcome_of(name)
    assert plain.training["threshold"]["curve"][0][1] == pytest.approx(plain.scores[0].value, abs=1e-9)
    with pytest.raises(UsageError, match="background=threshold needs a threshold"):
        outcome_of(name, background="threshold")
    with pytest.raises(UsageError, match="needs a background class; zero-shot-segmentation@features=sclip has none"):
        outcome_of(f"{NAME}@features=sclip", background_threshold="0.3")


def test_a_second_encoder_and_refinement_are_in_a_column_of_their_own() -> None:
    given = outcome_of(f"{NAME}@features=proxyclip", limit=6, proxy="micro-clip/random:1", refine="pamr")
    assert given.training["used"] == "second encoder micro-clip/random:1, PAMR"
    assert "also used: second encoder micro-clip/random:1, PAMR" in given.training["setting"]
    with pytest.raises(UsageError, match="need a second encoder: --setting proxy=SPEC"):
        outcome_of(f"{NAME}@features=proxyclip", limit=6)


def test_a_preset_is_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(find_preset("sclip"), side=128, window=64, stride=32, templates=())
    monkeypatch.setitem(gate_runner.tasks.segmenting.presets.PRESETS, "sclip", small)
    given = outcome_of(f"{NAME}@features=sclip", limit=6, preset="sclip", training={"protocol_set": "voc21"})
    line = given.training["setting"]
    assert "preset sclip: short side 128 (long at most 2048), windows of 64, stride 32, scale 65" in line
    assert "classes below 0.1 of an image dropped" in line
    assert "no threshold" in line  # these data have no background
    assert "not the preset's published list" in line


def test_a_run_a_report_and_a_table(tmp_path: Path) -> None:
    done = gate_runner.run(NAME, limit=16, patch_features="sclip,class-token", output=tmp_path / "run", show=False)
    assert [result.status for result in done.results] == ["ok", "ok"]
    (table,) = overview([read_run(tmp_path / "run")])
    assert [row[1] for row in table.rows] == ["sclip", "class-token"]
    assert table.rows[0][5] == "best"
    assert table.rows[1][5][:3] in ("yes", "no,")
    gate_runner.report(tmp_path / "run", output=tmp_path / "page.html", pictures=10)
    page = (tmp_path / "page.html").read_text()
    assert page.count("image, truth and answer") >= 20
    assert "Linear head trained on the same patches" in page
    keys = re.findall(r'aria-label="Colours of classes">(.*?)</ul>', page)
    named = [re.findall(r'fill="(#[0-9a-f]{6})"/></svg>(\w+)<', key) for key in keys]
    assert [[name for _, name in entries] for entries in named] == [list(classes_of_colours())] * 2
    assert all(len({colour for colour, _ in entries}) == 10 for entries in named)


def classes_of_colours() -> tuple[str, ...]:
    return find_benchmark(NAME).load("micro", DataRequest(None, 5)).classes


def test_a_class_has_the_colour_that_the_key_names() -> None:
    labels = np.array([[0, 2, 1], [255, -100, 2]])
    pixels, key = map_colours(labels, ("background", "cat", "dog"))
    assert set(key) == {"background", "cat", "dog", "counts nowhere"}
    for (row, column), name in {(0, 0): "background", (0, 1): "dog", (0, 2): "cat", (1, 1): "counts nowhere"}.items():
        assert tuple(pixels[row, column]) == key[name]
    assert tuple(pixels[1, 0]) == key["counts nowhere"] == (255, 255, 255)
    many, names = map_colours(np.arange(60)[None], tuple(map(str, range(60))))
    apart = np.abs(many[0, :, None].astype(int) - many[0, None].astype(int)).sum(axis=-1)[np.triu_indices(60, 1)]
    assert apart.min() >= 12
    assert len(names) == 60


class Silent(nn.Module):
    """Images alone."""

    image_size = 8

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))


def test_what_an_encoder_lacks_is_said() -> None:
    with pytest.raises(MissingCapabilityError, match="'silent' has no text side; zero-shot segmentation needs one"):
        outcome_of(f"{NAME}@features=sclip", limit=5, encoder=adopt(Silent(), "silent"))
    model: Any = Silent()
    model.encode_image = model.forward
    model.encode_text = lambda texts: torch.ones(len(texts), 3)
    with pytest.raises(MissingCapabilityError, match="'flat' has no blocks with attention"):
        outcome_of(f"{NAME}@features=sclip", limit=5, encoder=adopt(model, "flat"))


def written(folder: Path, *, shapes: tuple[tuple[int, int], ...] = ((70, 90), (64, 64)), more: str = "") -> Path:
    """A folder of images and class maps of odd sizes, tested as they are."""
    rng = np.random.default_rng(0)
    for name in ("images", "masks"):
        (folder / name / "test").mkdir(parents=True)
    for number, shape in enumerate(shapes):
        labels = np.zeros(shape, np.uint8)
        labels[: shape[0] // 2] = 1
        labels[0, 0] = 255
        pixels = np.where(labels[..., None] == 1, (200, 20, 20), (20, 20, 200)).astype(np.uint8)
        Image.fromarray(pixels + rng.integers(0, 9, pixels.shape, dtype=np.uint8)).save(
            folder / f"images/test/{number}.png"
        )
        Image.fromarray(labels).save(folder / f"masks/test/{number}.png")
    path = folder / "benchmark.toml"
    path.write_text(
        f"""[benchmark]
id = "my-maps"
task = "zero-shot-segmentation"
[data]
kind = "maps"
root = "images"
annotations = "masks/{{}}/*.png"
[splits]
test = "test"
[classes]
names = ["blue", "red", "green"]
templates = ["a {{}} square"]
{more}
"""
    )
    return path


def own_outcome(path: Path, **how: Any) -> Outcome:
    benchmark = own_benchmark(path)
    benchmark = replace(benchmark, training={**benchmark.training, "features": "value"})
    data = benchmark.load("file", DataRequest(None, None, 64))
    return run_task(Job(load_encoder("micro-clip"), benchmark, data, Settings(**how)))


def test_own_maps_are_scored_at_their_own_size_without_training_images(tmp_path: Path) -> None:
    path = written(tmp_path, more='synonyms = { red = ["pink"] }')
    given = own_outcome(path)
    rows = given.training["by_class_iou"]
    assert sum(row["pixels"] for row in rows) == 70 * 90 + 64 * 64 - 2  # every pixel counts, but those of 255
    assert given.training["absent"] == ["green"]
    assert "4 words for 3 classes (the data's names, with synonyms)" in given.training["setting"]
    assert "trained_head" not in given.training["beside"]
    assert "for nothing trains" in given.training["beside"]["blind"]["how"]
    assert given.scores[0].value > given.scores[0].chance
    results = gate_runner.run([str(path)], patch_features=["value"], output=tmp_path / "run", show=False).results
    assert [result.name for result in results] == ["my-maps@features=value"]
    assert results[0].scores[0].value == pytest.approx(given.scores[0].value, abs=1e-6)


def test_own_maps_that_cannot_be_scored_say_why(tmp_path: Path) -> None:
    path = written(tmp_path / "sizes")
    Image.fromarray(np.zeros((10, 20), np.uint8)).save(tmp_path / "sizes/masks/test/1.png")
    with pytest.raises(DataError, match=r"another shape than their images, such as .*masks/test/1\.png: 20 x 10 for"):
        own_outcome(path)
    path = written(tmp_path / "values")
    Image.fromarray(np.full((64, 64), 9, np.uint8)).save(tmp_path / "values/masks/test/1.png")
    with pytest.raises(DataError, match=r"masks/test/1\.png has the value 9"):
        own_outcome(path)
    with pytest.raises(UsageError, match="word 'red' stands for two classes, 'blue' and 'red'"):
        own_outcome(written(tmp_path / "twice", more='synonyms = { blue = ["red"] }'))
    with pytest.raises(UsageError, match="background class 'sky' is not among the classes"):
        own_outcome(written(tmp_path / "sky", more='background = "sky"'))
    with pytest.raises(UsageError, match="has no validation images"):
        own_outcome(written(tmp_path / "none", more='background = "blue"'), background_threshold="validation")


def test_a_plan_measures_a_few_images_and_scales_them(tmp_path: Path) -> None:
    planned = gate_runner.plan(NAME, patch_features=["value"], output=tmp_path / "plan", isolate="none")
    (part,) = planned.parts
    assert not part.reason
    assert 0 < part.phases["test"] < 120
    assert part.phases["train"] > 0
    assert find_task_type(NAME).fits == TRAINED


def test_texts_are_encoded_once_for_all_kinds_of_patch_features() -> None:
    encoder, texts = load_encoder("micro-clip/random:7"), []
    encode = encoder.text
    assert encode is not None
    encoder.text = lambda batch: (texts.extend(batch), encode(batch))[1]
    for name in ("value", "sclip"):
        outcome_of(f"{NAME}@features={name}", limit=6, encoder=encoder)
    assert len(texts) == len(set(texts)) == 20  # ten words in two templates
    with torch.no_grad():
        next(encoder.module.parameters()).mul_(0.5)  # type: ignore[union-attr]  # it has a module
    outcome_of(f"{NAME}@features=value", limit=6, encoder=encoder)
    assert len(texts) == 40


def test_packs_are_the_eight_published_sets_and_the_stand_ins(tmp_path: Path) -> None:
    names = [benchmark.id for benchmark in resolve(["open-vocabulary"])]
    assert names == [f"{name}@{NAME}" for name in SETS]
    made = resolve(["micro/open-vocabulary"])
    assert [(benchmark.id, set(benchmark.sources)) for benchmark in made] == [
        (f"ade20k@{NAME}", {"micro"}),
        (NAME, {"micro"}),
        ("large-things", {"micro"}),
    ]
    write.voc(tmp_path)
    results = gate_runner.run(
        "open-vocabulary",
        data_root=tmp_path,
        patch_features=["sclip"],
        background_threshold="validation",
        output=tmp_path / "run",
        show=False,
    ).results
    assert [result.name for result in results] == [f"{name}@{NAME},features=sclip" for name in ("voc21", "voc20")]
    with_background, things = results
    assert with_background.training["threshold"]["rule"] == "validation"
    assert things.training["threshold"]["rule"] == "none"
    pixels = sum(row["pixels"] for row in with_background.training["by_class_iou"])
    assert pixels == 2 * (10 - 1) * 12  # at their own size, without the borders


BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "open_vocabulary.py"


@pytest.mark.skipif(not BENCHMARK.is_file(), reason="benchmarks lie beside a package's sources, not in its wheel")
def test_a_preset_takes_the_folder_whose_lists_are_its_own(tmp_path: Path) -> None:
    words_of = runpy.run_path(str(BENCHMARK))["words_of"]
    preset = replace(find_preset("sclip"), words={"voc20": hashlib.md5(b"cat\n").hexdigest()})
    own, other, empty = (tmp_path / name for name in ("own", "other", "empty"))
    for folder, content in ((own, b"cat\n"), (other, b"dog\n"), (empty, None)):
        folder.mkdir()
        if content is not None:
            (folder / "cls_voc20.txt").write_bytes(content)
    words_of.__globals__["find_preset"] = lambda name: preset
    assert words_of([other, empty, own], "sclip") == own
    assert words_of([], "sclip") is None
    with pytest.raises(SystemExit, match=r"other: another cls_voc20\.txt; .*empty: no cls_voc20\.txt"):
        words_of([other, empty], "sclip")
