"""What a grid is asked for, as data that can travel to a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.encoders.spec import parse_spec
from gate_runner.errors import DataError, UsageError, unknown
from gate_runner.icinw.cells import SHORT_CLASSES, Axes, ShortClasses
from gate_runner.icinw.sets import GridSet, resolve_sets
from gate_runner.runs.naming import folder_name
from gate_runner.settings import Settings

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

PROBES = ("anchored", "logistic", "elevater", "gda", "lp++", "clap", "tip_adapter", "prolip", "lda")
"""How heads on fixed features are fitted: names of ``vision_adapters.tuning.METHODS``."""
ALONE = ("anchored", "logistic", "elevater", "lda")
"""Those of them that need no class texts; a random start is fitted by the first where another was asked for."""


@dataclass(frozen=True)
class GridRequest:
    """What is to be filled.

    Args:
        names: packs or data sets.
        encoder: a spec string, or an encoder (then ``settings.workers`` must be 1).
        output: the run folder.
        axes: of the grid.
        settings: ``source``, ``data_root``, ``limit``, ``batch_size``, ``device``, ``workers``, ``recipe``,
            ``recipe_fields`` and ``feature_cache`` count.
        probe: how heads on fixed features are fitted.
        knowledge_folder: of ELEVATER's knowledge files.
        keep_predictions: whether each cell's probabilities are kept, for submissions.
        short_classes: where a class has fewer images than shots, ``"take"`` all of them, as ELEVATER's toolkit does, or
            ``"skip"`` the cell.

    Example:
        >>> request = GridRequest(("micro/icinw",), "micro-clip", Path("runs/grid"), axes=Axes.of(shots="0,5"))
        >>> len(request.sets()), GridRequest.from_mapping(request.to_mapping()).axes.shots
        (7, (0, 5))
    """

    names: tuple[str, ...]
    encoder: str | Encoder
    output: Path
    axes: Axes = field(default_factory=Axes)
    settings: Settings = field(default_factory=Settings)
    probe: str = "anchored"
    knowledge_folder: Path | None = None
    keep_predictions: bool = False
    short_classes: ShortClasses = "take"

    @property
    def spec(self) -> str:
        """The encoder's spec string."""
        return self.encoder if isinstance(self.encoder, str) else self.encoder.spec

    def sets(self) -> list[GridSet]:
        """The data sets, each with its source."""
        return resolve_sets(self.names, self.settings.source, self.settings.data_root)

    def identity(self) -> dict[str, Any]:
        """What cells of one folder have in common, besides the encoder."""
        settings, start = self.settings, Settings()
        said = {name: getattr(settings, name) for name in ("recipe", "recipe_fields")}
        changed = {name: value for name, value in said.items() if value != getattr(start, name)}
        if settings.source == "hub":  # other copies, other orders of rows
            changed["source"] = "hub"
        if self.short_classes != "take":
            changed["short_classes"] = self.short_classes
        return {"kind": "grid", "limit": settings.limit, "probe": self.probe, **changed}

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values, with absolute paths."""
        folder = self.knowledge_folder
        return {
            "names": list(self.names),
            "encoder": self.spec,
            "output": str(self.output.absolute()),
            "axes": self.axes.to_mapping(),
            "settings": self.settings.to_mapping(),
            "probe": self.probe,
            "knowledge_folder": None if folder is None else str(folder.absolute()),
            "keep_predictions": self.keep_predictions,
            "short_classes": self.short_classes,
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> GridRequest:
        """The request again."""
        axes: dict[str, Any] = {
            name: tuple(said) if isinstance(said, list) else said for name, said in values["axes"].items()
        }
        folder = values["knowledge_folder"]
        return cls(
            **{
                **values,
                "names": tuple(values["names"]),
                "output": Path(values["output"]),
                "axes": Axes(**axes),
                "settings": Settings(**values["settings"]),
                "knowledge_folder": None if folder is None else Path(folder),
            }
        )


def make_grid_request(
    names: str | Sequence[str],
    encoder: Any = "micro-clip",
    *,
    output: Path | None = None,
    axes: Axes | None = None,
    settings: Settings | None = None,
    probe: str = "anchored",
    knowledge_folder: Path | None = None,
    keep_predictions: bool = False,
    short_classes: ShortClasses = "take",
) -> GridRequest:
    """A request, checked as far as can be without loading an encoder.

    Args:
        names: packs or data sets.
        encoder: a spec string, or any object that `gate_runner.run` takes.
        output: the run folder; ``runs/`` and the encoder's name by default.
        axes: of the grid.
        settings: how.
        probe: of `PROBES`.
        knowledge_folder: holds ``external/`` and ``gpt3/``.
        keep_predictions: see `GridRequest`.
        short_classes: see `GridRequest`.

    Raises:
        UsageError: an unknown name, spec, probe or folder; the message shows it.
        DataError: original files that are not there or not whole.

    Example:
        >>> request = make_grid_request("micro/icinw", "micro-clip", axes=Axes.of(shots="0,5", seeds=[0]), probe="clap")
        >>> request.identity()["probe"], request.axes.seeds
        ('clap', (0,))
    """
    several = (names,) if isinstance(names, str) else tuple(names)
    how = settings or Settings()
    if probe not in PROBES:
        raise unknown("--probe", probe, PROBES)
    if short_classes not in SHORT_CLASSES:
        raise unknown("--short-classes", short_classes, SHORT_CLASSES)
    if knowledge_folder is not None and not any((knowledge_folder / one).is_dir() for one in ("external", "gpt3")):
        raise DataError(f"--knowledge-folder {knowledge_folder} holds neither external/ nor gpt3/")
    if how.data_root is not None and not how.data_root.is_dir():
        raise DataError(f"data root {how.data_root} is not a folder")
    if isinstance(encoder, str):
        parse_spec(encoder)
    elif how.workers > 1:
        raise UsageError("an encoder that is an object runs in this process only: workers=1")
    else:
        from gate_runner.encoders.own import adopt

        encoder = adopt(encoder, getattr(encoder, "spec", None) or type(encoder).__name__)
    spec = encoder if isinstance(encoder, str) else encoder.spec
    folder = output or Path("runs") / f"icinw-{folder_name(spec, how.limit)}"
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"output {folder} is a file, expected a folder")
    request = GridRequest(
        several, encoder, folder, axes or Axes(), how, probe, knowledge_folder, keep_predictions, short_classes
    )
    for one in request.sets():
        root = one.benchmark.root_of(one.source, how.data_root)
        if root is not None:
            one.benchmark.check_files(root)
    return replace(request)


def as_json(request: GridRequest) -> dict[str, Any]:
    """Axes and settings for the manifest."""
    return {"axes": request.axes.to_mapping(), "settings": asdict(request.settings)}
