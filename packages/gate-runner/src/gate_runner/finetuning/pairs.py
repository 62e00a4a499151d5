"""Pictures with captions to train on: of own data, of a benchmark, of webdataset shards, of `eqben build`'s folders."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.pictures import Pictures
from gate_data.readers import Member, held_out, table
from gate_data.readers.folders import PICTURES
from gate_runner.errors import DataError, UsageError
from wary_files.archives import members, read

if TYPE_CHECKING:
    from torch import Tensor

    from gate_data.own import OwnBenchmark
    from gate_data.request import Size
    from vision_adapters.training.pairs import Texts

NEGATIVES = ("negative", "negatives", "hard_negative", "hard_negatives", "false_caption", "foil")
"""Columns of a table that hold false captions of its row's picture; several stand in a list, or with | between."""
_SHARE = 0.1
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class CaptionedSplit:
    """Samples of one picture, or of the two of a known pair, with their captions.

    Of ``captions``, each sample has forms of as many texts as it has pictures, one drawn whenever it is seen;
    ``negatives`` are captions that are false of its (first) picture.
    """

    pictures: Pictures | Tensor
    captions: Sequence[Sequence[Texts]]
    negatives: Sequence[Texts] = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def pictures_each(self) -> int:
        """Pictures of a sample, ``u``."""
        return len(self.captions[0][0])

    def take(self, rows: Sequence[int]) -> CaptionedSplit:
        """Some of the samples; nothing is read."""
        import torch

        index = torch.tensor(list(rows), dtype=torch.long)
        pictures = self.pictures[index] if isinstance(self.pictures, torch.Tensor) else self.pictures.take(list(rows))
        negatives = [self.negatives[row] for row in rows] if self.negatives else ()
        return CaptionedSplit(pictures, [self.captions[row] for row in rows], negatives)

    def at_size(self, side: Size) -> CaptionedSplit:
        """The same with pictures of files read at another size."""
        import torch

        if isinstance(self.pictures, torch.Tensor):
            return self
        return replace(self, pictures=replace(self.pictures, side=side))


@dataclass(frozen=True, eq=False)
class Captioned:
    """What there is to train on and to choose by, and what a reader should hear of it."""

    train: CaptionedSplit
    validation: CaptionedSplit
    notes: tuple[str, ...] = field(default=())

    def digest(self) -> str:
        """SHA-256 over all captions and what every picture's file holds: wherever the data are, and in order."""
        digest = hashlib.sha256()
        for split in (self.train, self.validation):
            digest.update(f"{len(split)} {split.pictures_each if len(split) else 0} ".encode())
            for texts in (split.captions, split.negatives):
                digest.update(json.dumps(texts).encode("utf-8", "surrogatepass"))
            if isinstance(split.pictures, Pictures):
                for content in split.pictures.contents:
                    digest.update(content)
                digest.update(f"{split.pictures.fit} {split.pictures.transparency}".encode())
            else:
                digest.update(split.pictures.contiguous().numpy().tobytes())
        return digest.hexdigest()


def read_captioned(
    name: str,
    *,
    table_of: Path | None = None,
    data_root: Path | None = None,
    limit: int | None = None,
    skip_unreadable: bool = False,
    seed: int = 0,
) -> Captioned:
    """Read, check and divide pictures with captions; no picture is decoded but those in memory.

    ``name`` is a folder or table of one's own, a benchmark or its file, webdataset shards, or pairs of `eqben build`.
    """
    path = Path(name)
    shards = _shards(path)
    if data_root is not None and path.exists():
        raise UsageError(f"--data-root goes with a benchmark's name; the pictures of {name} lie where it says")
    if shards and not _holds_pairs(shards[0]):
        captioned = _drawn(*_of_shards(shards), seed)
    elif (pairs := _pairs(path)) is not None:
        captioned = _drawn(pairs, (), seed)
    else:
        captioned = _of_benchmark(name, table_of, data_root, limit, skip_unreadable, seed)
    if limit is not None:
        train, validation = (
            split.take(range(min(limit, len(split)))) for split in (captioned.train, captioned.validation)
        )
        captioned = replace(captioned, train=train, validation=validation)
    return _checked(captioned, name)


def _shards(path: Path) -> list[Path]:
    """Tar files: the one that is named, or those in a folder."""
    if path.suffix == ".tar" and path.is_file():
        return [path]
    return sorted(path.glob("*.tar")) if path.is_dir() else []


def _holds_pairs(shard: Path) -> bool:
    return any(".image_0." in name for name in members(shard))


def _of_shards(shards: Sequence[Path]) -> tuple[CaptionedSplit, tuple[str, ...]]:
    """Members KEY.jpg with KEY.txt, or with a text "caption" in KEY.json, as img2dataset and open_clip have them."""
    from gate_data.pictures import Pictures

    sources: list[Member] = []
    captions: list[list[Texts]] = []
    negatives: list[Texts] = []
    unused: list[str] = []
    for shard in shards:
        samples, bare = _samples_of(shard)
        unused += bare
        for key, parts in samples.items():
            caption, false = _said_in(shard, key, parts)
            sources.append(Member(str(shard), parts[_picture_of(parts)]))
            captions.append([(caption,)])
            negatives.append(false)
    if not sources:
        raise DataError(f"{shards[0]}: no pictures among its members ({', '.join(PICTURES)})")
    any_false = negatives if any(negatives) else ()
    notes = [f"{len(shards)} shards, {len(sources)} pictures"]
    if unused:
        notes.append(
            f"{len(unused):,} images and texts of the shards make no sample, such as {unused[0]}: a sample is KEY.jpg "
            "with KEY.txt or KEY.json"
        )
    return CaptionedSplit(Pictures.of(sources, 224), captions, any_false), tuple(notes)


def _samples_of(shard: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    """A shard's samples by key: endings to members; and the pictures and texts that belong to none.

    The key ends at the first dot, as webdataset has it. Where no picture has such a key, names hold dots, and it ends
    at the last one.
    """
    by_key: dict[str, dict[str, str]] = {}
    for name in members(shard):
        folder, slash, last = name.rpartition("/")
        if last.startswith("."):
            continue
        stem, _, ending = last.partition(".")
        _add(by_key.setdefault(folder + slash + stem, {}), ending.lower(), name, shard)
    samples: dict[str, dict[str, str]] = {}
    unused: list[str] = []
    for key, parts in by_key.items():
        groups = {key: parts}
        if not _picture_of(parts):
            groups = {}
            for name in parts.values():
                longer, _, ending = name.rpartition(".")
                _add(groups.setdefault(longer, {}), ending.lower(), name, shard)
        for longer, own in groups.items():
            picture = _picture_of(own)
            if several := [name for ending, name in own.items() if f".{ending}" in PICTURES and ending != picture]:
                raise DataError(f"{shard}, sample {longer!r} has two images, {own[picture]} and {several[0]}: keep one")
            if picture:
                samples[longer] = own
            own_endings = {picture, "txt", "json"} if picture else set()
            unused += [
                name for ending, name in own.items()
                if ending not in own_endings and f".{ending.rpartition('.')[2]}" in (*PICTURES, ".txt")
            ]  # fmt: skip
    return samples, unused


def _add(parts: dict[str, str], ending: str, name: str, shard: Path) -> None:
    if ending in parts:
        raise DataError(f"{shard}: {parts[ending]} and {name} are one member of one sample: rename one of them")
    parts[ending] = name


def _picture_of(parts: dict[str, str]) -> str:
    """The ending of a sample's picture; empty without one."""
    return next((ending[1:] for ending in PICTURES if ending[1:] in parts), "")


def _said_in(shard: Path, key: str, parts: dict[str, str]) -> tuple[str, Texts]:
    """A sample's caption and its false ones."""
    about: Any = {}
    if "json" in parts:
        try:
            about = json.loads(read(shard, parts["json"]))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{shard}, sample {key!r}: {parts['json']} is no JSON: {error}") from error
        about = about if isinstance(about, dict) else {}
    try:
        caption = read(shard, parts["txt"]).decode() if "txt" in parts else about.get("caption")
    except UnicodeDecodeError as error:
        raise DataError(f"{shard}, sample {key!r}: {parts['txt']} is not UTF-8: {error.reason}") from error
    if not isinstance(caption, str) or not caption.strip():
        wrong = "is empty" if isinstance(caption, str) else "is missing: neither .txt nor a text 'caption' in .json"
        raise DataError(f"{shard}, sample {key!r}: its caption {wrong}")
    named = next((column for column in NEGATIVES if column in about), "")
    return caption.strip(), _texts(about.get(named), f"{shard}, sample {key!r}, {named!r}")


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
        raise DataError(f"{path} holds {len(two)} pairs of pictures and {len(rows) - len(two)} of captions alone")
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
    from gate_runner.heads.embedding import own_of

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
            "COCO's captions, shards of pictures and texts, or pairs of eqben build"
        )
    data = load()
    notes = (*notes, *filter(None, [data.note]))
    if task == "pair-scoring":
        return replace(_drawn(_of_split(data.test, pairs=True), (), seed), notes=notes)
    false = {} if own is None else _false_captions(own, folder)
    train, validation = _of_split(data.train, false=false), _of_split(data.validation)
    unseen = f"{len(data.test)} test pictures stay unseen: score them by gate-runner run or trade"
    return Captioned(train, validation, (*notes, unseen))


def _of_split(split: Any, *, pairs: bool = False, false: dict[str, Texts] | None = None) -> CaptionedSplit:
    """A split of image-text, or of pairs of two pictures and two captions."""
    texts, count = split.texts or (), len(split)
    captions_each = len(texts) // count if count else 0
    own = [tuple(texts[row * captions_each : (row + 1) * captions_each]) for row in range(count)]
    if pairs:
        return CaptionedSplit(split.images, [[captions] for captions in own])
    negatives = [false.get(str(files[0]), ()) for files in split.images.files] if false else ()
    return CaptionedSplit(split.images, [[(caption,) for caption in captions] for captions in own], negatives)


def _false_captions(own: OwnBenchmark, folder: Path) -> dict[str, Texts]:
    """False captions by picture, of the tables that one's own data are."""
    if own.data.kind != "table":
        return {}
    tables = {"": own.data.table} if own.data.table else {"train": own.splits.train}
    by_picture: dict[str, Texts] = {}
    for split, path in tables.items():
        root = folder / own.data.roots.get(split, own.data.root)
        for row in table(folder / path, ()):
            column = next((name for name in row.values if str(name).casefold() in NEGATIVES), None)
            if column is None:
                return {}
            picture = str(root / row.text(own.data.image))
            by_picture[picture] = (
                *by_picture.get(picture, ()),
                *_texts(row.values[column], f"{row.where}, {column!r}"),
            )
    return by_picture


def _texts(value: Any, where: str) -> Texts:
    """Texts in a field: one, several with | between, or a list."""
    if value is None or value == "":
        return ()
    texts = value.split("|") if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: expected false captions, none of them empty, found {value!r:.80}")
    return tuple(text.strip() for text in texts)


def _drawn(split: CaptionedSplit, notes: tuple[str, ...], seed: int) -> Captioned:
    """A tenth of what has no splits is held out to choose by."""
    if len(split) < 2:
        raise DataError(f"{len(split)} samples are too few: one to train on and one to choose by are needed")
    stay, held = held_out([0] * len(split), _SHARE, seed=seed)
    if not held:
        stay, held = stay[:-1], stay[-1:]
    return Captioned(split.take(stay), split.take(held), (*notes, f"{len(held)} samples are held out to choose by"))


def _checked(captioned: Captioned, name: str) -> Captioned:
    """Captions that say nothing, or nothing of one picture alone, and false ones that are true."""
    for split, split_name in ((captioned.train, "train"), (captioned.validation, "validation")):
        if len(split) == 0:
            raise DataError(f"{name}: the {split_name} split is empty")
    trained, held = captioned.train.pictures_each, captioned.validation.pictures_each
    if trained != held:
        raise DataError(f"{name}: samples of {trained} pictures to train on, of {held} held")
    notes = list(captioned.notes)
    counts = Counter(caption for _, caption in _distinct(captioned.train))
    pictures = len(captioned.train) * captioned.train.pictures_each
    (most, times) = counts.most_common(1)[0]
    if len(counts) == 1 and pictures > 1:
        raise DataError(
            f"{name}: all {pictures} pictures have the one caption {most!r}: there is nothing to tell apart"
        )
    shared = sum(count > 1 for count in counts.values())
    if shared:
        also = f", and {shared - 1} more captions with several" if shared > 1 else ""
        notes.append(f"caption {most!r:.80} stands with {times} pictures{also}: in one batch they count as wrong")
    train, true_ones = _without_true(captioned.train)
    if true_ones:
        first = "; ".join(f"{caption!r:.60}" for caption in true_ones[:_SHOWN])
        notes.append(f"{len(true_ones)} false captions equal a caption of their picture, and are left out: {first}")
    return replace(captioned, train=train, notes=tuple(notes))


def _distinct(split: CaptionedSplit) -> Iterator[tuple[int, str]]:
    """Each picture's captions, each once."""
    for row, forms in enumerate(split.captions):
        for index in range(len(forms[0])):
            for caption in {form[index] for form in forms}:
                yield row * len(forms[0]) + index, caption


def _without_true(split: CaptionedSplit) -> tuple[CaptionedSplit, list[str]]:
    if not split.negatives:
        return split, []
    true_ones: list[str] = []
    negatives: list[Texts] = []
    for forms, false in zip(split.captions, split.negatives, strict=True):
        true = {_plain(form[0]) for form in forms}
        true_ones += [caption for caption in false if _plain(caption) in true]
        negatives.append(tuple(caption for caption in false if _plain(caption) not in true))
    return replace(split, negatives=negatives if any(negatives) else ()), true_ones


def _plain(caption: str) -> str:
    return " ".join(caption.casefold().split()).rstrip(".")
