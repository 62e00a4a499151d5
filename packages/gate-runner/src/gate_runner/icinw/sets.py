"""What the grid knows of a data set besides its benchmark: ELEVATER's metric, its texts, and where these come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.benchmarks import BENCHMARKS, PACKS, Benchmark, DataRequest
from gate_runner.benchmarks.sheets.icinw import ICINW
from gate_runner.errors import DataError, UsageError, unknown
from gate_runner.micro.icinw_texts import TEXTS

if TYPE_CHECKING:
    from gate_runner.benchmarks.data import Split
    from gate_runner.benchmarks.original_files import Parts, Sample
    from gate_runner.benchmarks.originals.icinw.form import Arrays
    from gate_runner.readers.decode import Fit

GRIDS = ("icinw", "micro/icinw")
"""Packs whose benchmarks are run as a grid."""
_METRICS = {"icinw-colours": "roc_auc", "icinw-shapes": "map_11point"}


@dataclass(frozen=True)
class GridSet:
    """A data set of the grid.

    Args:
        benchmark: where its pictures come from.
        metric: ELEVATER's for it, a name of ``vision_adapters.metrics``.
        source: of the pictures, one of the benchmark's.
    """

    benchmark: Benchmark
    metric: str
    source: str

    @property
    def name(self) -> str:
        """The name in results: a made-up set's begins with ``micro/``."""
        return self.benchmark.name_with(self.source)

    @property
    def id(self) -> str:
        """The benchmark's id."""
        return self.benchmark.id

    def load(self, root: Path | None, limit: int | None, size: int) -> Pair:
        """Pictures to train on, in the order from which shots are drawn, and pictures that are scored once.

        Args:
            root: folder of original files, or of copies of the hub's repositories.
            limit: at most so many samples of each split, or None.
            size: side in pixels at which files are read.

        Raises:
            DataError: a file is missing or damaged; the message names it.
        """
        if self.source in ("local", "hub"):
            from gate_runner.benchmarks.originals.icinw.form import Arrays, as_split, class_names

            parts = self._parts(root)
            if isinstance(parts, Arrays):
                sides = [as_split(side).limited(limit) for side in (parts.train, parts.test)]
                return Pair(sides[0], sides[1], class_names(self.id), ICINW[self.id].note)
            train, test = (_split(side, size, ICINW[self.id].fit) for side in (parts.train, parts.test))
            return Pair(train.limited(limit), test.limited(limit), parts.classes, parts.note)
        data = self.benchmark.load(self.source, DataRequest(root, limit, size))
        return Pair(data.train, data.test, data.classes, data.note)

    def _parts(self, root: Path | None) -> Parts | Arrays:
        """Both splits as files, or as arrays."""
        if self.source == "hub":
            from gate_runner.benchmarks.hub.icinw import icinw_parts

            return icinw_parts(self.id, root)
        if root is None:
            raise DataError(f"data set {self.id!r} reads original files: give --data-root")
        from gate_runner.benchmarks.originals.icinw.form import IcinwOriginals

        originals = self.benchmark.originals
        assert isinstance(originals, IcinwOriginals)
        assert originals.sides is not None
        return originals.sides(originals.find(root))


def _split(samples: Sequence[Sample], size: int, fit: Fit) -> Split:
    """Samples in the order of their list, which is what shots are drawn from; no picture is read."""
    import torch

    from gate_runner.benchmarks.data import Split
    from gate_runner.benchmarks.pictures import Pictures

    targets = torch.tensor([sample.target for sample in samples])
    sources: list[Any] = [sample.source for sample in samples]  # stills
    return Split(Pictures.of(sources, size, fit, transparency="drop"), targets)  # as vision-datasets reads them


@dataclass(frozen=True)
class Pair:
    """Two splits and the names of the classes, in the order of their indices."""

    train: Split
    test: Split
    classes: tuple[str, ...]
    note: str = ""


def grid_ids() -> tuple[str, ...]:
    """Every benchmark that a grid can hold."""
    return tuple(dict.fromkeys(one for pack in GRIDS for one in PACKS[pack]))


def is_grid(names: Sequence[object], *, asked: bool, shots: bool = False) -> bool:
    """Whether names are to be run as a grid: packs of the grid, or its data sets where the grid's options were given.

    Args:
        names: as on the command line.
        asked: whether an option was given that only a grid has.
        shots: whether numbers of shots were given, which also detection sets take.

    Raises:
        UsageError: the grid's packs or options beside a benchmark that is none of its data sets.

    Example:
        >>> is_grid(["micro/icinw"], asked=False), is_grid(["digits"], asked=False), is_grid(["digits"], asked=True)
        (True, False, True)
    """
    known = {*GRIDS, *grid_ids()}
    asked = asked or (shots and all(name in known for name in names))
    if not asked and not any(name in GRIDS for name in names):
        return False
    for name in names:
        if name not in known:
            raise unknown("data set of the grid", str(name), known)
    return True


def resolve_sets(names: Iterable[str], source: str | None, root: Path | None) -> list[GridSet]:
    """Packs and data sets to data sets, each once, each with the source that it uses.

    Args:
        names: ``icinw``, ``micro/icinw``, or ids of their data sets.
        source: ``"local"``, ``"hub"``, ``"built-in"``, ``"micro"``, or None for the first possible.
        root: folder of original files, or of copies of the hub's repositories, where one was given.

    Returns:
        The data sets, in order.

    Raises:
        UsageError: an unknown name, or no data root for a set that is read from files.
        DataError: the hub was asked for, and `datasets` or a copy is not there.
    """
    found: dict[str, GridSet] = {}
    for name in names:
        for one in PACKS[name] if name in GRIDS else (name,):
            if one not in grid_ids():
                raise unknown("data set of the grid", one, grid_ids())
            benchmark = BENCHMARKS[one]
            files = "local" in benchmark.sources
            hub = source == "hub" and "hub" in benchmark.sources
            if hub:
                benchmark.choose_source("hub", root)
            elif files and root is None:
                raise UsageError(
                    f"data set {one!r} reads original files: give --data-root "
                    f"({benchmark.originals.expected}); micro/icinw needs none"
                )
            metric = ICINW[one].metric if one in ICINW else _METRICS.get(one, "accuracy")
            where = source if source in benchmark.sources else next(iter(benchmark.sources))
            assert where is not None
            found[one] = GridSet(benchmark, metric, where)
    return list(found.values())


def own_texts(name: str) -> bool:
    """Whether a data set's texts and knowledge are the micro world's."""
    return name in TEXTS
