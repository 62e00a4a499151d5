"""WebDataset shards in the layout of CLIP_benchmark: tar archives of images with class numbers or captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gate_data.errors import DataError
from gate_data.own.annotated import SPLITS, root_of
from gate_data.own.class_names import BY_LINE
from gate_data.own.columns import Guess, splits_in
from gate_data.own.entry import Entry
from gate_data.own.spec import CAPTIONED, OwnBenchmark
from gate_data.readers.folders import PICTURES, SPLIT_WORDS
from gate_data.readers.source import Member, read_text
from wary_files import archives
from wary_files.text import number_of

NAMES, TEMPLATES = BY_LINE, "zeroshot_classification_templates.txt"
TYPE, COUNT = "dataset_type.txt", "nshards.txt"
_IMAGES = tuple(dict.fromkeys(("webp", "png", "jpg", "jpeg", *(ending[1:] for ending in PICTURES))))
"""Endings of images; of several of one key the first counts."""
_MOST = 1_000_000
"""The greatest number of a class."""


def webdataset_layout(folder: Path) -> Guess | None:
    """Return what a folder of shards holds; None for any other folder.

    Raises:
        DataError: shards of several labels an image, whose names are not in the layout.
    """
    inner = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and (entry / "0.tar").is_file())
    splits = splits_in(inner, exact=True)
    if not splits:
        return None
    for entry in sorted(folder.iterdir()):
        if entry.name.casefold() in SPLIT_WORDS and entry.name not in inner and any(entry.glob("*.tar")):
            raise DataError(
                f"{entry} holds {next(entry.glob('*.tar')).name} and no 0.tar: call its shards 0.tar, 1.tar, …"
            )
    kind = read_text(folder / TYPE).strip().lower() if (folder / TYPE).is_file() else "classification"
    data: dict[str, Any] = {"kind": "webdataset"}
    shards = ", ".join(f"{len(shards_of(folder / part))} in {part}" for part in splits.values())
    if kind == "retrieval":
        return Guess.of("image-text", data, splits, [f"shards of images with captions: {shards}"])
    if kind != "classification":
        raise DataError(f"{folder / TYPE}: {kind!r} is not read; expected classification or retrieval")
    remarks = [f"shards of images with classes: {shards}"]
    classes: dict[str, Any] = {}
    if (folder / NAMES).is_file():
        count = len(read_text(folder / NAMES).rstrip("\n").split("\n"))
        classes = {"names": [str(number) for number in range(count)], "words": NAMES}
    if (folder / TEMPLATES).is_file():
        classes["templates"] = [_template(folder / TEMPLATES, line) for line in _lines(folder / TEMPLATES)]
    if "train" not in splits:
        return Guess.of("zero-shot", data, splits, remarks, classes)
    remarks.append('a head is fitted on train; task = "zero-shot" scores the texts of its classes instead')
    return Guess.of("image-classification", data, splits, remarks, classes)


def samples_of_shards(own: OwnBenchmark, folder: Path, left_out: list[str]) -> Iterator[Entry]:
    """Yield each image of all shards with its class by number, or once for each of its captions.

    ``left_out`` is given the place of each sample that has a label or an image's ending, and no image by its key.

    Raises:
        DataError: a shard that is missing, a sample with two images or two members of one ending, an image without a
            class or captions, a class that is no number; the message names archive and member.
    """
    for split, inside in own.splits.named.items() or [(split, split) for split in SPLITS]:
        place = root_of(own, folder, split) / inside
        for shard in shards_of(place) if place.is_dir() else ():
            for key, files in _samples(shard).items():
                ending = next((ending for ending in _IMAGES if ending in files), "")
                if ending:
                    yield from _shown(own, shard, key, files, ending, split)
                elif any(name.rpartition(".")[2] in (*_IMAGES, "cls", "txt") for name in files):
                    left_out.append(f"{shard}: {key} ({', '.join(sorted(files)[:3])})")


def lacking(left_out: list[str], taken: int) -> str:
    """Return what to say of samples of shards without an image; empty where there are none.

    Raises:
        DataError: no other sample is there.
    """
    if not left_out:
        return ""
    why = f"have no image by their key, which ends at a name's first dot, such as {left_out[0]}"
    if not taken:
        raise DataError(f"all {number_of(len(left_out), 'sample')} of shards {why}")
    return f"{number_of(len(left_out), 'sample')} of shards left out, for they {why}"


def shards_of(place: Path) -> list[Path]:
    """Return a split's archives in the order of their numbers.

    Raises:
        DataError: none, a number that is passed over, or fewer than the list of shards says.
    """
    shards = sorted((path for path in place.glob("*.tar") if path.stem.isdecimal()), key=lambda path: int(path.stem))
    if not shards:
        raise DataError(f"{place} holds no shards; expected 0.tar, 1.tar, …")
    numbers = [int(path.stem) for path in shards]
    if (gap := next((at for at, number in enumerate(numbers) if number != at), None)) is not None:
        raise DataError(f"{place} holds {len(shards)} shards up to {numbers[-1]}.tar, and not {gap}.tar: fetch it")
    if (place / COUNT).is_file():
        text = read_text(place / COUNT).strip()
        expected = int(text) if text.isdecimal() and len(text) < 8 else -1
        if len(shards) != expected:
            raise DataError(f"{place} holds {len(shards)} shards, and {COUNT} says {text[:20]!r}: fetch the others")
    return shards


def _samples(shard: Path) -> Mapping[str, dict[str, str]]:
    """Members by key and ending: what is before the first dot of a name belongs together."""
    samples: dict[str, dict[str, str]] = {}
    for name in archives.members(shard):
        path = PurePosixPath(name)
        stem, dot, ending = path.name.partition(".")
        if dot and not stem.startswith("._"):
            files = samples.setdefault(str(path.parent / stem), {})
            first = files.setdefault(ending.lower(), name)
            if first != name:
                raise DataError(f"{shard}: {first} and {name} are one member of one sample: rename one of them")
    return samples


def _shown(
    own: OwnBenchmark, shard: Path, key: str, files: Mapping[str, str], ending: str, split: str
) -> Iterator[Entry]:
    source = Member(str(shard), files[ending])
    where = f"{shard}: {key}"
    if several := [files[other] for other in _IMAGES if other in files and other != ending]:
        raise DataError(f"{where} has two images, {files[ending]} and {several[0]}: keep one")
    wanted = "txt" if own.samples in CAPTIONED else "cls"
    if wanted not in files:
        raise DataError(f"{where} has no .{wanted} next to its .{ending}; it has {', '.join(sorted(files))}")
    try:
        text = archives.read(shard, files[wanted]).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}.{wanted} is not UTF-8 text: {error}") from error
    if wanted == "txt":
        captions = tuple(line.strip() for line in text.split("\n") if line.strip())
        if not captions:
            raise DataError(f"{where}.txt holds no caption")
        yield from (Entry(source, 0.0, split, where, (caption,)) for caption in captions)
        return
    number = text.strip()
    if not (number.isascii() and number.isdecimal()) or len(number) > 7 or int(number) > _MOST:
        raise DataError(f"{where}.cls holds {number[:40]!r}, expected the number of a class, from 0")
    if own.classes.names and int(number) >= len(own.classes.names):
        raise DataError(f"{where}.cls holds {number}, and {len(own.classes.names)} classes have names")
    yield Entry(source, str(int(number)), split, where)


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).split("\n") if line.strip()]


def _template(path: Path, line: str) -> str:
    """A template with this package's place for the class."""
    if "{c}" not in line:
        raise DataError(f"{path}: template {line[:80]!r} has no {{c}}, in whose place the class comes")
    return line.replace("{c}", "{}")
