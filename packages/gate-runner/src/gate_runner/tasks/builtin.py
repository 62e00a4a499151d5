"""The task types of this package, in the order in which reports show them: each has its record here, once.

What several records share stands above them: how a head is trained, and what all tasks of one class per sample have.
"""

from __future__ import annotations

import math
from typing import Any

from gate_runner.tasks.task import TaskType

_RATES = (1.0, 0.3, 3.0)
"""Factors of the learning rate at which a frozen encoder's head is trained; validation chooses."""
_LONG: dict[str, Any] = {"steps": 10_000, "validate_every": 500}
_HEAD = {"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50}
_MAPS = {"lr": 1e-3, "steps": 300, "batch_size": 8, "validate_every": 50}
_TOKENS = {"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50}
_BOXES = {"lr": 2e-3, "steps": 150, "batch_size": 32, "validate_every": 50, "schedule": "cosine"}
_OF_CLASSES = ("acc@1", "accuracy", "acc@5", "mean_per_class", "macro_f1", "micro_f1", "quadratic_kappa")
_SHARE = (0.0, 1.0)
_OF_NUMBERS = ("mae", "mse", "rmse", "r2", "spearman")


def _trained(head: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The numbers of a task whose head is trained, on a stand-in and on a data set's own files."""
    original = {**_LONG, "batch_size": 8} if head is _MAPS else _LONG
    return {"training": {**head, "rates": _RATES}, "original_training": original, **more}


_ONE_CLASS: dict[str, Any] = {"say": "gate_runner.tasks.predicted:a_class", "by_class": True, "single_samples": True}
_OWN_CLASSES = {**_ONE_CLASS, "own_metrics": ("acc@1",), "further_metrics": _OF_CLASSES}
_TABLE_OF_CLASSES = "gate_runner.tasks.predicted:details"
_SWEPT: dict[str, Any] = {
    "cells": "gate_runner.tasks.variants:points",
    "sweeps": True,
    "variant": "gate_runner.tasks.variants:of_classification",
}
_LINEAR, _RANKING = "gate_runner.tasks.readout_selection:linear", "gate_runner.tasks.readout_selection:ranking"
_OF_MAPS: dict[str, Any] = _trained(_MAPS, quick={"batch_size": 8})
_SOLVED_MAPS: dict[str, Any] = {
    **_OF_MAPS,
    "training": {**_OF_MAPS["training"], "head": "ridge"},
    "original_training": {**_OF_MAPS["original_training"], "head": "transformer"},
}
_OF_VIDEOS: dict[str, Any] = _trained(
    _TOKENS, own_training=_TOKENS, gate_recipe="video", quick={"batch_size": 8}, readouts=_LINEAR
)
_COUNTS: dict[str, Any] = {
    **_OF_VIDEOS,
    "training": {**_TOKENS, "steps": 250, "schedule": "cosine", "warmup": 25, "rates": (1.0,)},
    "original_training": {**_OF_VIDEOS["original_training"], "schedule": "plateau", "warmup": 0, "rates": _RATES},
}
"""On a stand-in one rate that falls, in 250 steps instead of 700 of three rates: three seeds score better, by the
paired test of ``benchmarks/shorter_training.py``. Chosen on validation with four other seeds, among rates of 5e-4 to
2e-3 and 150 to 400 steps."""
_QUESTIONS: dict[str, Any] = {
    "training": {**_TOKENS, "rates": _RATES[:2]},
    "original_training": {**_LONG, "rates": _RATES},
    "own_training": _TOKENS,
}
"""On a stand-in two rates, in 500 steps instead of 700: three seeds score the same, by the paired test of
``benchmarks/shorter_training.py``. On data files three."""
_EPISODES: dict[str, Any] = {
    "say": "gate_runner.tasks.predicted:an_episode",
    "probe_samples": 130,  # whole classes, enough for one episode
    "grows": False,
    "readouts": _RANKING,
    "gate_recipe": "fewshot",
}

TASK_TYPES = (
    TaskType(
        "image-classification",
        "linear head, cross-entropy",
        "gate_runner.tasks.classification:run",
        side="recognition",
        class_prompts=True,
        keeps_heads=True,
        details=_TABLE_OF_CLASSES,
        same_samples=("knn", "image-retrieval", "clustering"),
        weighs=True,
        readouts=_LINEAR,
        **{**_OWN_CLASSES, **_SWEPT, "own_metrics": ("acc@1", "macro_f1")},
    ),
    TaskType(
        "elevater",
        "a head on few images or all, or the whole encoder, from class texts or from nothing",
        "gate_runner.tasks.elevater.run:run",
        side="recognition",
        say="gate_runner.tasks.elevater.run:said",
        overview="gate_runner.tasks.elevater.tables:overview",
        trains=False,
    ),
    TaskType(
        "coop",
        "a head on a few images of each class by CoOp's protocol, or class texts alone",
        "gate_runner.tasks.coop.run:run",
        side="recognition",
        say="gate_runner.tasks.predicted:a_class",
        by_class=True,
        statistics={"harmonic": "gate_runner.tasks.coop.run:harmonic"},
        limits={"harmonic": _SHARE},
        overview="gate_runner.tasks.coop.tables:overview",
        cells="gate_runner.tasks.coop.points:units",
        variant="gate_runner.tasks.coop.points:of_coop",
        protocols=True,
        trains=False,
    ),
    TaskType(
        "multi-head",
        "a linear head for each question, mean of cross-entropies",
        "gate_runner.tasks.labels:run_heads",
        say="gate_runner.tasks.predicted:heads",
        draw="gate_runner.tasks.drawing:heads",
        single_samples=True,
        readouts=_LINEAR,
        **_trained(_HEAD),
    ),
    TaskType(
        "multi-label",
        "linear head, a sigmoid for each label, binary cross-entropy",
        "gate_runner.tasks.labels:run_findings",
        side="recognition",
        say="gate_runner.tasks.predicted:labels",
        draw="gate_runner.tasks.drawing:labels",
        probe_samples=200,  # every label has to occur
        readouts=_LINEAR,
        own_metrics=("average_precision", "roc_auc"),
        further_metrics=("map_11point", "map_11point_elevater", "brier", "macro_f1", "micro_f1"),
        gate_recipe="medical",
        **_trained(_HEAD, own_training=_HEAD),
        **_SWEPT,
    ),
    TaskType(
        "regression",
        "ridge regression on frozen features, a number for each image",
        "gate_runner.tasks.regression:run",
        say="gate_runner.tasks.predicted:a_value",
        own_metrics=("mae", "rmse", "r2", "spearman"),
        further_metrics=_OF_NUMBERS,
    ),
    TaskType(
        "few-shot",
        "prototypes, squared Euclidean distance",
        "gate_runner.tasks.few_shot:run",
        side="recognition",
        draw="gate_runner.tasks.few_shot:draw",
        cells="gate_runner.tasks.variants:protocol",
        variant="gate_runner.tasks.variants:of_few_shot",
        training={"ways": 5, "shots": 1, "queries": 5, "episodes": 400, "steps": 150, "rates": _RATES},
        original_training={"episodes": 600},
        quick={"steps": 150, "batch_size": 2},
        **_EPISODES,
    ),
    TaskType(
        "few-shot-gate",
        "prototypes, squared Euclidean distance, GATE's many ways and shots",
        "gate_runner.tasks.few_shot:run_gate",
        side="recognition",
        draw="gate_runner.tasks.few_shot:draw_gate",
        quick={"steps": 150, "batch_size": 1},
        **_EPISODES,
    ),
    TaskType(
        "segmentation",
        "ridge regression on windows of patch features; on data files a transformer, focal loss and cross-entropy",
        "gate_runner.tasks.maps:run",
        readouts="gate_runner.tasks.dense_readouts:worth",
        say="gate_runner.tasks.predicted:a_map",
        own_metrics=("miou",),
        further_metrics=("miou", "miou_foreground", "mean_acc", "overall_acc", "dice"),
        own_training={**_TOKENS, "batch_size": 16},
        gate_recipe="segmentation",
        same_samples=("zero-shot-segmentation",),
        variant="gate_runner.tasks.variants:of_segmentation",
        **_SOLVED_MAPS,
    ),
    TaskType(
        "medical-segmentation",
        "ridge regression on windows of patch features; on data files a transformer, soft dice loss",
        "gate_runner.tasks.maps:run",
        readouts="gate_runner.tasks.dense_readouts:worth",
        say="gate_runner.tasks.predicted:a_map",
        gate_recipe="medical_segmentation",
        **_SOLVED_MAPS,
    ),
    TaskType(
        "detection",
        "a dense head on patch features, or a whole detector; COCO's mean average precision",
        "gate_runner.tasks.detection:run",
        readouts="gate_runner.tasks.dense_readouts:worth",
        say="gate_runner.tasks.predicted:objects",
        draw="gate_runner.tasks.drawing:boxes",
        statistics={
            "map": "vision_adapters.detection:mean_average_precision",
            "ap50": "vision_adapters.detection.average_precision:at_half",
            "ap75": "vision_adapters.detection.average_precision:at_three_quarters",
        },
        limits=dict.fromkeys(("map", "ap50", "ap75"), _SHARE),
        details="gate_runner.detection.tables:details",
        overview="gate_runner.detection.tables:overview",
        cells="gate_runner.tasks.variants:shots_and_split",
        variant="gate_runner.tasks.variants:of_detection",
        submits=True,
        best=2,
        training={**_BOXES, "rates": _RATES},
        own_metrics=("map", "ap50", "ap75"),
        own_training=_BOXES,
    ),
    TaskType(
        "relational",
        "transformer on image and text tokens, cross-entropy over answers",
        "gate_runner.tasks.relational:run",
        gate_recipe="relational",
        **_OWN_CLASSES,
        **_QUESTIONS,
    ),
    TaskType(
        "depth",
        "transformer on patch features, L1 of log metres",
        "gate_runner.tasks.maps:run_depth",
        readouts="gate_runner.tasks.dense_readouts:worth",
        draw="gate_runner.tasks.drawing:depth",
        statistics={"rmse": "gate_runner.tasks.maps:mean_over_images"},  # the metric of that name takes a root of means
        gate_recipe="segmentation",
        **_OF_MAPS,
    ),
    TaskType(
        "relational-typed",
        "transformer on image and text tokens, cross-entropy over the answers of a type",
        "gate_runner.tasks.relational:run_typed",
        probe_samples=120,
        gate_recipe="relational",
        **_ONE_CLASS,
        **_trained(_TOKENS),
    ),
    TaskType(
        "image-text",
        "two linear projections, symmetric cross-entropy",
        "gate_runner.tasks.matching:run",
        side="retrieval",
        say="gate_runner.tasks.predicted:a_caption",
        draw="gate_runner.tasks.drawing:captions",
        same_samples=("zero-shot-retrieval",),
        variant="gate_runner.tasks.variants:of_captions",
        own_metrics=(
            "image_to_text",
            "text_to_image",
            "image_to_text@5",
            "text_to_image@5",
            *(f"{to}_r@{k}" for to in ("i2t", "t2i") for k in (1, 5, 10)),
        ),
        gate_recipe="image_text",
        **_trained({**_TOKENS, "batch_size": 64}, own_training={**_TOKENS, "batch_size": 64}),
    ),
    TaskType(
        "caption-choice",
        "two linear projections, cross-entropy over the captions",
        "gate_runner.tasks.matching:run_choice",
        side="composition",
        say="gate_runner.tasks.predicted:a_choice",
        draw="gate_runner.tasks.drawing:captions",
        single_samples=True,
        gate_recipe="image_text",
        **_trained(_TOKENS),
    ),
    TaskType(
        "video-classification",
        "transformer over frames, cross-entropy",
        "gate_runner.tasks.video:run_classification",
        details=_TABLE_OF_CLASSES,
        **_OWN_CLASSES,
        **_OF_VIDEOS,
    ),
    TaskType(
        "video-regression",
        "transformer over frames, L1",
        "gate_runner.tasks.video:run",
        say="gate_runner.tasks.predicted:a_value",
        own_metrics=("mae", "mse"),
        further_metrics=_OF_NUMBERS,
        **_COUNTS,
    ),
    TaskType(
        "pair-scoring",
        "cosines of two images and two captions, nothing trained",
        "gate_runner.tasks.pair_scoring:run",
        side="composition",
        say="gate_runner.tasks.predicted:a_pair",
        draw="gate_runner.tasks.drawing:pair",
        by_class=True,
        trains=False,
        single_samples=True,
        own_metrics=("group", "text", "image"),
    ),
    TaskType(
        "suite",
        "cosines of every caption and image of a question, nothing trained",
        "gate_runner.tasks.suite:run",
        side="composition",
        draw="gate_runner.tasks.suite:draw",
        statistics={"right": "gate_runner.tasks.suite:share_right"},
        limits={"right": _SHARE},
        details="gate_runner.tasks.suite:tables",
        trains=False,
    ),
    TaskType(
        "zero-shot",
        "cosines with class embeddings from prompts, nothing trained",
        "gate_runner.tasks.zero_shot:run",
        side="recognition",
        class_prompts=True,
        details="gate_runner.tasks.zero_shot:details",
        trains=False,
        **{**_OWN_CLASSES, "own_metrics": ("acc@1", "macro_f1")},
    ),
    TaskType(
        "zero-shot-retrieval",
        "captions for images and images for captions, ranked by cosine; nothing trained",
        "gate_runner.tasks.zero_shot_retrieval:run",
        side="retrieval",
        say="gate_runner.tasks.predicted:a_caption",
        draw="gate_runner.tasks.drawing:captions",
        details="gate_runner.tasks.zero_shot_retrieval:details",
        statistics={
            **{f"t2i_r@{k}": "gate_runner.tasks.zero_shot_retrieval:share_found" for k in (1, 5, 10)},
            **{f"{to}_median_rank": "gate_runner.tasks.zero_shot_retrieval:median_rank" for to in ("i2t", "t2i")},
        },
        limits={
            **dict.fromkeys((f"{to}_r@{k}" for to in ("i2t", "t2i") for k in (1, 5, 10)), _SHARE),
            **dict.fromkeys((f"{to}_median_rank" for to in ("i2t", "t2i")), (1.0, math.inf)),
        },
        trains=False,
        own_metrics=(
            *(f"{to}_r@{k}" for to in ("i2t", "t2i") for k in (1, 5, 10)),
            *(f"{to}_median_rank" for to in ("i2t", "t2i")),
        ),
    ),
    TaskType(
        "zero-shot-segmentation",
        "cosines of patches with the words of classes, nothing trained",
        "gate_runner.tasks.segmenting.run:run",
        say="gate_runner.tasks.predicted:a_map",
        draw="gate_runner.tasks.segmenting.shown:draw",
        details="gate_runner.tasks.segmenting.shown:details",
        overview="gate_runner.tasks.segmenting.tables:overview",
        cells="gate_runner.tasks.variants:patch_features",
        variant="gate_runner.tasks.variants:of_patch_features",
        nested=True,
        probe_samples=16,
        trains=False,
        fits=200,
        class_prompts=True,
        best=10,
        own_metrics=("miou", "mean_acc", "overall_acc"),
        further_metrics=("miou", "mean_acc", "overall_acc"),
    ),
    TaskType(
        "knn",
        "votes of the nearest neighbours by cosine, their number chosen on validation; nothing trained",
        "gate_runner.tasks.neighbours:knn",
        side="recognition",
        details=_TABLE_OF_CLASSES,
        trains=False,
        readouts="gate_runner.tasks.readout_selection:neighbours",
        **_OWN_CLASSES,
    ),
    TaskType(
        "image-retrieval",
        "images of the same class, or of the same pair, ranked by cosine; nothing trained",
        "gate_runner.tasks.neighbours:retrieval",
        side="retrieval",
        by_class=True,
        trains=False,
        readouts=_RANKING,
        own_metrics=("map", "recall@1", "recall@5", "recall@10"),
    ),
    TaskType(
        "clustering",
        "k-means of the test images against their classes; nothing trained",
        "gate_runner.tasks.neighbours:clustering",
        side="recognition",
        say="gate_runner.tasks.predicted:a_class",
        by_class=True,
        trains=False,
        statistics={
            "ami": "vision_adapters.clusters:adjusted_mutual_information",
            "v_measure": "vision_adapters.clusters:v_measure",
        },
        limits={"ami": (-math.inf, 1.0), "v_measure": _SHARE},
        readouts="gate_runner.tasks.readout_selection:clusters",
        own_metrics=("ami", "v_measure"),
    ),
    TaskType(
        "entity-linking",
        "four cosines of question and entity (CLIP2CLIP), four weights chosen",
        "gate_runner.tasks.entity_linking:run",
        say="gate_runner.tasks.predicted:a_class",
        details="gate_runner.tasks.entity_linking:ways",
        by_class=True,
        trains=False,
    ),
)
