"""The stand-ins as benchmarks' data: the arrays that eqben-builder draws, the same whatever the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eqben_builder.stand_ins import STAND_INS
from gate_data.cards import ICINW, SHEETS
from gate_data.coop.cards import COOP
from gate_data.data import Data
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.benchmarks.suites import PUBLISHED
from gate_runner.tasks.fitting import head_recipe

SMALL = PACKS["small"]
REGISTERED = {
    name: benchmark.sources["micro"] for name, benchmark in BENCHMARKS.items() if "micro" in benchmark.sources
}


def stand_in(name: str, limit: int | None = None) -> Data[Any]:
    return BENCHMARKS[name].load("micro", DataRequest(limit=limit))


def test_the_pack_is_the_papers_small_tier() -> None:
    assert SMALL == ("acdc", "ade20k", "cifar100", "clevr-math", "cubirds", "imagenet1k", "iwildcam", "mini")
    assert all("micro" in BENCHMARKS[name].sources for name in SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_a_stand_in_is_the_same_twice_and_says_what_it_is(name: str) -> None:
    data = stand_in(name, 8)
    assert data.digest() == stand_in(name, 8).digest()
    assert data.note == "synthetic stand-in"
    assert BENCHMARKS[name].name_with("micro").startswith("micro/")


def test_counts_in_clips_learn_at_one_falling_rate_and_from_data_files_as_other_clips_do() -> None:
    counts, actions = BENCHMARKS["iwildcam"], BENCHMARKS["hmdb51"]
    made, read, other = counts.training, counts.trained_for("local").training, actions.trained_for("local").training
    recipe = head_recipe(made, {}, {})
    assert (recipe.schedule, recipe.warmup, recipe.steps, made["rates"]) == ("cosine", 25, 250, (1.0,))
    assert head_recipe(made, {"schedule": "plateau"}, {}) == replace(recipe, schedule="plateau", warmup=0)
    assert head_recipe(read, {}, {}) == head_recipe(other, {}, {})
    assert read["rates"] == other["rates"]


@pytest.mark.parametrize("name", ["pairs", "iwildcam", "acdc", "happy", "nyu-depth"])
def test_tensors_hold_what_was_drawn(name: str) -> None:
    drawn, data = STAND_INS[REGISTERED[name].partition(":")[2]](9), stand_in(name, 9)
    assert data.classes == drawn.classes
    for split, made in ((drawn.train, data.train), (drawn.validation, data.validation), (drawn.test, data.test)):
        assert isinstance(made.images, torch.Tensor)
        assert made.images.is_contiguous()
        assert np.array_equal(made.images.movedim(-3, -1).numpy(), split.images)
        assert np.array_equal(made.targets.numpy(), split.targets)
        assert made.texts == split.texts
        assert (made.groups is None) == (split.groups is None)


def test_boxes_become_objects() -> None:
    drawn, data = STAND_INS["boxed_colours"](20).test, stand_in("odinw-colours", 20).test
    assert data.targets.rows.lengths.tolist() == [len(boxes.label) for boxes in drawn.targets]
    assert 0 in data.targets.rows.lengths  # some images are empty
    for column in ("box", "label", "area"):
        expected = np.concatenate([getattr(boxes, column) for boxes in drawn.targets])
        assert np.array_equal(data.targets.rows.columns[column], expected)
    assert set(data.targets.sizes.flatten().tolist()) == {64}


def test_a_drawn_set_has_no_known_data_sets_name() -> None:
    real = {name.replace("-", "_") for name in (*SHEETS, *ICINW, *COOP, *PUBLISHED)}
    assert real
    assert not real & set(STAND_INS)


def test_every_question_is_in_the_default_encoders_vocabulary() -> None:
    from vision_features.encoders.micro_clip import load_micro_clip

    _, tokenizer = load_micro_clip(pretrained=False)
    data = BENCHMARKS["clevr-math"].load("micro", DataRequest(limit=300))
    questions = [*(data.train.texts or ()), *(data.test.texts or ())]
    assert not (tokenizer(questions) == tokenizer.unknown_id).any()
    assert max(len(tokenizer.split(question)) for question in questions) <= tokenizer.context_length - 2
