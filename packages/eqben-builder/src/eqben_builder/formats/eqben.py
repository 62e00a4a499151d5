"""The published files of EqBen (nested, by video, flat), and beside them Winoground's and VALSE's."""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from eqben_builder.formats.row import PairRow, Picture, picture_at, text
from eqben_builder.untrusted import json_lines, object_of, opened_zip
from wary_files.durable import write_whole
from wary_files.json_files import read_json
from wary_files.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: First folder of EqBen's image paths -> subset and aspect.
PLACES = {
    "eqbenag": ("ag", ""),
    "eqbenyoucook2": ("youcook2", ""),
    "eqbengebc": ("gebc", ""),
    "eqbenkubric_loc": ("kubric", "location"),
    "eqbenkubric_attr": ("kubric", "attribute"),
    "eqbenkubric_cnt": ("kubric", "counting"),
    "eqbensd": ("sd", ""),
}
#: Subsets whose pairs are frames of videos.
_OF_VIDEOS = ("ag", "youcook2", "gebc")
_KNOWN = {"id", "subset", "aspect", "kind", "mask", "extra"}
_TEXTS = ("image0", "image1", "caption0", "caption1")


def read_eqben(path: Path, root: Path, content: Any = None) -> Iterator[PairRow]:
    """Read any of EqBen's four JSON forms, told apart by their structure: nested, by video, flat, and all in four rows.

    Where a row does not say its subset, it follows from the image's first folder (`eqbenag`, …) or from the form:
    nested is "ag", by video is "youcook2" with arrays and else "gebc". The video, which pairs are resampled by, is that
    of the form, or the image's second folder. A `.png` that is not there may be a `.jpg`, as in the light release.
    """
    content = read_json(path) if content is None else content
    if isinstance(content, dict):
        yield from _by_video(path, root, content)
    elif isinstance(content, list) and _is_of_fours(content):
        yield from _fours(path, root, content)
    elif isinstance(content, list):
        yield from (_pair(f"{path}, row {k}", root, row, str(k), "") for k, row in enumerate(content))
    else:
        raise ValueError(f"{path}: expected a list or an object, found {type(content).__name__}")


def _by_video(path: Path, root: Path, content: dict[str, Any]) -> Iterator[PairRow]:
    for video, under in content.items():
        nested = isinstance(under, dict)
        for subject, rows in under.items() if nested else [("", under)]:
            where = f"{path}, video {video!r}" + (f", subject {subject!r}" if nested else "")
            if not isinstance(rows, list):
                raise ValueError(f"{where}: expected a list of pairs, found {type(rows).__name__}")
            for k, row in enumerate(rows):
                name = "/".join(part for part in (video, subject, str(k)) if part)
                yield _pair(f"{where}, row {k}", root, row, name, "ag" if nested else "video", video)


def _eqben_picture(root: Path, name: object, where: str, field: str) -> Picture:
    """The image that a row names; of EqBen's light release, whose images are JPEG, the file that ends so."""
    try:
        return picture_at(root, name, where, field)
    except FileNotFoundError:
        if not isinstance(name, str) or not name.lower().endswith(".png"):
            raise
        try:
            return picture_at(root, name[:-4] + ".jpg", where, field)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{where}: field {field!r} names no image in {root}: {name!r}, nor one that ends in .jpg"
            ) from None


def _video_of(place: str, subset: str) -> str:
    """The video that an image's path names, EQBENAG/VIDEO/FRAME; empty where it names none."""
    parts = place.split("/")
    return parts[1] if subset in _OF_VIDEOS and len(parts) > 2 else ""


def _pair(where: str, root: Path, row: Any, name: str, form: str, video: str = "") -> PairRow:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
    values = {field: row.get(field, row.get(f"{field[:-1]}_{field[-1]}")) for field in _TEXTS}
    captions = []
    for field in _TEXTS[2:]:
        caption = values[field]
        # AG lists several captions of one graph: the first is the one that is scored.
        captions.append(text(caption[0] if isinstance(caption, list) and caption else caption, where, field))
    images = [_eqben_picture(root, values[field], where, field) for field in _TEXTS[:2]]
    subset, aspect = PLACES.get(str(values["image0"]).split("/")[0], ("", ""))
    if form == "video":
        arrays = str(values["image0"]).endswith(".npy")
        form = "youcook2" if arrays else "gebc"
    fields = {*_TEXTS, *(f"{field[:-1]}_{field[-1]}" for field in _TEXTS)} | _KNOWN
    extra = {key: value for key, value in row.items() if key not in fields}
    extra |= object_of(row.get("extra", {}), where)
    video = video or _video_of(str(values["image0"]), subset)
    source = extra.get("source", {})
    if video and "subset" not in row and isinstance(source, dict):  # not of a file that we have written
        extra["source"] = {"video": video} | source  # pairs of one video are not independent
    mask = None if row.get("mask") is None else picture_at(root, row["mask"], where, "mask")
    return PairRow(
        str(row.get("id", name)),
        str(row.get("subset") or form or subset or "pairs"),
        str(row.get("aspect") or row.get("kind") or aspect),
        images[0],
        images[1],
        captions[0],
        captions[1],
        extra,
        mask,
    )


def _is_of_fours(rows: list[Any]) -> bool:
    return bool(rows) and isinstance(rows[0], dict) and {"image", "caption"} <= rows[0].keys()


def _fours(path: Path, root: Path, content: list[Any]) -> Iterator[PairRow]:
    """Pairs of the form of all subsets, four rows each: two captions with two images in any of the two orders."""
    if len(content) % 4:
        raise ValueError(f"{path}: {len(content)} rows of an image and a caption: expected four of each pair")
    for start in range(0, len(content), 4):
        where, rows = f"{path}, rows {start} to {start + 3}", content[start : start + 4]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{where}: expected objects")
        images = [text(row.get("image"), where, "image") for row in rows]
        captions = [text(row.get("caption"), where, "caption") for row in rows]
        combinations = set(zip(images, captions, strict=True))
        if (images[0], captions[0]) == (images[3], captions[3]) or combinations != {
            (image, caption) for image in (images[0], images[3]) for caption in (captions[0], captions[3])
        }:
            raise ValueError(
                f"{where} are not the four combinations of two images and two captions; the published file in random "
                "order holds no pairs"
            )
        row = {name: rows[0][name] for name in _KNOWN if name in rows[0]}
        row |= {"image0": images[0], "image1": images[3], "caption0": captions[0], "caption1": captions[3]}
        yield _pair(where, root, row, str(start // 4), "")


#: Form -> what a writer makes of it: nested by video and object, by video, a flat list, or four rows a pair.
FORMS = ("flat", "ag", "video", "all")


def write_eqben(rows: Iterable[PairRow], folder: Path, form: str = "flat") -> Path:
    """Write one of EqBen's JSON forms, with the images beside it in `images/`, masks in `masks/`.

    "flat" is that of Kubric and SD; "ag" {video: {object: [pair]}} with lists of captions, that of Action Genome;
    "video" {video: [pair]}, that of GEBC and YouCook2, whose images it stores as arrays of blue, green and red; "all"
    [{image, caption}], four rows a pair, that of the file of all subsets. Each pair (of "all" its first row) also holds
    `id`, `subset`, `aspect`, `mask` and `extra`, which EqBen's loader does not look at.
    """
    flat: list[dict[str, Any]] = []
    by_video: dict[str, Any] = {}
    for k, row in enumerate(rows):
        if row.image1 is None:
            raise ValueError(f"pair {row.id!r} has one image: EqBen's files hold pairs of two")
        arrays = form == "video" and row.subset == "youcook2"
        pair: dict[str, Any] = {
            "image0": _store(row.image0, folder, f"images/{k:06d}_0", arrays=arrays),
            "image1": _store(row.image1, folder, f"images/{k:06d}_1", arrays=arrays),
            "caption0": row.caption0,
            "caption1": row.caption1,
            "id": row.id,
            "subset": row.subset,
            "aspect": row.aspect,
        }
        if row.mask is not None:
            pair["mask"] = _store(row.mask, folder, f"masks/{k:06d}")
        pair |= {"extra": dict(row.extra)} if row.extra else {}
        video = str(row.source.get("video", row.id))
        if form == "all":
            fours = [{"image": pair[f"image{i}"], "caption": pair[f"caption{c}"]} for c in (0, 1) for i in (0, 1)]
            fours[0] |= {name: value for name, value in pair.items() if name not in _TEXTS}
            flat += fours
        elif form == "video":
            by_video.setdefault(video, []).append(pair)
        elif form == "ag":
            thing = str(row.source.get("object", row.aspect or row.subset))
            lists = {name: [pair[name]] for name in ("caption0", "caption1")}
            by_video.setdefault(video, {}).setdefault(thing, []).append(pair | lists)
        else:
            flat.append(pair)
    target = folder / "pairs.json"
    text = json_text(by_video or flat, indent=1, default=str) + "\n"
    write_whole(target, text.encode("utf-8"), alone=True)
    return target


def _store(picture: Picture, folder: Path, name: str, *, arrays: bool = False) -> str:
    if arrays:
        file = io.BytesIO()
        np.save(file, picture.load()[:, :, ::-1])  # blue first, as the published arrays
        content, ending = file.getvalue(), ".npy"
    else:
        content, ending = picture.encoded()
    path = folder / f"{name}{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"{name}{ending}"


_ENDINGS = (".png", ".jpg", ".jpeg")
#: Of VALSE's three annotators, so many must have found the caption right and the foil wrong.
VALSE_VOTES = 2


def read_winoground(path: Path, root: Path) -> Iterator[PairRow]:
    """Read Winoground's `examples.jsonl`."""
    find = _finder(root)
    for count, (where, row) in enumerate(json_lines(path)):
        pictures = [find(text(row.get(name), where, name), where, name) for name in ("image_0", "image_1")]
        captions = [text(row.get(name), where, name) for name in ("caption_0", "caption_1")]
        fields = {"id", "image_0", "image_1", "caption_0", "caption_1"}
        extra = {key: value for key, value in row.items() if key not in fields}
        aspect = str(row.get("collapsed_tag") or "")
        name = str(row.get("id", count))
        yield PairRow(name, "winoground", aspect, pictures[0], pictures[1], captions[0], captions[1], extra)


def _finder(root: Path) -> Any:
    archive = root / "images.zip"
    members: dict[str, str] = {}
    if archive.is_file():
        with opened_zip(archive) as opened:
            members = {PurePosixPath(name).name: name for name in opened.namelist() if not name.endswith("/")}

    def find(name: str, where: str, field: str) -> Picture:
        candidates = [name, *(name + ending for ending in _ENDINGS)]
        for folder in (root / "images", root):
            for candidate in candidates:
                if (folder / candidate).is_file():
                    return picture_at(folder, candidate, where, field)
        for candidate in candidates:
            if candidate in members:
                return Picture(archive, members[candidate])
        raise FileNotFoundError(
            f"{where}: field {field!r} names no image in {root}, its images or images.zip: {name!r}"
        )

    return find


def read_valse(path: Path, root: Path, content: Any, votes: int = VALSE_VOTES) -> Iterator[PairRow]:
    """VALSE's images, captions and foils; rows that fewer than `votes` annotators confirmed are left out."""
    for name, row in content.items():
        where = f"{path}, row {name!r}"
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
        votes_of_row = row.get("mturk") or {}
        if (
            isinstance(votes_of_row, dict)
            and isinstance(votes_of_row.get("caption"), int)
            and votes_of_row["caption"] < votes
        ):
            continue
        caption = row.get("caption")
        caption = text(caption[0] if isinstance(caption, list) and caption else caption, where, "caption")
        foil = row.get("foil")
        foil = text(foil[0] if isinstance(foil, list) and foil else foil, where, "foil")
        picture = picture_at(root, row.get("image_file"), where, "image_file")
        extra = {key: value for key, value in row.items() if key not in ("caption", "foil", "image_file")}
        aspect = str(row.get("linguistic_phenomena") or path.stem)
        yield PairRow(str(name), "valse", aspect, picture, None, caption, foil, extra)
