"""All benchmarks and packs, as data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any

from gate_runner.benchmarks.benchmark import TASKS, Benchmark
from gate_runner.errors import unknown

_EPISODES = {"ways": 5, "shots": 1, "queries": 5, "episodes": 400, "steps": 150}

_ALL = (
    Benchmark(
        id="acdc",
        title="ACDC cardiac segmentation",
        task="medical-segmentation",
        metrics=("dice", "miou"),
        sources={"local": "gate_runner.benchmarks.originals.acdc:load", "micro": "gate_runner.micro.cardiac:acdc"},
        training={"lr": 1e-3, "steps": 300, "batch_size": 8, "validate_every": 50},
        original_training={"steps": 10_000, "batch_size": 8, "validate_every": 500},
        licence="free for research after registration, not for redistribution",
        citation="Bernard et al., IEEE Transactions on Medical Imaging 37, 2018",
    ),
    Benchmark(
        id="ade20k",
        title="ADE20K scene segmentation",
        task="segmentation",
        metrics=("miou",),
        sources={
            "local": "gate_runner.benchmarks.originals.ade20k:load",
            "micro": "gate_runner.micro.segmentation:ade20k",
        },
        training={"lr": 1e-3, "steps": 300, "batch_size": 8, "validate_every": 50},
        original_training={"steps": 10_000, "batch_size": 8, "validate_every": 500},
        licence="annotations BSD-3-Clause; images for research",
        citation="Zhou et al., Scene Parsing through ADE20K Dataset, CVPR 2017",
    ),
    Benchmark(
        id="cifar100",
        title="CIFAR-100 classification",
        task="image-classification",
        metrics=("acc@1", "acc@5"),
        sources={
            "local": "gate_runner.benchmarks.originals.cifar100:load",
            "micro": "gate_runner.micro.classification:cifar100",
        },
        training={"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50},
        original_training={"steps": 10_000, "validate_every": 500},
        licence="none stated",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    ),
    Benchmark(
        id="clevr-math",
        title="CLEVR-Math question answering",
        task="relational",
        metrics=("acc@1",),
        sources={
            "local": "gate_runner.benchmarks.originals.clevr_math:load",
            "micro": "gate_runner.micro.arithmetic:clevr_math",
        },
        training={"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50},
        cost=45.0,
        original_training={"steps": 10_000, "validate_every": 500},
        licence="CC BY-SA 4.0; images CC BY 4.0",
        citation="Dahlgren Lindström and Sam Abraham, CLEVR-Math, 2022; Johnson et al., CLEVR, CVPR 2017",
    ),
    Benchmark(
        id="cubirds",
        title="CUB-200 fine-grained few-shot",
        task="few-shot",
        metrics=("accuracy",),
        sources={
            "local": "gate_runner.benchmarks.originals.cubirds:load",
            "micro": "gate_runner.micro.few_shot:cubirds",
        },
        training=_EPISODES,
        original_training={"episodes": 600},
        licence="images for research and education",
        citation="Wah et al., Caltech-UCSD Birds-200-2011, CNS-TR-2011-001",
    ),
    Benchmark(
        id="imagenet1k",
        title="ImageNet-1k classification",
        task="image-classification",
        metrics=("acc@1", "acc@5"),
        sources={
            "local": "gate_runner.benchmarks.originals.imagenet1k:load",
            "micro": "gate_runner.micro.classification:imagenet1k",
        },
        training={"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50},
        original_training={"lr": 1e-3, "steps": 10_000, "batch_size": 1024, "validate_every": 500},
        licence="for research and education",
        citation="Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, IJCV 115, 2015",
    ),
    Benchmark(
        id="iwildcam",
        title="iWildCam animal counting in video",
        task="video-regression",
        metrics=("mae", "mse"),
        sources={
            "local": "gate_runner.benchmarks.originals.iwildcam:load",
            "micro": "gate_runner.micro.video:iwildcam",
        },
        training={"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50},
        original_training={"steps": 10_000, "validate_every": 500},
        licence="Community Data License Agreement, permissive",
        citation="Beery et al., The iWildCam 2022 Competition, FGVC9",
    ),
    Benchmark(
        id="mini",
        title="Mini-ImageNet few-shot",
        task="few-shot",
        metrics=("accuracy",),
        sources={"local": "gate_runner.benchmarks.originals.mini:load", "micro": "gate_runner.micro.few_shot:mini"},
        training=_EPISODES,
        original_training={"episodes": 600},
        licence="ImageNet's: for research and education",
        citation="Vinyals et al., Matching Networks, NeurIPS 2016; Ravi and Larochelle, ICLR 2017",
    ),
    Benchmark(
        id="pairs",
        title="EqBen: pairs that differ in one thing",
        task="pair-scoring",
        metrics=("group", "text", "image"),
        sources={"micro": "gate_runner.micro.pairs:pairs"},
    ),
    Benchmark(
        id="oven",
        title="OVEN: a picture and a question to one of 320 entities",
        task="entity-linking",
        metrics=("accuracy", "seen", "unseen", "harmonic"),
        sources={"micro": "gate_runner.micro.entities:oven"},
        training={"template": "a {}"},
    ),
    Benchmark(
        id="zero-shot",
        title="Zero-shot colour and shape, on the stand-in of ImageNet-1k",
        task="zero-shot",
        metrics=("acc@1", "acc@5"),
        sources={"micro": "gate_runner.micro.classification:imagenet1k"},
        training={"templates": ("a {}", "a photo of a {}", "a picture of a {}")},
    ),
    Benchmark(
        id="digits",
        title="Handwritten digits (scikit-learn)",
        task="image-classification",
        metrics=("acc@1",),
        sources={"built-in": "gate_runner.benchmarks.digits:load"},
        training={"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50},
        licence="CC BY 4.0",
        citation="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
    ),
    Benchmark(
        id="omniglot",
        title="Omniglot few-shot characters",
        task="few-shot",
        metrics=("accuracy",),
        sources={"local": "gate_runner.benchmarks.omniglot:load"},
        training=_EPISODES,
        licence="MIT",
        citation="Lake, Salakhutdinov and Tenenbaum, Science 350, 2015",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.id: benchmark for benchmark in _ALL}
"""Every benchmark by its id."""

PACKS: dict[str, tuple[str, ...]] = {
    "small": ("acdc", "ade20k", "cifar100", "clevr-math", "cubirds", "imagenet1k", "iwildcam", "mini"),
    "eqben": ("pairs",),
    "oven": ("oven",),
}
"""Named lists of benchmarks; ``small`` is GATE's small tier (the paper's figure 4)."""


ENTRY_POINTS = "gate_runner.benchmarks"
"""Entry-point group of plug-ins: each value is a `Benchmark`, several, or a function that returns either."""


def all_benchmarks() -> dict[str, Benchmark]:
    """The benchmarks of this package and of plug-ins, by id.

    A plug-in that cannot be loaded, or whose benchmark takes an id that is there already, is warned about and left out.

    Returns:
        A new dictionary, ours first.
    """
    found = dict(BENCHMARKS)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            made = _several(point.load())
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises must not take the others away
            warnings.warn(
                f"plug-in {point.value} is left out: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2
            )
            continue
        for benchmark in made:
            reason = _unusable(benchmark, found)
            if reason:
                warnings.warn(f"plug-in {point.value} is left out: {reason}", RuntimeWarning, stacklevel=2)
            else:
                found[benchmark.id] = benchmark
    return found


def find_benchmark(name: str) -> Benchmark:
    """One benchmark by its id.

    Raises:
        UsageError: there is none; the message shows the nearest.

    Example:
        >>> find_benchmark("digits").task
        'image-classification'
    """
    known = BENCHMARKS if name in BENCHMARKS else all_benchmarks()
    if name not in known:
        raise unknown("benchmark", name, known)
    return known[name]


def resolve(names: Iterable[str]) -> list[Benchmark]:
    """Packs and benchmarks to benchmarks, each once, in the order in which they were first named.

    Args:
        names: ids of packs or benchmarks.

    Returns:
        The benchmarks.

    Raises:
        UsageError: a name that is neither; the message shows the nearest.

    Example:
        >>> [benchmark.id for benchmark in resolve(["digits", "small"])][:3]
        ['digits', 'acdc', 'ade20k']
    """
    found: dict[str, Benchmark] = {}
    known: dict[str, Benchmark] = BENCHMARKS
    for name in names:
        if name not in PACKS and name not in known:
            known = all_benchmarks()
            if name not in known:
                raise unknown("pack or benchmark", name, [*PACKS, *known])
        for member in PACKS.get(name, (name,)):
            found[member] = known[member]
    return list(found.values())


def _several(value: Any) -> list[Benchmark]:
    if callable(value) and not isinstance(value, Benchmark):
        make: Callable[[], Any] = value
        value = make()
    found = [value] if isinstance(value, Benchmark) else list(value)
    for one in found:
        if not isinstance(one, Benchmark):
            raise TypeError(f"expected a Benchmark or several, got {type(one).__name__}")
    return found


def _unusable(benchmark: Benchmark, known: dict[str, Benchmark]) -> str:
    if benchmark.id in known:
        return f"there is a benchmark {benchmark.id!r} already"
    if benchmark.task not in TASKS:
        return f"benchmark {benchmark.id!r} has the task {benchmark.task!r}; expected one of {', '.join(TASKS)}"
    return ""
