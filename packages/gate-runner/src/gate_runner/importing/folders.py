"""From files of other tools to run folders: which tool it is, one folder for each model, nothing lost unnamed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

from gate_runner.errors import DataError, UsageError
from gate_runner.importing import clip_benchmark, lm_eval, open_clip, torchgeo_bench
from gate_runner.importing.entry import Entry, Reading, Rows, named
from gate_runner.machine.resources import command
from gate_runner.runs.folder import RunFolder, portable
from gate_runner.runs.results import IMPORTED, SCHEMA, Result
from gate_runner.tasks.job import Score
from wary_files.limits import refuse_special, within
from wary_files.text import parsed_json

_CSV: tuple[tuple[Callable[[Sequence[str]], bool], Callable[[Rows, str], Reading]], ...] = (
    (clip_benchmark.is_csv, clip_benchmark.read_csv),
    (torchgeo_bench.is_csv, torchgeo_bench.read_csv),
    (open_clip.is_csv, open_clip.read_csv),
)
_JSON: tuple[tuple[Callable[[Any], bool], Callable[[Mapping[str, Any], str], Reading]], ...] = (
    (clip_benchmark.is_json, clip_benchmark.read_json),
    (lm_eval.is_json, lm_eval.read_json),
)
_EXPECTED = (
    "expected CLIP_benchmark's JSON or CSV, open_clip's published CSV, lm-eval's JSON (results by task) or "
    "torchgeo-bench's long CSV"
)
_MOST_CELL = 2**24


@dataclass(frozen=True)
class Imported:
    """What an import wrote and what it left out.

    Args:
        folders: run folders by the model's name.
        scores: how many scores they hold.
        results: how many results, of one benchmark and seed each.
        skipped: file, reason and places of what holds no score that is taken.
        tools: each file's tool.

    Example:
        >>> Imported({"ViT-B-32": Path("runs/imported/ViT-B-32")}, 1, 1, (), {"results.csv": "CLIP_benchmark"}).scores
        1
    """

    folders: Mapping[str, Path]
    scores: int
    results: int
    skipped: tuple[tuple[str, str, tuple[str, ...]], ...]
    tools: Mapping[str, str]


def import_scores(
    *files: str | PathLike[str], output: str | PathLike[str] = "runs/imported", rename: Mapping[str, str] | None = None
) -> Imported:
    """Read other tools' result files, and write one run folder for each model, without outcomes.

    Args:
        files: CLIP_benchmark's JSON or CSV, open_clip's published tables, lm-eval's JSON, torchgeo-bench's long CSV;
            a folder stands for the ``.json`` and ``.csv`` files in it.
        output: the folder of the run folders.
        rename: names of benchmarks in the files to ours, so that their scores are shown in one row with ours.

    Returns:
        The folders, and each place of a file that holds no score that is taken, with the reason.

    Raises:
        DataError: a file of no form that is known, or a cell that is not a number; shows file, line and value.
        UsageError: no file, a name to rename that no file has, or a folder that holds another run.

    Example:
        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> row = {"dataset": "cars", "model": "ViT-B-32", "pretrained": "openai", "task": "zeroshot_classification"}
        >>> size = (folder / "cars.json").write_text(json.dumps({**row, "metrics": {"acc1": 0.6}}))
        >>> import_scores(folder / "cars.json", output=folder / "runs").scores
        1
    """
    paths = [path for given in files for path in _listed(Path(given))]
    if not paths:
        raise UsageError("no file to import; expected at least one")
    readings = {path: read_file(path) for path in paths}
    renames = dict(rename or {})
    names = {entry.benchmark for reading in readings.values() for entry in reading.entries}
    for name, ours in renames.items():
        if not named(ours, f"--rename {name}"):
            raise UsageError(f"--rename {name!r}: the new name is empty")
        if name not in names:
            raise UsageError(f"--rename {name!r}: no score of a benchmark of that name; there are: {_some(names)}")
    groups: dict[str, dict[tuple[str, int], list[tuple[Path, Entry]]]] = {}
    for path, reading in readings.items():
        for entry in reading.entries:
            entry = replace(entry, benchmark=renames.get(entry.benchmark, entry.benchmark))
            listed = groups.setdefault(entry.model, {}).setdefault((entry.benchmark, entry.seed), [])
            twin = next(((file, other) for file, other in listed if other.metric == entry.metric), None)
            if twin is None:
                listed.append((path, entry))
            else:
                before = twin[1].place if twin[0] == path else f"{twin[0].name}, {twin[1].place}"
                if twin[1].value == entry.value:
                    reading.skip(f"{entry.place} (as {before})", "repeats a score")
                else:
                    place = f"{entry.place} ({entry.value:g}; {twin[1].value:g} in {before})"
                    reading.skip(place, "another score of the same model and data came first and is taken")
    if not groups:
        raise DataError(f"{', '.join(map(str, paths))}: no score; {_EXPECTED}")
    folders = _folders(groups, Path(output))
    results = {model: _results(model, groups[model], readings) for model in groups}
    scores = sum(len(result.scores) for listed in results.values() for result in listed)
    for model, folder in folders.items():
        RunFolder(folder).check(_identity(model))
    for model, folder in folders.items():
        results[model] = [
            _joined(RunFolder(folder), result, groups[model][result.benchmark, result.seed], readings)
            for result in results[model]
        ]
    for model, folder in folders.items():
        stored = RunFolder(folder)
        stored.claim(_identity(model), {"command": command(), "imported": sorted({str(path) for path in paths})})
        for result in results[model]:
            stored.save(result, None)
    skipped = tuple(
        (str(path), reason, tuple(dict.fromkeys(places)))
        for path, reading in readings.items()
        for reason, places in reading.skipped.items()
    )
    every = [result for listed in results.values() for result in listed]
    tools = {str(path): reading.tool for path, reading in readings.items()}
    return Imported(folders, scores, len(every), skipped, tools)


def read_file(path: Path) -> Reading:
    """Read the scores of one file, whichever tool wrote it.

    Raises:
        DataError: the file is of no form that is known, or a cell of it is wrong.
    """
    refuse_special(path)
    try:
        within(path.stat().st_size, "bytes", str(path))
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text ({error.reason} at byte {error.start}); {_EXPECTED}") from None
    except FileNotFoundError:
        raise UsageError(f"{path} is not there; expected a file of results") from None
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(text, path)
    return _read_csv(text, path)


def _read_json(text: str, path: Path) -> Reading:
    try:
        content = parsed_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not whole JSON: {error}; {_EXPECTED}") from None
    for is_its, read in _JSON:
        if is_its(content):
            return read(content, str(path))
    fields = f"the fields {_some(content)}" if isinstance(content, dict) else f"a list of {len(content)}"
    raise DataError(f"{path} has {fields}: no version of a tool that is known; {_EXPECTED}")


def _read_csv(text: str, path: Path) -> Reading:
    if csv.field_size_limit() < _MOST_CELL:
        csv.field_size_limit(_MOST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; expected a whole CSV") from None
    header = lines[0][1] if lines else []
    read = next((read for is_its, read in _CSV if is_its(header)), None)
    if read is None:
        raise DataError(f"{path} has the columns {_some(header)}: no version of a tool that is known; {_EXPECTED}")
    if twice := sorted({name for name in header if name and header.count(name) > 1}):
        raise DataError(f"{path}, line 1: column {twice[0]!r} is there twice; expected each once")
    for line, cells in lines[1:]:
        if len(cells) != len(header):
            raise DataError(f"{path}, line {line}: {len(cells)} cells; expected {len(header)}, as in the header")
        if torn := [cell for cell in cells if "\n" in cell]:
            raise DataError(f"{path}, line {line}: a quote opens in a row and holds the next, {torn[0][:60]!r}")
    return read([(line, dict(zip(header, cells, strict=True))) for line, cells in lines[1:]], str(path))


def _listed(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(file for file in path.iterdir() if file.suffix in (".json", ".csv") and file.is_file())
    if not inside:
        raise UsageError(f"{path} holds no .json or .csv file; expected result files")
    return inside


def _some(names: Any) -> str:
    listed = sorted(map(str, names)) if isinstance(names, set) else [str(name) for name in names]
    return ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "") or "none"


def _folders(models: Mapping[str, Any], output: Path) -> dict[str, Path]:
    """Return a folder for each model, whose names differ also where a file system does not know small from large."""
    taken: set[str] = set()
    folders = {}
    for model in sorted(models):
        name = portable(model).encode()[:150].decode(errors="ignore").rstrip(". ") or "model"
        name = next(
            candidate
            for copy in count(1)
            if (candidate := name if copy == 1 else f"{name}-{copy}").casefold() not in taken
        )
        taken.add(name.casefold())
        folders[model] = output / name
    return folders


def _identity(model: str) -> dict[str, Any]:
    return {"encoder": {"spec": model}, "schema": SCHEMA, IMPORTED: True}


def _joined(
    folder: RunFolder, result: Result, listed: Sequence[tuple[Path, Entry]], readings: Mapping[Path, Reading]
) -> Result:
    """Return a result with what an earlier import has of other metrics; scores of the same metric are replaced."""
    path = folder.result_file(result.name, result.seed)
    if not path.exists():
        return result
    before = Result.from_file(path)
    files = {entry.metric: file for file, entry in listed}
    now = {score.metric: score for score in result.scores}
    for score in before.scores:
        if score.metric in now and score.value != now[score.metric].value:
            place = f"{result.name}, {score.metric}: {now[score.metric].value:g} for {score.value:g}"
            readings[files[score.metric]].skip(place, "replaces a score of an earlier import")
    earlier = [now.pop(score.metric, score) for score in before.scores]
    tools = [before.note, *([result.note] if result.note not in before.note else [])]
    return replace(result, scores=(*earlier, *now.values()), note="; ".join(tools), data={**before.data, **result.data})


def _results(
    model: str, groups: Mapping[tuple[str, int], Sequence[tuple[Path, Entry]]], readings: Mapping[Path, Reading]
) -> list[Result]:
    """Return a model's results, whose headline is the first metric of the file."""
    results = []
    for (benchmark, seed), listed in groups.items():
        first = listed[0][1]
        tools = ", ".join(dict.fromkeys(readings[path].tool for path, _ in listed))
        scores = tuple(Score(e.metric, e.direction, e.value, e.low, e.high, math.nan) for _, e in listed)
        results.append(
            Result(
                benchmark=benchmark,
                name=benchmark,
                task=first.task,
                source=IMPORTED,
                seed=seed,
                status="ok",
                note=f"imported from {tools}",
                encoder={"spec": model},
                scores=scores,
                data={} if first.samples is None else {"test": first.samples},
            )
        )
    return results
