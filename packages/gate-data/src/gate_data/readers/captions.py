"""Images with their captions, in the forms in which they are handed out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from gate_data.readers.tables import Row, by_id, lines, records

_LOG = logging.getLogger(__name__)


class Captioned(NamedTuple):
    """An image's file name, its captions, and the split that the file names ('' where it names none)."""

    file: str
    captions: tuple[str, ...]
    split: str = ""


def karpathy(path: Path) -> Iterator[Captioned]:
    """Karpathy's JSON: ``{"images": [{"filename", "split", "sentences": [{"raw"}]}]}``."""
    for row in records(path, "images"):
        sentences = row.values.get("sentences")
        if not isinstance(sentences, list) or not sentences:
            raise row.error("sentences", "a list of captions")
        texts = [sentence.get("raw") if isinstance(sentence, dict) else None for sentence in sentences]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise row.error("sentences", "captions with a text in 'raw'")
        split = "train" if row.text("split") == "restval" else row.text("split")
        yield Captioned(row.text("filename"), tuple(str(text).strip() for text in texts), split)


def coco_captions(path: Path) -> Iterator[tuple[str, Row]]:
    """COCO's JSON of captions: ``{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}``."""
    files = {identity: row.path("file_name") for identity, row in by_id(records(path, "images")).items()}
    captioned: set[int] = set()
    for row in records(path, "annotations"):
        row.text("caption")
        captioned.add(row.known("image_id", files, "an image"))
        yield files[row.integer("image_id")], row
    if bare := [file for identity, file in files.items() if identity not in captioned]:
        _LOG.warning("%s: %d of %d images have no caption and are left out: %s", path, len(bare), len(files), bare[0])


def numbered(path: Path) -> Iterator[Captioned]:
    r"""Lines of ``picture.jpg#0<TAB>caption``, or Kaggle's ``picture.jpg| 0| caption`` under a header.

    One line of Kaggle's file lacks its second separator; the number is then found at the caption's beginning.
    """
    by_picture: dict[str, list[str]] = {}
    for number, line in lines(path):
        if number == 1 and line.replace(" ", "").startswith("image_name|"):
            continue
        picture, caption = _numbered(line)
        if not picture or not caption:
            raise DataError(f"{path}, line {number}: expected an image, a number and a caption, found {line[:80]!r}")
        by_picture.setdefault(picture, []).append(caption)
    if not by_picture:
        raise DataError(f"{path} holds no captions")
    for picture, captions in by_picture.items():
        yield Captioned(picture, tuple(captions))


def _numbered(line: str) -> tuple[str, str]:
    if "\t" in line:
        picture, _, caption = line.partition("\t")
        name, _, index = picture.rpartition("#")
        return (name, caption.strip()) if index.strip().isdecimal() else ("", "")
    picture, _, text = line.partition("|")
    index, bar, caption = text.partition("|")
    if not bar:
        index, _, caption = text.strip().partition(" ")
    return (picture.strip(), caption.strip()) if index.strip().isdecimal() else ("", "")
