"""Class maps and depths that stay in their files: the same results as in memory, and memory that does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.data import Data, Split
from gate_data.maps import Maps
from gate_data.readers import ClassMap
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.errors import DataError
from gate_runner.settings import Settings
from gate_runner.tasks import Job, features, run_task
from gate_runner.tasks.recipes import is_solved
from gate_runner.tasks.registry import known_task_type
from paired_scores import paired_test
from vision_adapters.losses import IGNORED
from vision_adapters.patch_ridge import LIFTS, PENALTIES
from vision_adapters.rows.counting import positive_median
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder, PatchFeatures
from vision_features.features import FeatureCache

KIND = ClassMap({7: 0, 8: 1, 9: 2}, ignored=(0,))


@pytest.fixture
def scenes(tmp_path: Path) -> Data[Maps]:
    """Three splits of images of 16 px and their maps; one map of the test split counts nowhere."""
    rng = np.random.default_rng(0)
    places = torch.arange(16).expand(3, 16, 16)

    def split(name: str, count: int) -> Split[Maps]:
        files = []
        for number in range(count):
            values = rng.integers(7, 10, (4, 4)).repeat(4, 0).repeat(4, 1).astype(np.uint8)
            values[0] = 0
            if name == "test" and number == 1:
                values[:] = 0
            files.append(str(tmp_path / f"{name}{number}.png"))
            Image.fromarray(values).save(files[-1])
        maps = Maps(tuple(files), 16, KIND.read)
        pixels = [(maps[number].clamp_min(0) * 80)[None] + places for number in range(count)]
        return Split(torch.stack(pixels).byte(), maps)

    return Data(split("train", 12), split("validation", 5), split("test", 5), ("a", "b", "c"))


def job(data: Data[Maps], encoder: Encoder, task: str = "segmentation", store: FeatureCache | None = None) -> Job:
    own = next(benchmark for benchmark in BENCHMARKS.values() if benchmark.task == task)
    training = {**own.training, "steps": 4, "validate_every": 2, "batch_size": 4}
    return Job(encoder, replace(own, training=training), data, features=store or FeatureCache())


def encoder() -> Encoder:
    def places(pixels: torch.Tensor) -> PatchFeatures:
        return PatchFeatures(torch.nn.functional.avg_pool2d(pixels.float(), 4).flatten(2).transpose(1, 2), (4, 4))

    return Encoder("made-up", 16, lambda pixels: places(pixels).tokens.mean(1), patches=places)


def test_maps_in_files_give_what_maps_in_memory_give(scenes: Data[Maps], tmp_path: Path) -> None:
    in_memory = Data(
        *(replace(split, targets=split.targets[:]) for split in (scenes.train, scenes.validation, scenes.test)),
        scenes.classes,
    )
    expected = run_task(job(in_memory, encoder()))
    stores = {
        "memory": FeatureCache(tmp_path / "a" / "encoder"),
        "disk": FeatureCache(tmp_path / "b" / "encoder", in_memory=0),
        "encoded again": FeatureCache(tmp_path / "c", cap=0, in_memory=0),
    }
    for where, store in stores.items():
        outcome = run_task(job(scenes, encoder(), store=store))
        assert store.placed["maps-train"] == where
        assert outcome.scores == expected.scores
        np.testing.assert_array_equal(outcome.samples, expected.samples)
    assert expected.samples.shape[0] == 5  # also the map that counts nowhere


@pytest.mark.parametrize("name", ["acdc", "ade20k"])
@pytest.mark.parametrize(
    ("source", "options", "steps"),
    [
        ("micro", {}, 0), ("micro", {"recipe_fields": {"head_width": 8}}, 4),
        ("micro", {"recipe_fields": {"lr": 0.01}}, 4), ("local", {}, 4),
    ],
)  # fmt: skip
def test_heads_of_stand_ins_are_solved_unless_their_recipe_is_set(
    name: str, source: str, options: dict[str, Any], steps: int
) -> None:
    stand_in = BENCHMARKS[name]
    numbers = {**stand_in.training, **(stand_in.original_training if source == "local" else {})}
    short = replace(stand_in, training={**numbers, "steps": 4, "validate_every": 2, "batch_size": 4})
    data = stand_in.load("micro", DataRequest(limit=8))
    outcome = run_task(Job(load_encoder("micro-dense/random:0"), short, data, Settings(**options)))
    assert outcome.training["steps"] == steps
    tried = outcome.training["tried"] if not steps else []
    if not steps:
        assert len(tried) == len(PENALTIES) + len(LIFTS) - 1
        assert all(set(row) == {"penalty", "lift", stand_in.metrics[0]} for row in tried)
    assert ("validation" in outcome.training) is bool(steps)


@pytest.mark.parametrize("name", ["acdc", "ade20k"])
@pytest.mark.parametrize("recipe", ["quick", "gate"])
def test_heads_of_trained_encoders_are_never_solved(name: str, recipe: str) -> None:
    assert is_solved(Settings(), BENCHMARKS[name].training)
    assert not is_solved(Settings(tune="full", recipe=recipe), BENCHMARKS[name].training)
    assert not is_solved(Settings(), BENCHMARKS["nyu-depth"].training)


def test_training_maps_without_a_label_are_refused_in_one_line() -> None:
    stand_in = BENCHMARKS["ade20k"]
    data = stand_in.load("micro", DataRequest(limit=8))
    blank = replace(data, train=replace(data.train, targets=torch.full_like(data.train.targets, IGNORED)))
    with pytest.raises(DataError, match=r"ade20k: training split: no pixel of 8 maps has a class of 0\.\.\d+"):
        run_task(Job(load_encoder("micro-dense/random:0"), stand_in, blank))


def test_a_wrong_map_is_named_before_anything_is_encoded(scenes: Data[Maps]) -> None:
    wrong = scenes.test.targets.files[4]
    Image.fromarray(np.full((16, 16), 99, dtype=np.uint8)).save(str(wrong))

    def encode(pixels: torch.Tensor) -> torch.Tensor:
        raise AssertionError("encoded")

    with pytest.raises(DataError, match=r"test4.png has the value 99"):
        run_task(job(scenes, Encoder("made-up", 16, encode)))


def test_taken_maps_and_their_digest(scenes: Data[Maps]) -> None:
    few = scenes.train.take(torch.tensor([3, 1]))
    assert torch.equal(few.targets[:], scenes.train.targets[:][[3, 1]])
    assert torch.equal(few.targets.collate([1]), scenes.train.targets[1:2])
    before = scenes.digest()
    Image.fromarray(np.full((16, 16), 7, dtype=np.uint8)).save(str(scenes.train.targets.files[0]))
    assert scenes.digest() != before


@pytest.mark.parametrize("make", [lambda n: torch.rand(n, 3), lambda n: torch.arange(n).expand(3, n).T.float()])
def test_the_middle_is_torchs_lower_median(make: Callable[[int], torch.Tensor]) -> None:
    for count in (2, 5, 1000):
        values = make(count)
        values[0, 0] = 0.0
        assert positive_median(values) == float(values[values > 0].median())


MEMORY = """
import json, sys
from pathlib import Path
import torch
from test_maps import KIND, encoder, job
from gate_data.data import Data, Split
from gate_data.maps import Maps
from vision_features.features import FeatureCache
from gate_runner.tasks.training import targets_of
from vision_adapters.rows.counting import log_frequencies

path, folder = sys.argv[1:]
held = []
for count in (50, 300):
    maps = [Maps(tuple(f"{path}/{i}.png" for i in range(n)), 256, KIND.read) for n in (count, 2, 2)]
    parts = [Split(torch.zeros(len(one), 3, 16, 16, dtype=torch.uint8), one) for one in maps]
    store = FeatureCache(Path(folder) / str(count), in_memory=0)
    rows = targets_of(job(Data(*parts, ("a", "b", "c")), encoder(), store=store))["train"]
    assert len(rows) == count and log_frequencies(rows, 3).shape == (3, 256, 256)
    for start in range(0, count, 10):
        rows[torch.arange(start, start + 10)]
    # anonymous pages: those of mapped files are the system's to drop, and are counted or not by its mood
    status = Path("/proc/self/status").read_text().split("\\n")
    held.append(next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon")))
print(json.dumps(held))
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_number_of_maps(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number in range(300):
        values = generator.integers(7, 10, (16, 16)).repeat(4, 0).repeat(4, 1).astype(np.uint8)
        Image.fromarray(values).save(tmp_path / f"{number}.png")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEMORY, str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "MALLOC_TRIM_THRESHOLD_": "65536"},
    )
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout.splitlines()[-1])
    assert many - few < 17e6, many - few  # in memory, 250 more maps of 256 px are 33 MB


@pytest.mark.parametrize("sees_texts", [True, False])
def test_stored_questions_give_what_those_in_memory_give(
    sees_texts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    micro = load_encoder("micro-dense/random:0")
    if not sees_texts:
        micro = replace(micro, text=None, text_tokens=None)
    clevr = BENCHMARKS["clevr-math"]
    data = clevr.load("micro", DataRequest(limit=12))
    short = replace(clevr, training={**clevr.training, "steps": 2, "validate_every": 1, "batch_size": 4})
    expected = run_task(Job(micro, short, data))
    monkeypatch.setattr(features, "_WORDS_IN_MEMORY", 0)
    for store in (FeatureCache(tmp_path / "a", in_memory=0), FeatureCache(tmp_path / "b", cap=0, in_memory=0)):
        outcome = run_task(Job(micro, short, data, features=store))
        assert ("texts-train" in store.placed) is sees_texts
        assert outcome.scores == expected.scores
        np.testing.assert_array_equal(outcome.samples, expected.samples)


def test_errors_of_depth_are_compared_by_their_mean_over_images() -> None:
    first, second = np.array([1.0, 4.0, 9.0, 2.0]), np.array([2.0, 5.0, 11.0, 2.0])
    test = paired_test("rmse", [first], [second], statistic=known_task_type("depth").statistic("rmse"))
    assert (test.first, test.second, test.difference) == pytest.approx((first.mean(), second.mean(), 1.0))
