"""Images with captions to train on: of own data, of a benchmark, of webdataset shards, of `eqben build`'s folders."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.caption_shards import caption_shards, read_caption_shards
from gate_data.captioned import Captioned, CaptionedSplit, captioned_split, checked, divided, false_captions
from gate_data.readers import table
from gate_runner.errors import DataError, UsageError
from wary_files.archives import members

if TYPE_CHECKING:
    from gate_data.own import OwnBenchmark


def read_captioned(
    name: str,
    *,
    table_of: Path | None = None,
    data_root: Path | None = None,
    limit: int | None = None,
    skip_unreadable: bool = False,
    seed: int = 0,
) -> Captioned:
    """Read, check and divide images with captions; no image is decoded but those in memory.

    ``name`` is a folder or table of one's own, a benchmark or its file, webdataset shards, or pairs of `eqben build`.
    """
    path = Path(name)
    shards = caption_shards(path)
    if data_root is not None and path.exists():
        raise UsageError(f"--data-root goes with a benchmark's name; the images of {name} lie where it says")
    if shards and not _holds_pairs(shards[0]):
        captioned = divided(*read_caption_shards(shards), seed)
    elif (pairs := _pairs(path)) is not None:
        captioned = divided(pairs, (), seed)
    else:
        captioned = _of_benchmark(name, table_of, data_root, limit, skip_unreadable, seed)
    if limit is not None:
        train, validation = (
            split.take(range(min(limit, len(split)))) for split in (captioned.train, captioned.validation)
        )
        captioned = replace(captioned, train=train, validation=validation)
    return checked(captioned, name)


def _holds_pairs(shard: Path) -> bool:
    return any(".image_0." in name for name in members(shard))


def _pairs(path: Path) -> CaptionedSplit | None:
    """Pairs in a form of `eqben_builder.formats`, or None where it is none of them."""
    from eqben_builder.formats.convert import detect, read_any
    from gate_runner.suites.questions import QuestionPictures

    if not path.exists() or path.suffix == ".toml":
        return None
    try:
        source = detect(path)
    except (ValueError, OSError):
        return None
    if source.form == "parquet" and not _has_pair_columns(source.paths[0]):
        return None
    try:
        rows = list(read_any(path))
    except (ValueError, OSError) as error:
        raise DataError(str(error)) from error
    two = [row for row in rows if row.image1 is not None]
    if two and len(two) < len(rows):
        raise DataError(f"{path} holds {len(two)} pairs of images and {len(rows) - len(two)} of captions alone")
    pictures = QuestionPictures(tuple(tuple(row.pictures()) for row in rows), 224)
    if two:
        return CaptionedSplit(pictures, [[row.captions] for row in rows])
    return CaptionedSplit(pictures, [[(row.caption0,)] for row in rows], [(row.caption1,) for row in rows])


def _has_pair_columns(path: Path) -> bool:
    row = next(iter(table(path, ())), None)
    return row is not None and "caption_0" in row.values


def _of_benchmark(
    name: str, table_of: Path | None, root: Path | None, limit: int | None, skip: bool, seed: int
) -> Captioned:
    """A known benchmark's splits, or those of one's own data as `gate-runner run` has them."""
    from gate_data.own import originals_from
    from gate_data.request import DataRequest
    from gate_runner.benchmarks import resolve
    from vision_features.heads.embedding import own_of

    path, task = Path(name), ""
    own: OwnBenchmark | None = None
    notes: tuple[str, ...] = ()
    request = DataRequest(root, limit, skip_unreadable=skip)
    if path.suffix == ".toml" or path.exists():
        own, folder, notes = own_of(path, table_of)
        task = own.samples
        load: Callable[[], Any] = lambda: originals_from(own, folder / path.name).load(folder, request)  # noqa: E731
    else:
        (benchmark, *further) = resolve([name])
        if further:
            raise UsageError(f"{name} is {len(further) + 1} benchmarks; name one whose task is image-text")
        task = benchmark.task
        load = lambda: benchmark.load(benchmark.choose_source(None, root), request)  # noqa: E731
    if task not in ("image-text", "pair-scoring"):
        raise DataError(
            f"{name} was taken for {task}: there are no captions; expected a table with columns image and caption, "
            "COCO's captions, shards of images and texts, or pairs of eqben build"
        )
    data = load()
    notes = (*notes, *filter(None, [data.note]))
    if task == "pair-scoring":
        return replace(divided(captioned_split(data.test, pairs=True), (), seed), notes=notes)
    false = {} if own is None else false_captions(own, folder)
    train, validation = captioned_split(data.train, false=false), captioned_split(data.validation)
    unseen = f"{len(data.test)} test images stay unseen: score them by gate-runner run or trade"
    if own is not None and path.suffix != ".toml" and not (path / "benchmark.toml").is_file():
        table = f" --table {shlex.quote(path.name)}" if path.is_file() else ""
        file = shlex.quote(str((path.parent if path.is_file() else path) / "benchmark.toml"))
        unseen += f" on {file}, which gate-runner new {shlex.quote(str(folder))}{table} writes"
    return Captioned(train, validation, (*notes, unseen))
