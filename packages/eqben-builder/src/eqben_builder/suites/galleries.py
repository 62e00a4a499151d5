"""Galleries of pictures and captions with several right answers to a query: COCO and Flickr30k by Karpathy's split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.suites.files import Files, Pixels, field_of, list_of, text_of, whole_number
from eqben_builder.untrusted import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eqben_builder.formats import Picture

#: So many captions of an image are kept: some of COCO's have six or more, and the positives of ECCV count on five.
CAPTIONS = 5
#: Pictures of one of COCO's folds.
FOLD = 1000


class Positives(NamedTuple):
    """Which answers are right, by place: of each picture its captions, of each caption its pictures.

    Queries without an entry are not asked.

    Example:
        >>> Positives({0: [0, 1]}, {0: [0], 1: [0]}).captions_of[0]
        [0, 1]
    """

    captions_of: Mapping[int, Sequence[int]]
    images_of: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Gallery:
    """Pictures and captions that are searched as a whole.

    Args:
        name: "coco" or "flickr30k".
        images: The pictures.
        captions: All captions.
        positives: Name of a set of judgements ("original", "eccv", "cxc") -> what is right.
        notes: What a reader of the scores should know.
        folds: Places of pictures that are also searched apart, such as COCO's five times 1,000.

    Example:
        >>> right = {"original": Positives({0: [0], 1: [1]}, {0: [0], 1: [1]})}
        >>> Gallery("pets", (), ("a cat", "a dog"), right).folds
        ()
    """

    name: str
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    positives: Mapping[str, Positives]
    notes: tuple[str, ...] = ()
    folds: tuple[tuple[int, ...], ...] = ()


def read_gallery(root: str | Path, name: str, *, pixels: Pixels = "official") -> Gallery:
    """Karpathy's test split with its pictures, and the extended positives of ECCV Caption where their files lie there.

    COCO: `dataset_coco.json` or BLIP's `coco_karpathy_test.json`, pictures under `val2014/`; ECCV's
    `{eccv,cxc}_{image_to_caption,caption_to_image}.json` beside it need `dataset_coco.json`, which holds the ids.
    COCO's 5,000 pictures come with five folds of 1,000, in the order of ECCV Caption's `coco_test_ids.npy` where that
    lies there, else in the annotations' order. Answers that are not among the 25,000 captions are left out, as the
    authors' scorer never finds them, and a note counts them.
    Flickr30k: `dataset_flickr30k.json`, BLIP's `flickr30k_test.json`, or `flickr30k_test_karpathy.txt`.

    Args:
        root: The data root.
        name: "coco" or "flickr30k".
        pixels: How pictures are decoded, as in `read_suite`.

    Raises:
        ValueError: Another name; file, row and field; a picture that is missing: a smaller gallery is an easier one.
        FileNotFoundError: None of the annotation files.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> root = Path(tempfile.mkdtemp())
        >>> for number in range(2):
        ...     Image.new("RGB", (2, 2)).save(root / f"{number}.jpg")
        >>> lines = ["image,caption", "0.jpg,a dog", "0.jpg,a pet", "1.jpg,a cat"]
        >>> _ = (root / "flickr30k_test_karpathy.txt").write_text(chr(10).join(lines))
        >>> read_gallery(root, "flickr30k").positives["original"].captions_of
        {0: [0, 1], 1: [2]}
    """
    if name not in ("coco", "flickr30k"):
        raise ValueError(f"gallery {name!r} is neither 'coco' nor 'flickr30k'")
    files = Files(Path(root), name, pixels)
    entries, ids = _entries(files, name, CAPTIONS)
    images: list[Picture] = []
    captions: list[str] = []
    owners: list[int] = []
    for path, texts in entries:
        base = PurePosixPath(path).name
        picture = files.picture(path, f"val2014/{base}", f"flickr30k-images/{base}", f"images/{base}", base)
        if isinstance(picture, str):
            files.missing[picture] += 1
            continue
        images.append(picture)
        captions += texts
        owners += [len(images) - 1] * len(texts)
    files.refuse_missing(len(entries), name)
    own: dict[int, list[int]] = {}
    for caption, image in enumerate(owners):
        own.setdefault(image, []).append(caption)
    positives = {"original": Positives(own, {caption: [image] for caption, image in enumerate(owners)})}
    positives |= _extended(files, ids)
    if len(positives) == 1:
        files.notes.append("no extended positives: a right answer that nobody wrote down counts as wrong")
    folds = _folds(files, owners, ids) if name == "coco" else ()
    return Gallery(name, tuple(images), tuple(captions), positives, tuple(files.notes), folds)


def _folds(files: Files, owners: Sequence[int], ids: tuple[list[int], list[int]] | None) -> tuple[tuple[int, ...], ...]:
    """Places of COCO's pictures, 1,000 a fold; none where there are fewer than two folds."""
    order = list(dict.fromkeys(owners))
    if files.has("coco_test_ids.npy") and ids is not None:
        path = files.find("coco_test_ids.npy")
        try:
            listed = [int(caption) for caption in np.load(path, allow_pickle=False).ravel().tolist()]
        except Exception as error:  # NumPy parses headers as Python source, with that parser's errors
            raise ValueError(f"{path} is no list of numbers: {error}") from error
        owner = dict(zip(ids[1], owners, strict=True))
        unknown = [caption for caption in listed if caption not in owner]
        if unknown:
            raise ValueError(f"{path}: the caption id {unknown[0]!r} is not in the test split")
        order = list(dict.fromkeys(owner[caption] for caption in listed))
    if len(order) < 2 * FOLD or len(order) % FOLD:
        return ()
    return tuple(tuple(order[start : start + FOLD]) for start in range(0, len(order), FOLD))


def karpathy_entries(root: Path, name: str) -> list[tuple[str, list[str]]]:
    """The pictures of Karpathy's test split with all their captions, by name: no picture has to be there."""
    if name not in ("coco", "flickr30k"):
        raise ValueError(f"gallery {name!r} is neither 'coco' nor 'flickr30k'")
    return _entries(Files(root, name), name, None)[0]


def _entries(
    files: Files, name: str, most: int | None
) -> tuple[list[tuple[str, list[str]]], tuple[list[int], list[int]] | None]:
    """(picture, its first `most` captions) of the test split, and COCO's ids of both where the file has them."""
    file_name = f"dataset_{name}.json"
    if files.has(file_name):
        return _karpathy(files.find(file_name), most)
    if name == "flickr30k" and not files.has("flickr30k_test.json"):
        path = files.find("flickr30k_test_karpathy.txt", "flickr30k_test.json")
        grouped: dict[str, list[str]] = {}
        for number, line in enumerate(path.read_text("utf-8").splitlines()[1:], 2):
            picture, cut, caption = line.partition(".jpg,")
            if not cut:
                raise ValueError(f"{path}, line {number}: expected NAME.jpg,CAPTION, found {line[:60]!r}")
            grouped.setdefault(f"{picture}.jpg", []).append(caption.strip().strip('"').strip())
        return [(picture, texts[:most]) for picture, texts in grouped.items()], None
    entries = []
    for where, _, row in files.json("coco_karpathy_test.json" if name == "coco" else "flickr30k_test.json", kind=list):
        texts = field_of(row, "caption", where)
        if not isinstance(texts, list) or not texts:
            raise ValueError(f"{where}: field 'caption' should be a list of texts, found {texts!r}")
        entries.append((text_of(row, "image", where), [str(text) for text in texts[:most]]))
    return entries, None


def _karpathy(path: Path, most: int | None) -> tuple[list[tuple[str, list[str]]], tuple[list[int], list[int]] | None]:
    content = load_json(path)
    entries, image_ids, caption_ids = [], [], []
    for number, row in enumerate(list_of(field_of(content, "images", str(path)), f"{path}, field 'images'")):
        where = f"{path}, image {number}"
        if field_of(row, "split", where) != "test":
            continue
        sentences = list_of(field_of(row, "sentences", where), f"{where}, field 'sentences'")[:most]
        folder = row.get("filepath")
        name = text_of(row, "filename", where)
        entries.append(
            (f"{folder}/{name}" if folder else name, [text_of(sentence, "raw", where) for sentence in sentences])
        )
        image_ids.append(whole_number(row.get("cocoid", row.get("imgid", number)), where))
        caption_ids += [whole_number(sentence.get("sentid", 0), where) for sentence in sentences]
    if not entries:
        raise ValueError(f"{path} holds no image of the split 'test'")
    return entries, (image_ids, caption_ids)


def _extended(files: Files, ids: tuple[list[int], list[int]] | None) -> dict[str, Positives]:
    positives = {}
    for name in ("eccv", "cxc"):
        files_of_matches = [f"{name}_image_to_caption.json", f"{name}_caption_to_image.json"]
        if not all(files.has(table) for table in files_of_matches):
            continue
        if ids is None:
            files.notes.append(f"{name}: needs dataset_coco.json, which holds the ids")
            continue
        at_image = {value: k for k, value in enumerate(ids[0])}
        at_caption = {value: k for k, value in enumerate(ids[1])}
        places = [(at_image, at_caption), (at_caption, at_image)]
        tables = [_judged(files, table, *at) for table, at in zip(files_of_matches, places, strict=True)]
        positives[name] = Positives(tables[0], tables[1])
    return positives


def _judged(files: Files, name: str, queries: dict[int, int], answers: dict[int, int]) -> dict[int, list[int]]:
    """A file's queries with their right answers; answers that the gallery does not hold are left out and counted.

    Two captions of ECCV Caption's own file are the sixth ones of their pictures: nothing can find them.
    """
    path = files.find(name)
    content: Any = load_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, found a {type(content).__name__}")
    table: dict[int, list[int]] = {}
    unknown: list[int] = []
    for key, right in content.items():
        if whole_number(key, path) not in queries:
            raise ValueError(f"{path}: the query {key!r} is not in the test split")
        if not isinstance(right, list):
            raise ValueError(f"{path}, query {key!r}: expected a list of ids, found {str(right)[:60]}")
        ids = [whole_number(answer, path) for answer in right]
        unknown += [answer for answer in ids if answer not in answers]
        matched = [answers[answer] for answer in ids if answer in answers]
        if matched:
            table[queries[int(key)]] = matched
    if not table:
        raise ValueError(f"{path}: no answer of any query is in the test split, such as {unknown[:1]}")
    if unknown:
        shown = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        files.notes.append(f"{name}: {len(unknown)} answers are not in the gallery and left out ({shown})")
    return table
