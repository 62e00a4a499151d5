"""Images with captions in tar shards, as img2dataset and open_clip have them: KEY.jpg with KEY.txt or KEY.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate_data.captioned import NEGATIVES, CaptionedSplit, Texts, texts_in
from gate_data.errors import DataError
from gate_data.pictures import Pictures
from gate_data.readers import Member
from gate_data.readers.folders import PICTURES
from wary_files.archives import members, read
from wary_files.text import number_of, parsed_json


def caption_shards(path: Path) -> list[Path]:
    """Return tar files: the one that is named, or those in a folder, sorted by name."""
    if path.suffix == ".tar" and path.is_file():
        return [path]
    return sorted(path.glob("*.tar")) if path.is_dir() else []


def read_caption_shards(shards: Sequence[Path]) -> tuple[CaptionedSplit, tuple[str, ...]]:
    """Read members KEY.jpg with KEY.txt, or with a text "caption" in KEY.json, as img2dataset and open_clip have them.

    A list of texts under one of `NEGATIVES` in KEY.json holds false captions. No image is decoded.

    Args:
        shards: tar files.

    Returns:
        The samples, and notes: how many there are, and which members make no sample.

    Raises:
        DataError: no image, a sample without a caption or with two images, two members of one key and ending, a text
            that is not UTF-8 or not JSON; shows shard and sample.
    """
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
        raise DataError(f"{shards[0]}: no images among its members ({', '.join(PICTURES)})")
    any_false = negatives if any(negatives) else ()
    notes = [f"{number_of(len(shards), 'shard')}, {number_of(len(sources), 'image')}"]
    if unused:
        make = number_of(len(unused), "file of the shards makes", "images and texts of the shards make")
        notes.append(f"{make} no sample, such as {unused[0]}: a sample is KEY.jpg with KEY.txt or KEY.json")
    return CaptionedSplit(Pictures.of(sources, 224), captions, any_false), tuple(notes)


def _samples_of(shard: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    """A shard's samples by key: endings to members; and the images and texts that belong to none.

    The key ends at the first dot, as webdataset has it. Where no image has such a key, names hold dots, and it ends
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
    """The ending of a sample's image; empty without one."""
    return next((ending[1:] for ending in PICTURES if ending[1:] in parts), "")


def _said_in(shard: Path, key: str, parts: dict[str, str]) -> tuple[str, Texts]:
    """A sample's caption and its false ones."""
    about: Any = {}
    if "json" in parts:
        try:
            about = parsed_json(read(shard, parts["json"]))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{shard}, sample {key!r}: {parts['json']} is no JSON: {error}") from error
        about = about if isinstance(about, dict) else {}
    try:
        caption = read(shard, parts["txt"]).decode("utf-8-sig") if "txt" in parts else about.get("caption")
    except UnicodeDecodeError as error:
        raise DataError(f"{shard}, sample {key!r}: {parts['txt']} is not UTF-8: {error.reason}") from error
    if not isinstance(caption, str) or not caption.strip():
        wrong = "is empty" if isinstance(caption, str) else "is missing: neither .txt nor a text 'caption' in .json"
        raise DataError(f"{shard}, sample {key!r}: its caption {wrong}")
    named = next((column for column in NEGATIVES if column in about), "")
    return caption.strip(), texts_in(about.get(named), f"{shard}, sample {key!r}, {named!r}")
