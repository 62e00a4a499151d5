"""What a training of an image-text encoder is asked for."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eqsim import ClipEqSimLoss, build_loss
from gate_data.captioned import Captioned
from gate_runner.errors import UsageError
from gate_runner.finetuning.loss_settings import LOSS_SETTINGS, loss_settings, pairs_of, share_of_hard
from gate_runner.finetuning.several import read_several
from gate_runner.tasks.recipes import checked_augmentation

RATES = {"full": 1e-5, "last-block": 1e-5, "lora": 1e-4, "bias": 1e-4, "norm": 1e-4}
"""Learning rates of what `--tune` trains."""
TUNES = tuple(RATES)


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest:
    """All that decides a training, by the names of the options of `gate-runner finetune`, whose help says what each is.

    ``also`` are further sets of pictures, trained on together with ``pairs``. ``add`` are terms of `eqsim.build_loss`,
    ``settings`` NAME=VALUE of `loss_settings.NAMES`; the two images of a known pair are augmented alike.
    """

    pairs: str
    encoder: str
    also: tuple[str, ...] = ()
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
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no training can have."""
        checked_augmentation(self.augment)
        self.check_settings()
        if self.tune not in TUNES:
            raise UsageError(f"--tune {self.tune}: expected one of {', '.join(TUNES)}")
        if self.wise_ft not in (None, "best") and (isinstance(self.wise_ft, str) or not 0 <= self.wise_ft <= 1):
            raise UsageError(f"--wise-ft {self.wise_ft}: expected 'best', or a share from 0 to 1")
        if not 0 <= self.warmup < 1 or not 0 < self.epochs < math.inf:
            raise UsageError(f"expected --warmup from 0 to below 1 and --epochs above 0: {self.warmup}, {self.epochs}")
        if self.also and self.table is not None:
            raise UsageError("--table counts in one folder: name the tables themselves where there are several sets")
        if len({self.pairs, *self.also}) <= len(self.also):
            raise UsageError(f"a set is named twice among {', '.join((self.pairs, *self.also))}: name each once")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {self.seed}: expected 0 to 2**63 - 1")
        if self.num_processes < 1 or self.batch_size < max(2, self.num_processes):
            raise UsageError(f"a batch of {self.batch_size} cannot be shared by {self.num_processes} processes")
        if self.teacher is not None and not self.terms.settings.keep_weight:
            raise UsageError("--teacher goes with --add keep=WEIGHT, which is what keeps its scores")

    @property
    def terms(self) -> ClipEqSimLoss:
        """The loss, as one sum."""
        try:
            return build_loss(self.loss, self.add, **loss_settings(self.named))
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error

    @property
    def named(self) -> dict[str, str]:
        """The settings by name."""
        return pairs_of(self.settings)

    @property
    def hard_share(self) -> float:
        """The share of a batch that are hard negatives of the rest."""
        return share_of_hard(self.named)

    @property
    def decode_workers(self) -> int:
        """Processes that read and augment training images."""
        text = self.named.get("decode_workers", "0")
        if not text.isdecimal() or len(text) > 4:
            raise UsageError(f"--setting decode_workers is {text!r}; expected a whole number")
        return int(text)

    def check_settings(self) -> None:
        """Refuse settings that there are not, or that change nothing of this loss."""
        loss, named = self.terms.settings, self.named
        idle = [name for name in LOSS_SETTINGS if name in named and name not in _used_by(loss.mode)]
        idle = [name for name in idle if not (name in ("focus", "smoothing") and loss.hard_weight)]
        if idle:
            raise UsageError(
                f"--setting {idle[0]} changes nothing of --add {' --add '.join(self.add) or 'nothing'}: it goes with "
                f"{'hard' if idle[0] in ('focus', 'smoothing') else 'eqsim:v1, v2, hybrid or relative'}"
            )
        if "close" in named and loss.pair_weight:
            raise UsageError("--setting close looks for pairs, and --add pair takes the known ones: leave out one")
        if self.hard_share and self.num_processes > 1:
            raise UsageError("--setting hard_negatives fills whole batches: it needs --num-processes 1")
        _ = self.decode_workers

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> FinetuneRequest:
        """The request of such values."""
        paths = {name: Path(values[name]) for name in ("output", "table", "data_root") if values[name] is not None}
        return cls(
            **{
                **values,
                **paths,
                "also": tuple(values["also"]),
                "add": tuple(values["add"]),
                "settings": tuple(values["settings"]),
            }
        )

    def read(self) -> Captioned:
        """Its images and captions."""
        return read_several(
            (self.pairs, *self.also),
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
        settings = sorted(text for text in self.settings if not text.startswith("decode_workers="))
        also = [_absolute(name) for name in self.also]
        return {**values, **located, "also": also, "add": list(self.add), "settings": settings}


LOCATED = ("pairs", "encoder", "teacher", "table", "data_root")
"""Fields that name data and weights, which digests tell apart."""


def _used_by(mode: str) -> tuple[str, ...]:
    """The settings that change a mode of EqSim."""
    every = ("margin", "margin_mode", "score", "sides", "close")
    return {
        "v1": ("margin_v1", "margin_mode", "score", "distant_reduction", "close"),
        "v2": every,
        "hybrid": (*every, "margin_v1", "distant_reduction"),
        "relative": ("epsilon",),
    }.get(mode, ())


def _absolute(value: str | None) -> str | None:
    """A path, or one behind a prefix such as ``tuned:``, from the root; other names as they are."""
    if value is None:
        return None
    prefix, sign, rest = value.partition(":")
    for start, path in (("", value), (prefix + sign, rest)):
        if path and Path(path).expanduser().exists():
            return f"{start}{Path(path).expanduser().resolve()}"
    return value
