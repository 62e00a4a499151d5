"""What a training of an image-text encoder is asked for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eqsim import ClipEqSimLoss, build_loss
from gate_runner.errors import UsageError
from gate_runner.finetuning.pairs import Captioned, read_captioned
from gate_runner.tasks.recipes import checked_augmentation

RATES = {"full": 1e-5, "last-block": 1e-5, "lora": 1e-4, "bias": 1e-4, "norm": 1e-4}
"""Learning rates of what `--tune` trains."""
TUNES = tuple(RATES)


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest:
    """All that decides a training, by the names of the options of `gate-runner finetune`, whose help says what each is.

    ``add`` are terms of `eqsim.build_loss`; the two pictures of a known pair are augmented alike.
    """

    pairs: str
    encoder: str
    output: Path
    loss: str = "clip"
    add: tuple[str, ...] = ()
    teacher: str | None = None
    tune: str = "full"
    wise_ft: float | str | None = None
    epochs: float = 5.0
    steps: int | None = None
    lr: float | None = None
    batch_size: int = 128
    validate_every: int | None = None
    warmup: float = 0.05
    weight_decay: float = 0.1
    augment: str = "none"
    precision: str = "auto"
    checkpoint_blocks: bool = False
    num_processes: int = 1
    seed: int = 0
    device: str = "auto"
    table: Path | None = None
    data_root: Path | None = None
    limit: int | None = None
    skip_unreadable: bool = False

    def __post_init__(self) -> None:
        """Refuse what no training can have."""
        checked_augmentation(self.augment)
        if self.tune not in TUNES:
            raise UsageError(f"--tune {self.tune}: expected one of {', '.join(TUNES)}")
        if self.wise_ft not in (None, "best") and (isinstance(self.wise_ft, str) or not 0 <= self.wise_ft <= 1):
            raise UsageError(f"--wise-ft {self.wise_ft}: expected 'best', or a share from 0 to 1")
        if not 0 <= self.warmup < 1 or not 0 < self.epochs < math.inf:
            raise UsageError(f"expected --warmup from 0 to below 1 and --epochs above 0: {self.warmup}, {self.epochs}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {self.seed}: expected 0 to 2**63 - 1")
        if self.num_processes < 1 or self.batch_size < max(2, self.num_processes):
            raise UsageError(f"a batch of {self.batch_size} cannot be shared by {self.num_processes} processes")
        if self.teacher is not None and not self.terms.settings.keep_weight:
            raise UsageError("--teacher goes with --add keep=WEIGHT, which is what keeps its scores")

    @property
    def terms(self) -> ClipEqSimLoss:
        """The loss, as one sum."""
        return build_loss(self.loss, self.add)

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> FinetuneRequest:
        """The request of such values."""
        paths = {name: Path(values[name]) for name in ("output", "table", "data_root") if values[name] is not None}
        return cls(**{**values, **paths, "add": tuple(values["add"])})

    def read(self) -> Captioned:
        """Its pictures and captions."""
        return read_captioned(
            self.pairs,
            table_of=self.table,
            data_root=self.data_root,
            limit=self.limit,
            skip_unreadable=self.skip_unreadable,
            seed=self.seed,
        )

    def identity(self) -> dict[str, Any]:
        """What tells one training from another by names: all but where it runs and what it is called.

        Paths are absolute; they are not compared (`LOCATED`): what counts is what they hold.
        """
        apart = ("output", "device", "num_processes", "checkpoint_blocks")
        values = {name: value for name, value in self.to_mapping().items() if name not in apart}
        located = {name: _absolute(values[name]) for name in LOCATED}
        return {**values, **located, "add": list(self.add)}


LOCATED = ("pairs", "encoder", "teacher", "table", "data_root")
"""Fields that name data and weights, which digests tell apart."""


def _absolute(value: str | None) -> str | None:
    """A path, or one behind a prefix such as ``tuned:``, from the root; other names as they are."""
    if value is None:
        return None
    prefix, sign, rest = value.partition(":")
    for start, path in (("", value), (prefix + sign, rest)):
        if path and Path(path).expanduser().exists():
            return f"{start}{Path(path).expanduser().resolve()}"
    return value
