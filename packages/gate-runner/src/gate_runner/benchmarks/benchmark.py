"""What a benchmark is: one frozen record, readable without importing torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.errors import DataError

if TYPE_CHECKING:
    from gate_runner.benchmarks.data import Data

TASKS = {
    "image-classification": "linear head, cross-entropy",
    "few-shot": "prototypes, squared Euclidean distance",
    "segmentation": "transformer on patch features, focal loss and cross-entropy",
    "medical-segmentation": "transformer on patch features, soft dice loss",
    "relational": "transformer on image and text tokens, cross-entropy over answers",
    "video-regression": "transformer over frames, L1",
    "pair-scoring": "cosines of two images and two captions, nothing trained",
    "zero-shot": "cosines with class embeddings from prompts, nothing trained",
    "entity-linking": "four cosines of question and entity (CLIP2CLIP), four weights chosen",
}
"""Task types, and the head and loss of each."""


@dataclass(frozen=True)
class DataRequest:
    """What a source is asked for.

    Args:
        root: the folder of original files, for ``local`` sources.
        limit: at most so many samples in each split, or None.
        size: side in pixels at which images are read from files; those in memory keep their own.
    """

    root: Path | None = None
    limit: int | None = None
    size: int = 224

    def cap(self, count: int) -> int:
        """How many of ``count`` samples to make.

        Example:
            >>> DataRequest(limit=10).cap(400), DataRequest().cap(400)
            (10, 400)
        """
        return count if self.limit is None else min(count, self.limit)


@dataclass(frozen=True)
class Benchmark:
    """A data set, a task type, and how the score is taken.

    Args:
        id: the name on the command line.
        title: what a reader should see.
        task: one of `TASKS`.
        metrics: names of ``vision_adapters.metrics``; the first one selects and is the headline.
        sources: where the data can come from, in order of preference: ``"local"`` (original files), ``"built-in"``
            (shipped with a dependency), ``"micro"`` (made on the spot), each with its ``module:function``.
        training: arguments of ``vision_adapters.training.Recipe``, or of the few-shot episodes.
        original_training: what differs in them for the original files, which are many more than a stand-in's.
        cost: seconds on two cores with micro-clip, for estimates before anything was measured.
        licence: of the original data; what is made on the spot needs none.
        citation: of the original data.
    """

    id: str
    title: str
    task: str
    metrics: tuple[str, ...]
    sources: Mapping[str, str]
    training: Mapping[str, Any] = field(default_factory=dict)
    original_training: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 20.0
    licence: str = "made on the spot: none needed"
    citation: str = ""

    def choose_source(self, asked: str | None, root: Path | None) -> str:
        """Which source a run uses.

        Args:
            asked: ``"local"``, ``"built-in"``, ``"micro"``, or None for the first that is possible.
            root: the data root, where one was given.

        Returns:
            The source's name.

        Raises:
            DataError: the benchmark has no such source, or needs a data root; the message says what it has.
        """
        if asked is not None:
            if asked not in self.sources:
                raise DataError(f"benchmark {self.id!r} has no source {asked!r}; it has: {', '.join(self.sources)}")
            if asked == "local" and root is None:
                raise DataError(f"benchmark {self.id!r} from local files needs --data-root")
            return asked
        for source in self.sources:
            if source != "local" or (root is not None and self.finds_files(root)):
                return source
        if root is not None:
            raise DataError(f"benchmark {self.id!r}: {root} does not hold its files ({self.expected_files()})")
        raise DataError(f"benchmark {self.id!r} reads original files: give --data-root ({self.expected_files()})")

    def finds_files(self, root: Path) -> bool:
        """Whether the data root holds this benchmark's folder or files."""
        finds: Callable[[Path], bool] = self._local_module().finds_files
        return finds(root)

    def expected_files(self) -> str:
        """What has to lie under the data root, in words."""
        expected: str = self._local_module().EXPECTED
        return expected

    def _local_module(self) -> Any:
        return importlib.import_module(self.sources["local"].partition(":")[0])

    def trained_for(self, source: str) -> Benchmark:
        """The same with the training numbers of a source.

        Example:
            >>> from gate_runner.benchmarks import BENCHMARKS
            >>> [BENCHMARKS["cifar100"].trained_for(source).training["steps"] for source in ("micro", "local")]
            [600, 10000]
        """
        return replace(self, training={**self.training, **self.original_training}) if source == "local" else self

    def name_with(self, source: str) -> str:
        """The name in reports: a stand-in never carries the real data set's name alone.

        Example:
            >>> from gate_runner.benchmarks import BENCHMARKS
            >>> BENCHMARKS["cifar100"].name_with("micro")
            'micro/cifar100'
        """
        return f"micro/{self.id}" if source == "micro" else self.id

    def load(self, source: str, request: DataRequest) -> Data:
        """Read or make the data.

        Args:
            source: one of ``sources``.
            request: data root and limit.

        Returns:
            Three splits.

        Raises:
            DataError: a file is missing or damaged; the message names it.
        """
        module, _, function = self.sources[source].partition(":")
        make: Callable[[DataRequest], Data] = getattr(importlib.import_module(module), function)
        return make(request)
