"""A benchmark with one seed as data: what another process, or another machine, needs to compute it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gate_runner.benchmarks import Benchmark
from gate_runner.runs.folder import RunFolder, write
from gate_runner.runs.results import Result

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """All that is needed to compute one result; `to_mapping` makes it JSON for another process.

    Args:
        benchmark: what to score.
        source: where its data come from.
        seed: of heads and batches.
        encoder: the spec string.
        output: the run folder.
        data_root: folder of original files, or None.
        limit: at most so many samples in each split, or None.
        batch_size: images per call of the encoder.
        parts: into how many parts a training batch is cut.
        device: a torch device, or ``"auto"``.
    """

    benchmark: Benchmark
    source: str
    seed: int
    encoder: str
    output: Path
    data_root: Path | None = None
    limit: int | None = None
    batch_size: int = 128
    parts: int = 1
    device: str = "cpu"

    @property
    def name(self) -> str:
        """The benchmark's name in reports."""
        return self.benchmark.name_with(self.source)

    @property
    def folder(self) -> RunFolder:
        """The run folder."""
        return RunFolder(self.output)

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values, with absolute paths."""
        return {
            **asdict(self),
            "output": str(self.output.absolute()),
            "data_root": None if self.data_root is None else str(self.data_root.absolute()),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Part:
        """The part again, from what `to_mapping` made."""
        benchmark = dict(values["benchmark"])
        benchmark["metrics"] = tuple(benchmark["metrics"])
        root = values["data_root"]
        return cls(
            **{
                **values,
                "benchmark": Benchmark(**benchmark),
                "output": Path(values["output"]),
                "data_root": None if root is None else Path(root),
            }
        )

    def blank(self, description: Mapping[str, Any]) -> Result:
        """A failed result without a reason, to be filled in."""
        return Result(
            benchmark=self.benchmark.id,
            name=self.name,
            task=self.benchmark.task,
            source=self.source,
            seed=self.seed,
            status="failed",
            limit=self.limit,
            encoder=description,
        )


def halved(part: Part, phase: str) -> Part | None:
    """The same with half the encoder's batch, or a training batch in twice as many parts; kept in the folder.

    Args:
        part: what ran out of memory.
        phase: where: ``"train"`` and ``"test"`` cut training batches, all others halve the encoder's.

    Returns:
        The smaller part, or None where nothing can be halved any more.

    Raises:
        StorageError: the run folder cannot be written.
    """
    if phase in ("train", "test"):
        most = int(part.benchmark.training.get("batch_size", 8))
        smaller = replace(part, parts=part.parts * 2) if part.parts * 2 <= most else None
    else:
        smaller = replace(part, batch_size=part.batch_size // 2) if part.batch_size > 1 else None
    if smaller is not None:
        sizes = {"batch_size": smaller.batch_size, "parts": smaller.parts}
        _LOG.warning("%s ran out of memory (%s): trying again with %s", part.name, phase, sizes)
        write(part.folder.sizes_file(part.name, part.seed), json.dumps(sizes).encode())
    return smaller


def with_kept_sizes(part: Part) -> Part:
    """The part with the smaller sizes of an earlier attempt, so that it goes on with the same features.

    Args:
        part: as it was asked for.

    Returns:
        The same, or with the sizes that `halved` kept.
    """
    try:
        sizes = json.loads(part.folder.sizes_file(part.name, part.seed).read_text())
        batch_size, parts = int(sizes["batch_size"]), int(sizes["parts"])
    except (OSError, ValueError, KeyError, TypeError):
        return part
    return replace(part, batch_size=max(1, min(part.batch_size, batch_size)), parts=max(part.parts, parts))
