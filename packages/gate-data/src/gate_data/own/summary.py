"""How many samples of what a user's own data have, as one wants to see it before a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gate_data.original_files import Sample
from gate_data.own.doubts import doubts, positives
from gate_data.own.originals import originals_from
from gate_data.own.spec import OwnBenchmark

_CLASSES_SHOWN = 20


def summary(own: OwnBenchmark, folder: Path) -> list[str]:
    """Splits, rows and classes with counts, as a user wants to see them before a run; a line each.

    Args:
        own: what the file says.
        folder: in which it lies.

    Raises:
        DataError: data that cannot be run; the message names it.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in [f"{label}/{number}.png" for label in ("cat", "dog") for number in range(5)]:
        ...     (folder / name).parent.mkdir(exist_ok=True)
        ...     Image.new("RGB", (32, 32), (int(name[4]), 0, len(name))).save(folder / name)
        >>> own = OwnBenchmark.model_validate({"benchmark": {"id": "pets"}, "data": {"kind": "folders"}})
        >>> summary(own, folder)[:2]
        ['train 6, validation 2, test 2', '2 classes (all, of them test): cat 5 (1), dog 5 (1)']
    """
    originals = originals_from(own, folder / "benchmark.toml")
    originals.check(folder)
    assert originals.parts is not None
    parts = originals.parts(folder)
    lists = parts.splits(own.splits.validation_share, grouped=bool(own.splits.group))
    sentences = [", ".join(f"{name} {len(samples):,}" for name, samples in lists.items() if samples)]
    if own.samples == "detection":
        from gate_data.own.boxes import objects_of  # it imports torch

        sentences.append(_counted(objects_of(own, folder), parts.classes, "objects of"))
    else:
        sentences += _of_targets(lists, parts.classes)
    return [*sentences, *filter(None, [parts.note]), *doubts(own, parts)]


def _of_targets(lists: dict[str, Sequence[Sample]], classes: tuple[str, ...]) -> list[str]:
    samples = [sample for split in lists.values() for sample in split]
    kind = type(samples[0].target)
    if classes and kind in (int, tuple):
        counts = {name: positives(split, len(classes)) for name, split in lists.items()}
        totals = [sum(counts[name][index] for name in counts) for index in range(len(classes))]
        return [_counted([totals, counts["test"]], classes, "")]
    if kind is float and any(sample.target for sample in samples):
        values = [float(sample.target) for sample in samples]
        mean = sum(values) / len(values)
        return [f"values from {min(values):g} to {max(values):g}, {mean:.4g} on average"]
    return [f"{len(classes)} classes: {', '.join(classes[:_CLASSES_SHOWN])}"] if classes else []


def _counted(counts: Sequence[Sequence[int]], classes: Sequence[str], unit: str) -> str:
    totals, tested = counts
    order = sorted(range(len(classes)), key=lambda index: -totals[index])
    shown = order if len(order) <= _CLASSES_SHOWN else [*order[: _CLASSES_SHOWN - 5], *order[-5:]]
    listed = [f"{classes[index]} {totals[index]:,} ({tested[index]:,})" for index in shown]
    if len(order) > _CLASSES_SHOWN:
        listed.insert(-5, f"… {len(order) - _CLASSES_SHOWN} more …")
    return f"{unit} {len(classes)} classes (all, of them test): {', '.join(listed)}".strip()
