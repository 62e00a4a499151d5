"""What a benchmark is: one frozen record, readable without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.cards import ICINW, SHEETS
from gate_data.imports import named
from gate_data.request import DataRequest
from gate_runner.errors import DataError

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_data.original_files import Originals


@dataclass(frozen=True)
class Benchmark:
    """A data set, a task type, and how the score is taken.

    Args:
        id: the name on the command line.
        title: what a reader should see.
        task: the id of a `gate_runner.tasks.TaskType`.
        metrics: names of ``paired_scores.metrics``; the first one selects and is the headline.
        sources: where the data can come from, in order of preference: ``"local"`` (original files; its
            ``module:name`` is an `Originals`), ``"hub"`` (only where asked for; the id of a sheet with a `Hub`),
            ``"built-in"`` (shipped with a dependency), ``"micro"`` (made on the spot); the ``module:name`` of these is
            a function from `DataRequest` to `Data`; or ``"file"``, alone: the path of a TOML file of one's own, see
            ``gate_data.own``.
        training: arguments of ``vision_adapters.training.Recipe``, or of the few-shot episodes.
        original_training: what differs in them for the original files, which are many more than a stand-in's.
        cost: seconds on two cores with micro-clip of all that is built in or made, as against those of others; None
            where nobody measured them.
        licence: of the original data; what is made on the spot needs none.
        citation: of the original data.

    Example:
        >>> coins = Benchmark("coins", "Coins", "image-classification", ("acc@1",), {"local": "coins_files:coins"})
        >>> coins.name_with("local")
        'coins'
    """

    id: str
    title: str
    task: str
    metrics: tuple[str, ...]
    sources: Mapping[str, str]
    training: Mapping[str, Any] = field(default_factory=dict)
    original_training: Mapping[str, Any] = field(default_factory=dict)
    cost: float | None = None
    licence: str = "made on the spot: none needed"
    citation: str = ""

    def choose_source(self, wished: str | None, root: Path | None) -> str:
        """Which source a run uses."""
        if wished is not None:
            if wished not in self.sources:
                raise DataError(f"benchmark {self.id!r} has no source {wished!r}; it has: {', '.join(self.sources)}")
            if wished == "local" and root is None:
                raise DataError(f"benchmark {self.id!r} from local files needs --data-root")
            if wished == "hub":
                from gate_data.hub import check

                check(self.sources["hub"], root)
            return wished
        if "local" in self.sources and root is not None:
            if self.finds_files(root):
                return "local"
            alternatives = ", ".join(f"--source {source}" for source in self.sources if source not in ("local", "hub"))
            instead = f"; without them: {alternatives}" if alternatives else ""
            raise DataError(
                f"benchmark {self.id!r}: {root} does not hold its files ({self.originals.expected}){instead}"
            )
        for source in self.sources:
            if source not in ("local", "hub"):
                return source
        expected = self.originals.expected
        raise DataError(f"benchmark {self.id!r} reads original files: give --data-root ({expected})")

    @property
    def originals(self) -> Originals[Any]:
        """How its original files are read."""
        if "file" in self.sources:
            from gate_data.own.originals import originals_of

            return originals_of(Path(self.sources["file"]))
        declared = named(self.sources["local"])
        if not hasattr(declared, "find"):
            raise DataError(f"benchmark {self.id!r}: {self.sources['local']} is no Originals")
        originals: Originals[Any] = declared
        return originals

    def finds_files(self, root: Path) -> bool:
        """Whether the data root holds this benchmark's folder or files."""
        try:
            self.originals.find(root)
        except DataError:
            return False
        return True

    def check_files(self, root: Path, *, skip_missing: bool = False) -> None:
        """Look at all of the original files that can be seen without reading an image."""
        if "file" in self.sources and skip_missing:
            from gate_data.own.originals import originals_of

            originals_of(Path(self.sources["file"]), skip_missing=True).check(root)
            return
        originals = self.originals
        originals.check(originals.find(root))
        point = self.training.get("coop") or {"protocol": "few-shot"}
        if point["protocol"] in ("cross", "domain"):
            from gate_data.coop.originals import ORIGINALS
            from gate_data.coop.protocols import SOURCE

            trained = ORIGINALS[SOURCE]
            trained.check(trained.find(root))

    def root_of(self, source: str, data_root: Path | None) -> Path | None:
        """The folder in which a source's files are looked for, or None where it reads none."""
        return Path(self.sources["file"]).parent if source == "file" else data_root if source == "local" else None

    def trained_for(self, source: str) -> Benchmark:
        """The same with the training numbers of a source."""
        real = source in ("local", "hub")
        return replace(self, training={**self.training, **self.original_training}) if real else self

    def name_with(self, source: str) -> str:
        """The name in reports: a stand-in never carries the real data set's name alone."""
        return f"micro/{self.id}" if source == "micro" else self.id

    def load(self, source: str, request: DataRequest) -> Data[Any]:
        """Read or make the data."""
        if (point := self.training.get("coop")) is not None:
            from gate_data.coop import load_few_shot

            if request.root is None:
                raise DataError(f"benchmark {self.id!r} from local files needs --data-root")
            how: dict[str, Any] = {"shots": point["shots"], "protocol": point["protocol"], "seed": request.seed}
            return load_few_shot(self.id.partition("@")[0], request.root, **how, request=request)
        return self.load_undivided(source, request) if "variant" in self.training else self._load(source, request)

    def load_undivided(self, source: str, request: DataRequest) -> Data[Any]:
        """All training images in the order from which shots are drawn, and images that are scored once."""
        from gate_data.undivided import load_undivided, without_validation

        name = self.id.partition("@")[0]
        if name in ICINW and source in ("local", "hub"):
            return load_undivided(name, self.originals if source == "local" else None, request)
        return without_validation(self._load(source, request))

    def _load(self, source: str, request: DataRequest) -> Data[Any]:
        if source == "file":
            own = self.originals
            return own.load(Path(self.sources["file"]).parent, request)
        if source == "hub":
            from gate_data.hub import load

            return load(self.sources["hub"], request)
        where = named(self.sources[source])
        if source == "local":
            if request.root is None:
                raise DataError(f"benchmark {self.id!r} from local files needs --data-root")
            originals: Originals[Any] = where
            with_card = replace(request, sheet=SHEETS.get(self.id.removesuffix("-gate")))
            return originals.load(originals.find(request.root), with_card)
        make: Callable[[DataRequest], Data[Any]] = where
        return make(request)
