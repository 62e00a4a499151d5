"""Retrieval over a gallery of pictures and captions: COCO's and Flickr30k's test split by Karpathy, and its recalls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of
from eqben_builder.scoring.similarity import unit_rows
from eqben_builder.suites.features import encoded
from eqben_builder.suites.files import Files, field_of, list_of, text_of
from eqben_builder.suites.published import published_scores
from eqben_builder.untrusted import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float
    from numpy.typing import NDArray

    from eqben_builder.formats import Picture
    from eqben_builder.progress import Progress
    from eqben_builder.scoring import DualEncoder

#: So many captions of an image are kept, as everybody who publishes recalls does: some of COCO's have six or more.
CAPTIONS = 5
RANKS = (1, 5, 10)
_CHUNK = 512


@dataclass(frozen=True)
class Gallery:
    """Pictures and captions that are searched as a whole.

    Args:
        name: "coco" or "flickr30k".
        images: The pictures.
        captions: All captions.
        owners: Of each caption, the place of its own picture: the one right answer; a picture's captions are its.
    """

    name: str
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    owners: tuple[int, ...]


def read_gallery(root: str | Path, name: str) -> Gallery:
    """Karpathy's test split with its pictures, decoded as `Image.open(...).convert("RGB")` does.

    COCO: `dataset_coco.json` or BLIP's `coco_karpathy_test.json`, pictures under `val2014/`.
    Flickr30k: `dataset_flickr30k.json`, BLIP's `flickr30k_test.json`, or `flickr30k_test_karpathy.txt`.

    Args:
        root: The data root.
        name: "coco" or "flickr30k".

    Raises:
        ValueError: Another name; file, row and field.
        FileNotFoundError: None of the annotation files; a picture that is missing: a smaller gallery is an easier one.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> root = Path(tempfile.mkdtemp())
        >>> for number in range(2):
        ...     Image.new("RGB", (2, 2)).save(root / f"{number}.jpg")
        >>> lines = ["image,caption", "0.jpg,a dog", "0.jpg,a pet", "1.jpg,a cat"]
        >>> _ = (root / "flickr30k_test_karpathy.txt").write_text(chr(10).join(lines))
        >>> read_gallery(root, "flickr30k").owners
        (0, 0, 1)
    """
    if name not in ("coco", "flickr30k"):
        raise ValueError(f"gallery {name!r} is neither 'coco' nor 'flickr30k'")
    files = Files(Path(root), name)
    entries = _entries(files, name)
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
        captions += texts[:CAPTIONS]
        owners += [len(images) - 1] * len(texts[:CAPTIONS])
    if files.missing:
        raise FileNotFoundError(
            f"{len(files.missing)} of {len(entries)} pictures of {name} are missing, such as "
            f"{next(iter(files.missing))}: a smaller gallery is an easier one"
        )
    return Gallery(name, tuple(images), tuple(captions), tuple(owners))


def _entries(files: Files, name: str) -> list[tuple[str, list[str]]]:
    """(picture, its captions) of the test split."""
    if files.has(f"dataset_{name}.json"):
        return _karpathy(files.find(f"dataset_{name}.json"))
    if name == "flickr30k" and not files.has("flickr30k_test.json"):
        path = files.find("flickr30k_test_karpathy.txt", "flickr30k_test.json")
        grouped: dict[str, list[str]] = {}
        for number, line in enumerate(path.read_text("utf-8").splitlines()[1:], 2):
            picture, cut, caption = line.partition(".jpg,")
            if not cut:
                raise ValueError(f"{path}, line {number}: expected NAME.jpg,CAPTION, found {line[:60]!r}")
            grouped.setdefault(f"{picture}.jpg", []).append(caption.strip().strip('"').strip())
        return list(grouped.items())
    entries = []
    for where, _, row in files.json("coco_karpathy_test.json" if name == "coco" else "flickr30k_test.json", kind=list):
        texts = field_of(row, "caption", where)
        if not isinstance(texts, list) or not texts:
            raise ValueError(f"{where}: field 'caption' should be a list of texts, found {texts!r}")
        entries.append((text_of(row, "image", where), [str(text) for text in texts]))
    return entries


def _karpathy(path: Path) -> list[tuple[str, list[str]]]:
    entries = []
    content = load_json(path)
    for number, row in enumerate(list_of(field_of(content, "images", str(path)), f"{path}, field 'images'")):
        where = f"{path}, image {number}"
        if field_of(row, "split", where) != "test":
            continue
        sentences = list_of(field_of(row, "sentences", where), f"{where}, field 'sentences'")
        folder, name = row.get("filepath"), text_of(row, "filename", where)
        texts = [text_of(sentence, "raw", where) for sentence in sentences]
        entries.append((f"{folder}/{name}" if folder else name, texts))
    if not entries:
        raise ValueError(f"{path} holds no image of the split 'test'")
    return entries


def encode_gallery(
    gallery: Gallery, encoder: DualEncoder, *, batch: int = 64, progress: Progress | None = None
) -> tuple[Float[np.ndarray, "i d"], Float[np.ndarray, "c d"]]:
    """Features of a gallery's pictures and captions, in their order.

    Args:
        gallery: What `read_gallery` gave.
        encoder: The model; pictures come as uint8 [height, width, 3] of any size.
        batch: At once, at least 1.
        progress: Called with "pictures", then "captions".

    Raises:
        ValueError: `batch` below 1; a picture that cannot be decoded.

    Example:
        >>> from eqben_builder.formats import Picture, encode_png
        >>> class Two:
        ...     def encode_image(self, images):
        ...         return [[1.0, image.mean()] for image in images]
        ...     def encode_text(self, captions):
        ...         return [[1.0, len(caption)] for caption in captions]
        >>> black = Picture(content=encode_png(np.zeros((2, 2, 3), np.uint8)))
        >>> gallery = Gallery("own", (black,), ("a", "bc"), (0, 0))
        >>> [features.shape for features in encode_gallery(gallery, Two())]
        [(1, 2), (2, 2)]
    """
    images, texts = (part for part, _, _ in encoded(gallery.images, gallery.captions, encoder, batch, progress))
    return images, texts


class GalleryLine(NamedTuple):
    """One line of the table.

    direction: "image to text" or "text to image".
    measure: "R@1", "R@5" or "R@10".
    score: In [0, 1], with its interval over queries and its chance.
    queries: How many were asked.
    published: Model -> its score in [0, 1], as published.
    """

    direction: str
    measure: str
    score: Share
    queries: int
    published: Mapping[str, float]


def gallery_table(
    gallery: Gallery,
    images: Float[np.ndarray, "i d"],
    texts: Float[np.ndarray, "c d"],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[GalleryLine, ...]:
    """Recall at 1, 5 and 10 in both directions; a tie counts against the right answer.

    recall@k = mean over queries of [some right answer is among the first k].

    Args:
        gallery: What `read_gallery` gave.
        images: Features of its pictures, in order; cosines are taken.
        texts: Features of its captions, in order.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Returns:
        Three lines a direction.

    Raises:
        ValueError: Other numbers of features than of pictures or captions, fewer than ten of either, features that are
            not finite.

    Numerics:
        Cosines in the features' own precision, 512 queries at a time: a gallery of 25,000 takes 50 MB.

    Example:
        >>> gallery = Gallery("pets", (None,) * 12, ("",) * 12, tuple(range(12)))
        >>> line = gallery_table(gallery, np.eye(12), np.eye(12))[0]
        >>> line.direction, line.measure, line.score.value
        ('image to text', 'R@1', 1.0)

    Source:
        Karpathy and Fei-Fei's split and recall.
    """
    check_sampling(level, resamples)
    if (len(images), len(texts)) != (len(gallery.images), len(gallery.captions)):
        raise ValueError(
            f"{len(images)} and {len(texts)} features for {len(gallery.images)} pictures and "
            f"{len(gallery.captions)} captions"
        )
    if min(len(images), len(texts)) < max(RANKS):
        raise ValueError(f"{len(images)} pictures and {len(texts)} captions: expected at least {max(RANKS)} of both")
    captions_of: dict[int, list[int]] = {}
    for caption, owner in enumerate(gallery.owners):
        captions_of.setdefault(owner, []).append(caption)
    owner_of = {caption: [owner] for caption, owner in enumerate(gallery.owners)}
    lines = []
    for direction, queries, answers, right in (
        ("image to text", images, texts, captions_of),
        ("text to image", texts, images, owner_of),
    ):
        ranks = first_ranks(queries, answers, right)
        count = len(ranks)
        drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
        for k in RANKS:
            hits = (ranks <= k).astype(np.float64)
            chance = float(np.mean([_chance(len(answers), len(right[query]), k) for query in sorted(right)]))
            share = share_of(float(hits.mean()), drawn @ hits / count, chance, count, (1 - level) / 2)
            published = published_scores(gallery.name, direction, f"R@{k}")
            lines.append(GalleryLine(direction, f"R@{k}", share, count, published))
    return tuple(lines)


def first_ranks(
    queries: Float[np.ndarray, "q d"], answers: Float[np.ndarray, "a d"], right: Mapping[int, Sequence[int]]
) -> NDArray[np.intp]:
    """Of each query with right answers, the rank of the best of them; equally good wrong answers come before it."""
    q, a = (unit_rows(rows, len(rows), kind, None) for rows, kind in ((queries, "queries"), (answers, "answers")))
    if q.shape[1] != a.shape[1]:
        raise ValueError(f"features of {q.shape[1]} and of {a.shape[1]} numbers: nothing to search")
    queried = sorted(right)
    ranks = np.empty(len(queried), np.intp)
    for start in range(0, len(queried), _CHUNK):
        chunk = queried[start : start + _CHUNK]
        similar = q[chunk] @ a.T
        for k, query in enumerate(chunk):
            own = list(right[query])
            wrong = np.delete(similar[k], own)
            ranks[start + k] = 1 + np.count_nonzero(wrong >= similar[k][own].max())
    return ranks


def _chance(gallery: int, right: int, k: int) -> float:
    """1 - C(gallery - right, k) / C(gallery, k)."""
    missed = 1.0
    for j in range(k):
        missed *= max(0, gallery - right - j) / (gallery - j)
    return 1.0 - missed
