"""Item tables as others publish them: benchmark-prediction's joblib files, and UniBench's folders of feather files."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError, MissingExtraError
from eevee.items.outcomes import Outcomes
from wary_files import pickles
from wary_files.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOG = logging.getLogger(__name__)
JOBLIB = (".jbl", ".joblib")
"""Endings of files that `joblib.dump` wrote."""
_NAMES = "_models"
"""Ends the stem of the file with a table's model names."""
_FEATHER = ".f"
_COLUMNS = ("image_name", "correctness")
_ARROW = 1 << 31
"""Bytes of a feather file's two columns in memory."""


def read_joblib(paths: Sequence[Path]) -> dict[str, Outcomes]:
    """Return outcomes by benchmark from arrays (models, items) in joblib files, one file for each benchmark.

    A file ``NAME_models.jbl`` next to ``NAME.jbl`` names the models; a name that comes again is numbered. Without it
    models are called by the benchmark and their number: nothing says that the rows of two tables are the same models.

    Args:
        paths: files; those of model names are read with their table, and may be among them.

    Raises:
        EeveeError: a file that is no array of numbers from 0 to 1, another number of names than of rows, or two files
            of one benchmark; the message names the file. No code of a file runs.

    Source: `data/scores` of benchmark-prediction (https://github.com/socialfoundations/benchmark-prediction).
    """
    tables = [path for path in paths if not path.stem.endswith(_NAMES)]
    for path in paths:
        if path.stem.endswith(_NAMES) and path.with_stem(path.stem.removesuffix(_NAMES)) not in tables:
            _LOG.warning("%s: left out: names of models without their table", path)
    if not tables:
        raise EeveeError(f"{paths[0]}: names of models alone; expected a table, such as NAME.jbl")
    outcomes: dict[str, Outcomes] = {}
    for path in tables:
        if path.stem in outcomes:
            raise EeveeError(f"{path}: a second table of {path.stem!r}; expected one file for each benchmark")
        values = _pickled(path)
        if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "biuf":
            shown = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
            raise EeveeError(f"{path}: holds {shown}; expected an array of numbers (models, items)")
        items = tuple(map(str, range(values.shape[1])))
        outcomes[path.stem] = _measured(path.stem, _names(path, len(values)), items, values.astype(np.float64), path)
    return outcomes


def _pickled(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return pickles.load(file, str(path))
    except OSError as error:
        raise EeveeError(f"{path}: cannot be read ({error.strerror})") from None
    except DataError as error:
        raise EeveeError(
            f"{error}; where you trust it, save its array yourself: "
            f"numpy.savez(FILE, models=NAMES, {path.stem}=joblib.load(...))"
        ) from None


def _names(table: Path, rows: int) -> tuple[str, ...]:
    """Names of the models, each once."""
    path = table.with_stem(table.stem + _NAMES)
    if not path.is_file():
        _LOG.warning("%s: no %s next to it: its %d models are numbered", table, path.name, rows)
        return tuple(f"{table.stem} model {number}" for number in range(rows))
    names = _pickled(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise EeveeError(f"{path}: expected a list of model names")
    if len(names) != rows:
        raise EeveeError(f"{path}: {len(names)} names; expected {rows}, as {table.name} has rows")
    again = [name for name, count in Counter(names).items() if count > 1]
    if again:
        _LOG.warning("%s: %d names come again, such as %s: their rows are numbered", path, len(again), again[0])
    return tuple(_numbered(names))


def _numbered(names: Sequence[str]) -> list[str]:
    """Names with a number after each that came before."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def is_unibench(path: Path) -> bool:
    """Whether a folder holds what UniBench writes: `MODEL/BENCHMARK.f`, or such files themselves."""
    return path.is_dir() and (any(path.glob(f"*{_FEATHER}")) or any(path.glob(f"*/*{_FEATHER}")))


def read_unibench(folders: Sequence[Path]) -> dict[str, Outcomes]:
    """Return outcomes by benchmark from UniBench's output folder, or from folders of its models.

    Items are images by `image_name`, an image that comes again by its number as well; where files have no such column,
    items are rows. A benchmark has the models that have a file of it. `aggregate.f` holds means, and is not read.

    Args:
        folders: one output folder (`MODEL/BENCHMARK.f`), or one folder for each model.

    Raises:
        EeveeError: a file without `correctness`, files of one benchmark with other numbers of rows and no image names,
            or no benchmark that can be used; the message names the file. A benchmark of fewer than 5 models or 20 items
            is left out with a warning.

    Source: `unibench/output.py` and `benchmarks_zoo/wrappers` of https://github.com/facebookresearch/unibench.
    """
    models = [
        model
        for folder in folders
        for model in (sorted({file.parent for file in folder.glob(f"*/*{_FEATHER}")}) or [folder])
    ]
    named = Counter(model.name for model in models)
    if named and max(named.values()) > 1:
        raise EeveeError(f"{models[-1]}: {named.most_common(1)[0][0]!r} is the name of several folders of models")
    files: dict[str, dict[str, Path]] = {}
    for model in models:
        for file in sorted(model.glob(f"*{_FEATHER}")):
            files.setdefault(file.stem, {})[model.name] = file
    outcomes: dict[str, Outcomes] = {}
    refused = ""
    for benchmark, by_model in sorted(files.items()):
        try:
            outcomes[benchmark] = _of_files(benchmark, by_model)
        except EeveeError as error:
            refused = str(error)
            _LOG.warning("%s: left out: %s", benchmark, refused)
    if not outcomes:
        raise EeveeError(refused or f"{folders[0]}: no file {_FEATHER} of a benchmark in a model's folder")
    return outcomes


def _of_files(benchmark: str, by_model: dict[str, Path]) -> Outcomes:
    """One benchmark's outcomes, of each model in the order of the items."""
    rows = {model: _feather(path) for model, path in by_model.items()}
    named = {model: keys for model, (keys, _) in rows.items() if keys is not None}
    if 0 < len(named) < len(rows):
        lacking = next(path for model, path in by_model.items() if model not in named)
        raise EeveeError(f"{lacking}: no column image_name, which other models' files of {benchmark} have")
    if not named:
        counts = Counter(len(values) for _, values in rows.values())
        usual = counts.most_common(1)[0][0]
        for model, (_, values) in rows.items():
            if len(values) != usual:
                raise EeveeError(f"{by_model[model]}: {len(values)} rows without image_name; other models have {usual}")
        items = tuple(map(str, range(usual)))
        table = np.stack([values for _, values in rows.values()])
    else:
        items = tuple(dict.fromkeys(key for keys in named.values() for key in keys))
        places = {item: place for place, item in enumerate(items)}
        table = np.full((len(rows), len(items)), np.nan)
        for row, (model, keys) in enumerate(named.items()):
            table[row, [places[key] for key in keys]] = rows[model][1]
            if len(keys) < len(items):
                _LOG.warning("%s: %d of the %d items", by_model[model], len(keys), len(items))
    return _measured(benchmark, tuple(rows), items, table, next(iter(by_model.values())).parent.parent)


def _feather(path: Path) -> tuple[list[str] | None, np.ndarray]:
    """Ids of a file's rows, if it has image names, and their outcomes."""
    try:
        import pyarrow
        from pyarrow import feather
    except ImportError:
        raise MissingExtraError("pyarrow", "unibench") from None
    try:
        with pyarrow.memory_map(str(path)) as opened:
            columns = [name for name in _COLUMNS if name in pyarrow.ipc.open_file(opened).schema.names]
        held = feather.read_table(path, columns=columns, memory_map=True)
        if held.nbytes > _ARROW:
            raise EeveeError(f"{path}: {held.nbytes:,} bytes once it is unpacked, more than {_ARROW:,}")
        if "correctness" not in columns:
            raise EeveeError(f"{path}: no column 'correctness'; expected a file as UniBench writes it")
        values = np.asarray(held["correctness"].to_numpy(), np.float64)
        names = [str(name) for name in held["image_name"].to_pylist()] if "image_name" in columns else None
    except EeveeError:
        raise
    except Exception as error:  # pyarrow raises errors of every kind over broken files
        raise EeveeError(f"{path}: not a feather file ({' '.join(str(error).split())[:200]})") from error
    return (None if names is None else _numbered(names)), values


def _measured(
    benchmark: str, models: tuple[str, ...], items: tuple[str, ...], values: np.ndarray, where: Path
) -> Outcomes:
    """Outcomes without the models and items that have none at all, each of which is named."""
    for kind, axis in (("model", 1), ("item", 0)):
        empty = np.isnan(values).all(axis=axis)
        names = models if kind == "model" else items
        for name in (name for name, is_empty in zip(names, empty, strict=True) if is_empty):
            _LOG.warning("%s, %s %r: left out: no outcome", where, kind, name)
        measured = tuple(name for name, is_empty in zip(names, empty, strict=True) if not is_empty)
        models, items = (measured, items) if kind == "model" else (models, measured)
        values = values[~empty] if kind == "model" else values[:, ~empty]
    try:
        return Outcomes(benchmark, models, items, values)
    except EeveeError as error:
        raise EeveeError(f"{where}: {error}") from None
