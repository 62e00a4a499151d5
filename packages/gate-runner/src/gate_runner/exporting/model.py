"""What an export is made of: the model's name, scores averaged over seeds, and texts by path."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gate_runner.errors import DataError, UsageError
from gate_runner.runs.stored import StoredRun


@dataclass(frozen=True)
class Mean:
    """A benchmark's metric, the mean over seeds.

    Args:
        benchmark: its id.
        name: its name; stand-ins begin with ``micro/``.
        task: its task type.
        metric: the metric's name.
        direction: ``"higher"`` or ``"lower"`` is better.
        value: the mean.
        low: the mean of the lower ends of the 95 % intervals over test samples.
        high: of the upper ends.
        chance: of the chance levels.
        seeds: how many.
        note: what a reader must know.
        source: of the data; ``"file"`` are one's own.
    """

    benchmark: str
    name: str
    task: str
    metric: str
    direction: str
    value: float
    low: float
    high: float
    chance: float
    seeds: int
    note: str
    source: str

    @property
    def published(self) -> str:
        """The name outside of the run's folder: one's own data never carry a data set's name alone."""
        return published(self.name, self.source)


def published(name: str, source: str) -> str:
    """A benchmark's name where others read it.

    Example:
        >>> published("birds", "file"), published("cifar100", "local")
        ('own/birds', 'cifar100')
    """
    return f"own/{name}" if source == "file" else name


def means(run: StoredRun) -> list[Mean]:
    """One row per benchmark and metric, in order; failed results have none.

    An interval is the mean of the seeds' intervals: it holds the variation of test samples, not of heads.

    Example:
        >>> from pathlib import Path
        >>> means(StoredRun(Path("r"), "", (), {}))
        []
    """
    rows = []
    for name in dict.fromkeys(result.name for result in run.results):
        done = [result for result in run.named(name) if result.status == "ok"]
        if not done:
            continue
        metrics = [[(score.metric, score.direction) for score in result.scores] for result in done]
        if any(seed != metrics[0] for seed in metrics):
            raise DataError(f"{run.path}: seeds of {name} have other metrics than its first: there is no mean of them")
        for rank, score in enumerate(done[0].scores):
            seeds = [result.scores[rank] for result in done]
            value, low, high, chance = (
                sum(getattr(seed, field) for seed in seeds) / len(seeds) for field in ("value", "low", "high", "chance")
            )
            first = done[0]
            note = "; ".join(filter(None, ["own data" if first.source == "file" else "", first.note]))
            rows.append(
                Mean(first.benchmark, name, first.task, score.metric, score.direction, value, low, high, chance,
                     len(seeds), note, first.source)
            )  # fmt: skip
    return rows


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Names as parts of file names, no two of them alike: the second of a kind gets a number.

    Example:
        >>> file_names(["own/a b", "own/a-b", "digits"])
        {'own/a b': 'own-a-b', 'own/a-b': 'own-a-b-2', 'digits': 'digits'}
    """
    plain: dict[str, str] = {}
    for name in names:
        stem = start = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        for number in itertools.count(2):
            if stem.lower() not in {other.lower() for other in plain.values()}:
                break
            stem = f"{start}-{number}"
        plain[name] = stem
    return plain


@dataclass(frozen=True)
class Files:
    """What a form makes of a run.

    Args:
        contents: texts by path below the output folder.
        left_out: what the form has no room for, a sentence each.
    """

    contents: Mapping[str, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Args:
        files: paths, in order.
        left_out: what the form has no room for, a sentence each.

    Example:
        >>> Exported((Path("card.md"),), ("intervals of seeds: the form has no room for them",)).files[0].name
        'card.md'
    """

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


class ModelName(NamedTuple):
    """A name as model hubs write it.

    Args:
        developer: who made the model, or the library that holds it.
        name: of the model.

    Example:
        >>> ModelName("openai", "clip-vit-base-patch32").id
        'openai/clip-vit-base-patch32'
    """

    developer: str
    name: str

    @property
    def id(self) -> str:
        """``developer/name``."""
        return f"{self.developer}/{self.name}"


def model_name(run: StoredRun, identity: str | None = None) -> ModelName:
    """The name to export a run under.

    Args:
        run: a run.
        identity: ``developer/name``, or None to derive it from the encoder's spec: an ``hf:`` id as it is; else the
            part before the colon as the developer, and the rest as the name.

    Returns:
        Both parts, which hold nothing that a file name could not.

    Raises:
        UsageError: the identity is not of two parts; the message shows it.

    Example:
        >>> from pathlib import Path
        >>> run = StoredRun(Path("r"), "", (), {"identity": {"encoder": {"spec": "timm:resnet18/random:1"}}})
        >>> model_name(run).id, model_name(run, "mylab/clip").id
        ('timm/resnet18-random-1', 'mylab/clip')
    """
    if identity is not None:
        developer, slash, name = identity.partition("/")
        if not (slash and _clean(developer) == developer and _clean(name) == name and developer and name):
            raise UsageError(f"model id {identity!r}: expected DEVELOPER/NAME of letters, digits, '.', '_' and '-'")
        return ModelName(developer, name)
    source, colon, path = run.encoder.partition(":")
    if source == "hf" and path.count("/") == 1 and not path.startswith((".", "/", "~")):
        developer, _, name = path.partition("/")
        return ModelName(_clean(developer), _clean(name))
    if not colon or "/" in source:
        return ModelName("gate-runner", _clean(run.encoder))
    return ModelName(_clean(source), _clean(path))


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "unnamed"
