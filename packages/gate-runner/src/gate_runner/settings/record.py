"""All settings of a run in one frozen record, checked as it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gate_runner.errors import UsageError, unknown
from gate_runner.settings.axes import PROBES, Axes, shots_of
from gate_runner.settings.axes import TUNES as SWEPT
from gate_runner.settings.groups import (
    DataSettings,
    Declaration,
    FeatureSettings,
    MachineSettings,
    SweepSettings,
    TrainingSettings,
)
from gate_runner.settings.values import RECIPES, recipe_in

_SWEEPING = (
    *("init", "projection", "knowledge", "knowledge_folder", "keep_predictions", "short_classes"),
    *("unlabelled", "probe"),
)
"""Settings that only a sweep of image classification has (``shots`` is detection's, too)."""


@dataclass(frozen=True, kw_only=True)
class Settings(MachineSettings, SweepSettings, TrainingSettings, FeatureSettings, DataSettings):
    """How benchmarks are run. A request, each of its parts and each job carry it whole.

    ``gate-runner ls settings`` prints every setting with its group, its default and what it says.

    Raises:
        UsageError: a value that cannot be used; the message shows it.

    Example:
        >>> Settings(limit=100).changed(seeds=[0, 1, 0], isolate="worker", time_limit="20m").seeds
        (0, 1)
    """

    def __post_init__(self) -> None:
        """Read what was said, and check it."""
        for name, declared in DECLARED.items():
            value, default = _plain(getattr(self, name)), FIELDS[name].default
            object.__setattr__(self, name, value)
            if value is None and default is not None:
                object.__setattr__(self, name, {} if default is MISSING else default)
            elif declared.read is not None and value is not None and value is not default and value != {}:
                object.__setattr__(self, name, declared.read(value))
            if declared.read is None and value is not None:
                _check_type(name, value)
            if name in CHOICES and value not in CHOICES[name]:
                raise unknown(f"value of {flag_of(name)}", value, CHOICES[name])
        if self.recipe not in RECIPES:
            recipe, recipe_fields = recipe_in(self.recipe, self.recipe_fields)
            object.__setattr__(self, "recipe", recipe)
            object.__setattr__(self, "recipe_fields", recipe_fields)
        for name, declared in DECLARED.items():
            value = getattr(self, name)
            if declared.least is not None and value is not None and value < declared.least:
                raise UsageError(f"{flag_of(name)} must be at least {declared.least}, not {value}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise UsageError(f"setting time_limit must be positive, not {self.time_limit} s")
        knows = self.prompts not in ("overrides", "names")
        if knows and self.knowledge_from is None:
            raise UsageError(f"setting prompts={self.prompts} needs knowledge_from=NAME=PATH, such as glip=FILE")
        if self.knowledge_from is not None and not knows:
            raise UsageError(f"setting knowledge_from goes with prompts of knowledge (gpt3, …), not {self.prompts!r}")
        self._check_trained()
        if self.isolate == "none":
            self._check_one_process()

    def _check_trained(self) -> None:
        """Refuse what only a training of the encoder can have."""
        if self.tune != "frozen":
            return
        if self.recipe != "quick":
            raise UsageError(f"--recipe {self.recipe} trains an encoder: it goes with --tune other than frozen")
        for name in ("save_encoders", "keep_zero_shot", "wise_ft", "checkpoint_blocks", "num_processes"):
            if getattr(self, name) != FIELDS[name].default:
                raise UsageError(
                    f"{flag_of(name)} is for an encoder that is trained: it goes with --tune other than frozen"
                )

    def _check_one_process(self) -> None:
        for option, present in (
            ("setting time_limit", self.time_limit is not None),
            ("--workers", (self.workers or 1) > 1),
            (f"--executor {self.executor}", self.executor != "local"),
        ):
            if present:
                raise UsageError(f"{option} needs processes of their own: --isolate worker or benchmark, not none")

    @property
    def sweeps(self) -> bool:
        """Whether an option was given that only a sweep of image classification has."""
        return "," in self.tune or any(getattr(self, name) != FIELDS[name].default for name in _SWEEPING)

    @property
    def feature_precision(self) -> str:
        """Precision of features: as set for an encoder that stays frozen, ``float32`` for one that is trained."""
        return self.precision if self.tune == "frozen" else "float32"

    def axes(self) -> Axes | None:
        """The axes of a sweep over image classification; None where none was asked for."""
        if not (self.sweeps or self.shots):
            return None
        tunes = self.tune.split(",")
        for tune in tunes:
            if tune not in SWEPT:
                options = [name for name in ("shots", *_SWEEPING) if getattr(self, name) != FIELDS[name].default]
                named = ["several values of --tune"] if len(tunes) > 1 else [flag_of(name) for name in options]
                raise UsageError(
                    f"--tune {tune} does not go with {', '.join(named)}: a sweep of image classification has "
                    f"--tune {', '.join(SWEPT)}"
                )
        axes = {
            "shots": shots_of(self.shots),
            "tune": tuple(tunes),
            "init": self.init,
            "projection": self.projection,
            "knowledge": self.knowledge,
        }
        chosen: dict[str, Any] = {name: values for name, values in axes.items() if values}
        return Axes(**chosen, seeds=self.seeds, controls=self.controls)

    def of_unit(self, training: Mapping[str, Any]) -> Settings:
        """Those of one unit of a sweep, whose point its benchmark's ``training`` holds; the same for any other."""
        point = training.get("variant")
        if point is None:
            return self
        trained = point["tune"] == "full" and point["shots"] != 0
        untrained = {"recipe": "quick", "recipe_fields": {}, "checkpoint_blocks": False, "num_processes": 1}
        recipe: dict[str, Any] = {} if trained else untrained
        start: dict[str, Any] = dict.fromkeys(("shots", "init", "projection", "knowledge"), ())
        return replace(self, tune="full" if trained else "frozen", **recipe, **start)

    def changed(self, **options: Any) -> Settings:
        """The same with other values."""
        for name in options:
            if name not in NAMES:
                raise unknown("option", name, NAMES)
        return replace(self, **options)

    def identity(self) -> dict[str, Any]:
        """What results that share a run folder, or are compared, must have in common."""
        start, identity = Settings(), {}
        for name, declared in DECLARED.items():
            value = getattr(self, name)
            if name == "tune" and self.sweeps and (self.init or self.projection or self.knowledge or "," in value):
                continue  # each unit's name says it
            optional = declared.identity == "mode" or declared.digest is not None
            if declared.identity and (not optional or value != getattr(start, name)):
                digest = declared.digest
                identity[name] = digest(value) if digest else list(value) if isinstance(value, tuple) else value
        return identity

    @classmethod
    def modes(cls) -> set[str]:
        """The options by which runs may differ and be compared all the same: how the encoder was trained."""
        return {name for name, declared in DECLARED.items() if declared.identity == "mode"}

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values, with absolute paths."""
        paths = {name: getattr(self, name) for name in ("data_root", "knowledge_folder", "class_words")}
        absolute = {name: None if path is None else str(path.absolute()) for name, path in paths.items()}
        return {**asdict(self), **absolute}


def _plain(value: Any) -> Any:
    """Numbers and vectors of NumPy as Python has them: a run folder's JSON holds no others."""
    return value.tolist() if getattr(value, "ndim", 2) < 2 and hasattr(value, "tolist") else value


def _check_type(name: str, value: Any) -> None:
    """Refuse another truth value than true and false, and another number than a whole one, where these are wanted."""
    kinds = {kind for kind in (HINTS[name], *get_args(HINTS[name])) if kind is not type(None)}
    if kinds == {bool} and not isinstance(value, bool):
        raise UsageError(f"{flag_of(name)} must be True or False, not {value!r:.60}")
    if int in kinds and not kinds & {float, str} and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{flag_of(name)} must be a whole number, not {value!r:.60}")


FIELDS: dict[str, Field[Any]] = {entry.name: entry for entry in fields(Settings)}
"""Every setting by its name, in the order in which they are shown."""
NAMES = tuple(FIELDS)
DECLARED: dict[str, Declaration] = {name: entry.metadata["setting"] for name, entry in FIELDS.items()}
"""What each is declared with."""
HINTS: dict[str, Any] = get_type_hints(Settings)
"""The type of each one's value."""
CHOICES: dict[str, tuple[str, ...]] = {
    **{name: get_args(hint) for name, hint in HINTS.items() if get_origin(hint) is Literal},
    "probe": PROBES,
}
"""The values of those that have few."""
_ARGS = "".join(f"        {name}: {' '.join(declared.help.split())}\n" for name, declared in DECLARED.items())
Settings.__doc__ = (Settings.__doc__ or "").replace("\n    Raises:", f"\n    Args:\n{_ARGS}\n    Raises:", 1)


def option_of(name: str) -> str:
    """Return the option of a setting, for commands that have one for it."""
    return DECLARED[name].flag or f"--{name.replace('_', '-')}"


def flag_of(name: str) -> str:
    """Return what messages call a setting: its option, or ``setting NAME`` if only ``--setting`` takes it."""
    return option_of(name) if DECLARED[name].common else f"setting {name}"
