"""All benchmarks and packs, as data."""

from __future__ import annotations

from collections.abc import Iterable

from gate_runner.benchmarks.benchmark import Benchmark
from gate_runner.errors import unknown

_EPISODES = {"ways": 5, "shots": 1, "queries": 5, "episodes": 400, "steps": 150}

_ALL = (
    Benchmark(
        id="acdc",
        title="ACDC cardiac segmentation",
        task="medical-segmentation",
        metrics=("dice", "miou"),
        sources={"micro": "gate_runner.micro.cardiac:acdc"},
        training={"lr": 1e-3, "steps": 300, "batch_size": 8, "validate_every": 50},
    ),
    Benchmark(
        id="ade20k",
        title="ADE20K scene segmentation",
        task="segmentation",
        metrics=("miou",),
        sources={"micro": "gate_runner.micro.segmentation:ade20k"},
        training={"lr": 1e-3, "steps": 300, "batch_size": 8, "validate_every": 50},
    ),
    Benchmark(
        id="cifar100",
        title="CIFAR-100 classification",
        task="image-classification",
        metrics=("acc@1", "acc@5"),
        sources={"micro": "gate_runner.micro.classification:cifar100"},
        training={"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50},
    ),
    Benchmark(
        id="clevr-math",
        title="CLEVR-Math question answering",
        task="relational",
        metrics=("acc@1",),
        sources={"micro": "gate_runner.micro.arithmetic:clevr_math"},
        training={"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50},
        cost=45.0,
    ),
    Benchmark(
        id="cubirds",
        title="CUB-200 fine-grained few-shot",
        task="few-shot",
        metrics=("accuracy",),
        sources={"micro": "gate_runner.micro.few_shot:cubirds"},
        training=_EPISODES,
    ),
    Benchmark(
        id="imagenet1k",
        title="ImageNet-1k classification",
        task="image-classification",
        metrics=("acc@1", "acc@5"),
        sources={"micro": "gate_runner.micro.classification:imagenet1k"},
        training={"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50},
    ),
    Benchmark(
        id="iwildcam",
        title="iWildCam animal counting in video",
        task="video-regression",
        metrics=("mae", "mse"),
        sources={"micro": "gate_runner.micro.video:iwildcam"},
        training={"lr": 1e-3, "steps": 400, "batch_size": 32, "validate_every": 50},
    ),
    Benchmark(
        id="mini",
        title="Mini-ImageNet few-shot",
        task="few-shot",
        metrics=("accuracy",),
        sources={"micro": "gate_runner.micro.few_shot:mini"},
        training=_EPISODES,
    ),
    Benchmark(
        id="pairs",
        title="EqBen: pairs that differ in one thing",
        task="pair-scoring",
        metrics=("group", "text", "image"),
        sources={"micro": "gate_runner.micro.pairs:pairs"},
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
}
"""Named lists of benchmarks; ``small`` is GATE's small tier (the paper's figure 4)."""


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
    for name in names:
        if name not in PACKS and name not in BENCHMARKS:
            raise unknown("pack or benchmark", name, [*PACKS, *BENCHMARKS])
        for member in PACKS.get(name, (name,)):
            found[member] = BENCHMARKS[member]
    return list(found.values())
