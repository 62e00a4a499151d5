"""A benchmark with one seed as data: what another process, or another machine, needs to compute it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.remembered import known_digest, remember_digest
from gate_runner.benchmarks import Benchmark, DataRequest, resolve
from gate_runner.errors import UsageError
from gate_runner.runs.asked import asked_digest
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.settings import Settings
from gate_runner.tasks.shifting import has_shifts
from wary_files.folders import write
from wary_files.limits import refuse_special

if TYPE_CHECKING:  # it imports torch
    from gate_data.data import Data
    from gate_data.ragged import Outcomes
    from gate_data.request import Size

_LOG = logging.getLogger(__name__)

_LARGEST_BATCH = 64
"""Of the recipes for trained encoders; a batch is never cut into more parts than it has samples."""


@dataclass(frozen=True)
class EvalUnit:
    """All that is needed to compute one result; `to_mapping` makes it JSON for another process."""

    benchmark: Benchmark
    source: str  # where its data come from
    seed: int  # of heads and batches
    encoder: str  # the spec string
    output: Path  # the run folder
    settings: Settings = field(default_factory=Settings)

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
            "settings": self.settings.to_mapping(),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> EvalUnit:
        """The unit again, from what `to_mapping` made."""
        benchmark = dict(values["benchmark"])
        benchmark["metrics"] = tuple(benchmark["metrics"])
        return cls(
            **{
                **values,
                "benchmark": Benchmark(**benchmark),
                "output": Path(values["output"]),
                "settings": Settings(**values["settings"]),
            }
        )

    def load(self, size: Size) -> Data[Any]:
        """The benchmark's data, with images of files at ``size`` pixels."""
        data = self.benchmark.load(self.source, self.request(size))
        if self.settings.drop_near:
            from gate_data.near_splits import DROPPED

            if DROPPED not in data.note:
                raise UsageError(f"{self.name}: drop_near compares image files, and these data are not listed by file")
        return data if self.settings.folds is None else pooled(data)

    def listing(self, size: Size) -> bytes | None:
        """What stands for the digest of the data while no file changes; None where they are not lists of files."""
        drawn = not {"variant", "coop"}.isdisjoint(self.benchmark.training)
        if drawn or self.source not in ("local", "file") or self.settings.folds is not None:
            return None
        root = self.benchmark.root_of(self.source, self.settings.data_root)
        originals = self.benchmark.originals
        return None if root is None else originals.listing(originals.find(root), self.request(size))

    def request(self, size: Size) -> DataRequest:
        """What the benchmark's source is asked for."""
        how = self.settings
        seed = self.seed if "coop" in self.benchmark.training else 0
        request = DataRequest(how.data_root, how.limit, size, how.skip_unreadable, seed=seed)
        return replace(request, drop_near=how.drop_near, note_near=True)

    @property
    def same_data(self) -> tuple[str, ...]:
        """What units have in common that load the same data from a run's folder of original files."""
        drawn = str("variant" in self.benchmark.training)
        if (point := self.benchmark.training.get("coop")) is not None:
            drawn = f"{point['shots']} of each class, {point['protocol']}, seed {self.seed}"
        return self.benchmark.id.partition("@")[0], self.source, self.benchmark.sources[self.source], drawn

    def known_by(self, data: Data[Any], digest: str) -> dict[str, Any]:
        """Return the digests by which a result is known to be of these data, whose own digest is given.

        ``columns``, of data of one's own, is of names of classes, slices and groups.
        """
        return {"sha256": digest, **({"columns": columns_digest(data)} if self.source == "file" else {})}

    @property
    def _asked(self) -> str:
        return asked_digest(self.benchmark, self.source, self.settings, self.seed)

    def _watched(self) -> list[EvalUnit]:
        """The benchmarks on which the training is watched (``keep_zero_shot``), as units of the same run."""
        units, settings = [], self.settings
        alone = settings.changed(keep_zero_shot=(), drop_near=False, folds=None)
        for watched in resolve(settings.keep_zero_shot):
            source = watched.choose_source(settings.source, settings.data_root)
            units.append(replace(self, benchmark=watched, source=source, settings=alone))
        return units

    def asked(self, size: Size) -> dict[str, Any]:
        """Return the digests by which a result is known to be asked for in this way, to be taken before it is computed.

        ``asked`` is of what the benchmark and named files say; ``watched`` has all digests of each benchmark of
        ``keep_zero_shot``.
        """
        watched: list[dict[str, Any]] = []
        for part in self._watched():
            data = part.load(size)
            watched.append({**part.known_by(data, data.digest()), **part.asked(size)})
        return {"asked": self._asked, **({"watched": watched} if watched else {})}

    def finished(self) -> Result | None:
        """The result that is there, with all that was to be kept beside it; None where it must be computed."""
        result = self.folder.finished(self.name, self.seed, recompute=self.settings.recompute)
        if self.settings.keep_predictions and not self.folder.predictions_file(self.name, self.seed).exists():
            return None
        if self.settings.save_heads and not (self.folder.head_folder(self.name, self.seed) / "card.json").is_file():
            return None
        if result is not None and self.settings.shift and not has_shifts(result.training, self.settings.shift):
            return None
        if result is not None and result.scores[0].metric != self.benchmark.metrics[0] and "variant" in result.training:
            return None  # ELEVATER's own metric of VOC 2007 was another one before
        return result

    def check_data(self, stored: Result, size: Size, digests: dict[tuple[str, ...], str]) -> None:
        """See whether a stored result was computed from the original files that lie there now."""
        held = f"{self.output} holds a result of {self.name} seed {self.seed}"
        if stored.source != self.source:
            raise UsageError(f"{held} from source {stored.source!r}, not {self.source!r}: choose another --output")
        self._check_known(stored.data, size, digests, held)

    def _check_known(
        self, stored: Mapping[str, Any], size: Size, digests: dict[tuple[str, ...], str], held: str
    ) -> None:
        """Refuse what differs from the digests that a result holds; see `known_by`."""
        if stored.get("asked") != self._asked:
            raise UsageError(
                f"{held} that was asked for otherwise: another task, metrics or training of the benchmark, or other "
                "contents of files of words, knowledge, shots or code that it or a setting names: choose another "
                "--output"
            )
        if self.source in ("local", "hub", "file"):
            now = self._digest_now(size, digests)
            if now != stored.get("sha256"):
                raise UsageError(
                    f"{held} on other data (sha256 {str(stored.get('sha256'))[:12]}, now {now[:12]}): choose another "
                    "--output"
                )
        if self.source == "file":
            place = ("columns", *self.same_data)
            if place not in digests:
                digests[place] = columns_digest(self.load(size))
            if digests[place] != stored.get("columns"):
                raise UsageError(f"{held} by other slices, groups or names of classes: choose another --output")
        watched, before = self._watched(), stored.get("watched", [])
        for part, known in zip(watched, before if len(before) == len(watched) else [{}] * len(watched), strict=True):
            part._check_known(known, size, digests, f"{held} that watched {part.name}, and the latter's is one")

    def _digest_now(self, size: Size, digests: dict[tuple[str, ...], str]) -> str:
        """The digest of the data as their files are now."""
        if self.same_data not in digests:
            mark = self.listing(size)
            known = known_digest(mark)
            digests[self.same_data] = known or self.load(size).digest()
            if known is None:
                remember_digest(mark, digests[self.same_data])
        return digests[self.same_data]

    def save(self, result: Result, samples: Outcomes | None, traceback: str = "", **arrays: Any) -> Result:
        """Write a result as `RunFolder.save`, with note and reason that name no folder above the run's and the data's.

        A result is handed on: its paths start at the data root, a benchmark's file or the run folder.
        """
        folders = [self.output]
        if (root := self.benchmark.root_of(self.source, self.settings.data_root)) is not None:
            folders.append(root)
        note, reason = (without_folders(text, folders) for text in (result.note, result.reason))
        return self.folder.save(replace(result, note=note, reason=reason), samples, traceback, **arrays)

    def blank(self, description: Mapping[str, Any]) -> Result:
        """A failed result without a reason, to be filled in."""
        return Result(
            benchmark=self.benchmark.id,
            name=self.name,
            task=self.benchmark.task,
            source=self.source,
            seed=self.seed,
            status="failed",
            settings=self.settings.identity(),
            encoder=description,
        )


def columns_digest(data: Data[Any]) -> str:
    """Return what tells names of classes, slices and groups from others.

    Near copies, which are found later, are left out. Of groups, also of training samples, it counts which samples are
    together and in which order their names are, and not what they are called: a group may be the path of an image.
    """
    from gate_data.near_splits import NEAR
    from gate_data.original_files import GROUP

    columns = {name: values for name, values in data.test.columns.items() if name not in (NEAR, GROUP)}
    groups = [split.columns.get(GROUP, ()) for split in (data.train, data.validation, data.test)]
    place = {name: at for at, name in enumerate(sorted({name for names in groups for name in names}))}
    numbers = [[place[name] for name in names] for names in groups]
    return hashlib.sha256(json.dumps([data.classes, columns, numbers], sort_keys=True).encode()).hexdigest()[:16]


def without_folders(text: str, folders: Iterable[Path]) -> str:
    """Return a text whose absolute paths below the folders start at them.

    Example:
        >>> without_folders("/home/ann/birds/a.jpg is a copy of /home/ann/owls/b.jpg", [Path("/home/ann/birds")])
        'a.jpg is a copy of /home/ann/owls/b.jpg'
    """
    places = sorted({os.path.join(str(folder.absolute()), "") for folder in folders}, key=len, reverse=True)  # noqa: PTH118
    for place in places:
        if place != os.sep:
            text = re.sub(rf"(?<![\w./\\-]){re.escape(place)}", "", text)
    return text


def halved(unit: EvalUnit, phase: str) -> EvalUnit | None:
    """The same with half of what the encoder is given at once, or a training batch in twice as many; kept on disk."""
    from vision_features.encoders.loading import device_for
    from vision_features.features import at_once

    settings = unit.settings
    if phase == "data":  # what is read does not depend on the encoder's batch
        return None
    if phase in ("train", "test"):
        most, now = _batch_size(unit), settings.micro_batches
        smaller = settings.changed(micro_batches=2 * now) if 2 * now <= most else None
    else:
        together = at_once(settings.batch_size, device_for(settings.device))
        smaller = settings.changed(batch_size=together // 2) if together > 1 else None
    if smaller is None:
        return None
    sizes = {"batch_size": smaller.batch_size, "micro_batches": smaller.micro_batches}
    _LOG.warning("%s ran out of memory (%s): trying again with %s", unit.name, phase, sizes)
    write(unit.folder.sizes_file(unit.name, unit.seed), json.dumps(sizes).encode())
    return replace(unit, settings=smaller)


def _batch_size(unit: EvalUnit) -> int:
    """Samples of a training batch; where the recipe alone knows it, the most that there may be."""
    settings = unit.settings
    if settings.tune == "frozen":
        return int(unit.benchmark.training.get("batch_size", 8))
    batch_size = settings.recipe_fields.get("batch_size")
    return int(float(batch_size)) if batch_size is not None else _LARGEST_BATCH


def with_kept_sizes(unit: EvalUnit) -> EvalUnit:
    """The unit with the smaller sizes of an earlier attempt, so that it goes on with the same features."""
    path = unit.folder.sizes_file(unit.name, unit.seed)
    try:
        refuse_special(path)
        sizes = json.loads(path.read_text())
        batch_size, micro_batches = int(sizes["batch_size"]), int(sizes["micro_batches"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return unit
    settings = unit.settings
    smaller = settings.changed(
        batch_size=max(1, min(settings.batch_size, batch_size)),
        micro_batches=max(settings.micro_batches, min(_batch_size(unit), micro_batches)),
    )
    return replace(unit, settings=smaller)


def pooled(data: Data[Any]) -> Data[Any]:
    """Data whose every split is all samples, for cross-validation."""
    import torch

    from gate_data.data import Data, Split
    from gate_data.pictures import Pictures

    splits = (data.train, data.validation, data.test)
    units: list[Any] = [split.images for split in splits]
    images: Any
    if isinstance(units[0], Pictures):
        images = replace(units[0], files=tuple(file for unit in units for file in unit.files))
    else:
        images = torch.cat([unit[:] for unit in units])
    names = set.intersection(*(set(split.columns) for split in splits))
    columns = {name: tuple(value for split in splits for value in split.columns[name]) for name in sorted(names)}
    together = Split(images, torch.cat([split.targets for split in splits]), columns=columns)
    return Data(together, together, together, data.classes)
