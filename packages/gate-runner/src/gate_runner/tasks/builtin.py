"""The task types of this package, in the order in which reports show them."""

from __future__ import annotations

from gate_runner.tasks.task import TaskType

TASK_TYPES = (
    TaskType(
        "image-classification",
        "linear head, cross-entropy",
        "gate_runner.tasks.classification:run",
        short="classification",
        by_class=True,
    ),
    TaskType(
        "multi-head",
        "a linear head for each question, mean of cross-entropies",
        "gate_runner.tasks.multi_head:run",
        draw="gate_runner.tasks.drawing_more:heads",
    ),
    TaskType(
        "multi-label",
        "linear head, a sigmoid for each label, binary cross-entropy",
        "gate_runner.tasks.multi_label:run",
        short="medical class.",
        draw="gate_runner.tasks.drawing_more:labels",
        probe_samples=200,  # every label has to occur
    ),
    TaskType(
        "few-shot",
        "prototypes, squared Euclidean distance",
        "gate_runner.tasks.few_shot:run",
        draw="gate_runner.tasks.few_shot:draw",
        probe_samples=130,  # whole classes, enough for one episode
        grows=False,
        caution="gate_runner.tasks.few_shot:caution",
    ),
    TaskType(
        "few-shot-gate",
        "prototypes, squared Euclidean distance, GATE's many ways and shots",
        "gate_runner.tasks.few_shot_gate:run",
        short="few-shot (GATE)",
        draw="gate_runner.tasks.few_shot_gate:draw",
        probe_samples=130,
        grows=False,
    ),
    TaskType(
        "segmentation",
        "transformer on patch features, focal loss and cross-entropy",
        "gate_runner.tasks.segmentation:run",
    ),
    TaskType(
        "medical-segmentation",
        "transformer on patch features, soft dice loss",
        "gate_runner.tasks.segmentation:run_medical",
        short="medical segm.",
    ),
    TaskType(
        "relational",
        "transformer on image and text tokens, cross-entropy over answers",
        "gate_runner.tasks.relational:run",
        by_class=True,
    ),
    TaskType(
        "depth",
        "transformer or linear layer on patch features, L1 of log metres",
        "gate_runner.tasks.depth:run",
        draw="gate_runner.tasks.drawing_more:depth",
    ),
    TaskType(
        "relational-typed",
        "transformer on image and text tokens, cross-entropy over the answers of a type",
        "gate_runner.tasks.relational_typed:run",
        short="relational, typed",
        by_class=True,
        probe_samples=120,
    ),
    TaskType(
        "image-text",
        "two linear projections, symmetric cross-entropy",
        "gate_runner.tasks.matching:run",
        draw="gate_runner.tasks.drawing_more:captions",
    ),
    TaskType(
        "caption-choice",
        "two linear projections, cross-entropy over the captions",
        "gate_runner.tasks.matching:run_choice",
        short="captions",
        draw="gate_runner.tasks.drawing_more:captions",
    ),
    TaskType(
        "video-classification",
        "transformer over frames, cross-entropy",
        "gate_runner.tasks.video_classification:run",
        short="video class.",
        by_class=True,
    ),
    TaskType("video-regression", "transformer over frames, L1", "gate_runner.tasks.video:run", short="video regr."),
    TaskType(
        "pair-scoring",
        "cosines of two images and two captions, nothing trained",
        "gate_runner.tasks.pair_scoring:run",
        short="pairs",
        draw="gate_runner.tasks.drawing:pair",
        by_class=True,
        trains=False,
    ),
    TaskType(
        "suite",
        "cosines of every caption and picture of a question, nothing trained",
        "gate_runner.tasks.suite:run",
        short="suites",
        draw="gate_runner.tasks.suite:draw",
        statistics={"right": "gate_runner.tasks.suite:share_right"},
        details="gate_runner.reports.suites:tables",
        trains=False,
    ),
    TaskType(
        "zero-shot",
        "cosines with class embeddings from prompts, nothing trained",
        "gate_runner.tasks.zero_shot:run",
        by_class=True,
        trains=False,
    ),
    TaskType(
        "entity-linking",
        "four cosines of question and entity (CLIP2CLIP), four weights chosen",
        "gate_runner.tasks.entity_linking:run",
        short="entity linking",
        by_class=True,
        trains=False,
    ),
)
