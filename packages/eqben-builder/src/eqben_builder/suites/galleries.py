"""Retrieval over a gallery of images and captions: COCO's and Flickr30k's test split by Karpathy, and its scores.

One file of more than 400 lines: each reader of a release stands with the checks of its own form.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of
from eqben_builder.scoring.similarity import unit_rows
from eqben_builder.suites.features import encoded
from eqben_builder.suites.files import Files, field_of, list_of, text_of, whole_number
from eqben_builder.suites.published import published_scores
from wary_files.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float
    from numpy.typing import NDArray

    from eqben_builder.formats import Picture
    from eqben_builder.progress import Progress
    from eqben_builder.scoring.similarity import DualEncoder

#: So many captions of an image are kept, as everybody who publishes recalls does: some of COCO's have six or more.
CAPTIONS = 5
RANKS = (1, 5, 10)
_CHUNK = 512
#: Resamples at once: 10 MB of counts for a gallery of 25,000.
_DRAWN = 50


@dataclass(frozen=True)
class Gallery:
    """Images and captions that are searched as a whole.

    Args:
        name: "coco" or "flickr30k".
        images: The images.
        captions: All captions.
        right: Name of a set of judgements ("original", "eccv", "cxc") -> which answers are right, by place: of each
            image its captions, and of each caption its images. Queries without an entry are not asked.
        notes: What a reader of the scores should know.

    Example:
        >>> right = {"original": ({0: [0], 1: [1]}, {0: [0], 1: [1]})}
        >>> Gallery("pets", (), ("a cat", "a dog"), right).right["original"][0][1]
        [1]
    """

    name: str
    images: tuple[Picture, ...]
    captions: tuple[str, ...]
    right: Mapping[str, tuple[Mapping[int, Sequence[int]], Mapping[int, Sequence[int]]]]
    notes: tuple[str, ...] = ()


def read_gallery(root: str | Path, name: str) -> Gallery:
    """Karpathy's test split with its images, decoded as `Image.open(...).convert("RGB")` does.

    COCO: `dataset_coco.json` or BLIP's `coco_karpathy_test.json`, images under `val2014/`; the extended positives of
    ECCV Caption, `{eccv,cxc}_{image_to_caption,caption_to_image}.json` beside it, need `dataset_coco.json`, which holds
    the ids. Answers that are not among the 25,000 captions are left out, as the authors' scorer never finds them, and a
    note counts them.
    Flickr30k: `dataset_flickr30k.json`, BLIP's `flickr30k_test.json`, or `flickr30k_test_karpathy.txt`.

    Args:
        root: The data root.
        name: "coco" or "flickr30k".

    Raises:
        ValueError: Another name; file, row and field.
        FileNotFoundError: None of the annotation files; an image that is missing: a smaller gallery is an easier one.

    Example:
        >>> import json, tempfile
        >>> from PIL import Image
        >>> root = Path(tempfile.mkdtemp())
        >>> for number in range(2):
        ...     Image.new("RGB", (2, 2)).save(root / f"{number}.jpg")
        >>> lines = ["image,caption", "0.jpg,a dog", "0.jpg,a pet", "1.jpg,a cat"]
        >>> _ = (root / "flickr30k_test_karpathy.txt").write_text(chr(10).join(lines))
        >>> read_gallery(root, "flickr30k").right["original"][0]
        {0: [0, 1], 1: [2]}
    """
    if name not in ("coco", "flickr30k"):
        raise ValueError(f"gallery {name!r} is neither 'coco' nor 'flickr30k'")
    files = Files(Path(root), name)
    entries, ids = _entries(files, name)
    images: list[Picture] = []
    captions: list[str] = []
    captions_of: dict[int, list[int]] = {}
    for path, texts in entries:
        base = PurePosixPath(path).name
        picture = files.picture(path, f"val2014/{base}", f"flickr30k-images/{base}", f"images/{base}", base)
        if isinstance(picture, str):
            files.missing[picture] += 1
            continue
        captions_of[len(images)] = list(range(len(captions), len(captions) + len(texts)))
        images.append(picture)
        captions += texts
    if files.missing:
        raise FileNotFoundError(
            f"{len(files.missing)} of {len(entries)} images of {name} are missing, such as "
            f"{next(iter(files.missing))}: a smaller gallery is an easier one"
        )
    right = {"original": (captions_of, {text: [image] for image, own in captions_of.items() for text in own})}
    right |= _extended(files, ids)
    if len(right) == 1:
        files.notes.append("no extended positives: a right answer that nobody wrote down counts as wrong")
    return Gallery(name, tuple(images), tuple(captions), right, tuple(files.notes))


def has_captions(root: Path, name: str) -> bool:
    """Whether the captions of a gallery are there; suites lay its images in the same folder."""
    files = Files(root, name)
    return (root / name).is_dir() and files.has(f"dataset_{name}.json", *_CAPTIONS[name])


_CAPTIONS = {
    "coco": ("coco_karpathy_test.json",),
    "flickr30k": ("flickr30k_test_karpathy.txt", "flickr30k_test.json"),
}


#: (image, its captions), and the ids of the images and of the captions where a file has them.
_Entries = tuple[list[tuple[str, list[str]]], tuple[list[int], list[int]] | None]


def _entries(files: Files, name: str) -> _Entries:
    """The test split."""
    if files.has(f"dataset_{name}.json"):
        return _karpathy(files.find(f"dataset_{name}.json"))
    if name == "flickr30k" and not files.has("flickr30k_test.json"):
        path = files.find("flickr30k_test_karpathy.txt", "flickr30k_test.json")
        grouped: dict[str, list[str]] = {}
        for number, line in enumerate(path.read_text("utf-8-sig").removesuffix("\n").split("\n")[1:], 2):
            picture, cut, caption = line.partition(".jpg,")
            if not cut:
                raise ValueError(f"{path}, line {number}: expected NAME.jpg,CAPTION, found {line[:60]!r}")
            grouped.setdefault(f"{picture}.jpg", []).append(caption.strip().strip('"').strip())
        return [(picture, texts[:CAPTIONS]) for picture, texts in grouped.items()], None
    entries, where = [], ""
    for where, _, row in files.json("coco_karpathy_test.json" if name == "coco" else "flickr30k_test.json", kind=list):
        texts = field_of(row, "caption", where)
        if not isinstance(texts, list) or not texts:
            raise ValueError(f"{where}: field 'caption' should be a list of texts, found {texts!r}")
        entries.append((text_of(row, "image", where), [str(text) for text in texts[:CAPTIONS]]))
    return _once(entries, where.partition(", row ")[0]), None


def _once(entries: list[tuple[str, list[str]]], where: str) -> list[tuple[str, list[str]]]:
    """Entries of images that come once each: a second one would be a wrong answer to the first one's captions."""
    for name, count in Counter(name for name, _ in entries).items():
        if count > 1:
            raise ValueError(f"{where}: the test split lists the image {name!r} {count} times")
    return entries


def _karpathy(path: Path) -> _Entries:
    entries, image_ids, caption_ids = [], [], []
    content = read_json(path)
    for number, row in enumerate(list_of(field_of(content, "images", str(path)), f"{path}, field 'images'")):
        where = f"{path}, image {number}"
        if field_of(row, "split", where) != "test":
            continue
        sentences = list_of(field_of(row, "sentences", where), f"{where}, field 'sentences'")[:CAPTIONS]
        folder, name = row.get("filepath"), text_of(row, "filename", where)
        texts = [text_of(sentence, "raw", where) for sentence in sentences]
        if not texts:
            raise ValueError(f"{where}: field 'sentences' is empty, expected at least one caption")
        entries.append((f"{folder}/{name}" if folder else name, texts))
        image_ids.append(whole_number(row.get("cocoid", row.get("imgid", number)), where))
        caption_ids += [whole_number(sentence.get("sentid", 0), where) for sentence in sentences]
    if not entries:
        raise ValueError(f"{path} holds no image of the split 'test'")
    return _once(entries, str(path)), (image_ids, caption_ids)


def _extended(
    files: Files, ids: tuple[list[int], list[int]] | None
) -> dict[str, tuple[dict[int, list[int]], dict[int, list[int]]]]:
    extended = {}
    for name in ("eccv", "cxc"):
        tables = [f"{name}_image_to_caption.json", f"{name}_caption_to_image.json"]
        if not all(files.has(table) for table in tables):
            continue
        if ids is None:
            files.notes.append(f"{name}: needs dataset_coco.json, which holds the ids")
            continue
        images, captions = (_places(kind, what, files) for kind, what in zip(ids, ("cocoid", "sentid"), strict=True))
        extended[name] = (_judged(files, tables[0], images, captions), _judged(files, tables[1], captions, images))
    return extended


def _places(ids: Sequence[int], field: str, files: Files) -> dict[int, int]:
    """Places by id; one that stands for two images or captions would give the judgements of one to the other."""
    places: dict[int, int] = {}
    for place, value in enumerate(ids):
        if places.setdefault(value, place) != place:
            path = files.find("dataset_coco.json")
            raise ValueError(f"{path}: {field} {value} comes twice in the test split, or one is missing")
    return places


def _judged(files: Files, name: str, queries: dict[int, int], answers: dict[int, int]) -> dict[int, list[int]]:
    """A file's queries with their right answers, by place; answers beyond the gallery are left out and counted.

    Two captions of ECCV Caption's own file are the sixth ones of their images: nothing can find them.
    """
    path = files.find(name)
    table: dict[int, list[int]] = {}
    unknown: list[int] = []
    queried = set[int]()
    for where, key, listed in files.json(name, kind=dict):
        if whole_number(key, where) not in queries:
            raise ValueError(f"{path}: the query {key!r} is not in the test split")
        if queries[int(key)] in queried:
            raise ValueError(f"{path}: the query {key!r} comes twice")
        queried.add(queries[int(key)])
        judged = list(dict.fromkeys(whole_number(answer, where) for answer in list_of(listed, where)))
        unknown += [answer for answer in judged if answer not in answers]
        matched = [answers[answer] for answer in judged if answer in answers]
        if matched:
            table[queries[int(key)]] = matched
    if not table:
        raise ValueError(f"{path}: no answer of any query is in the test split, such as {unknown[:1]}")
    if unknown:
        shown = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        files.notes.append(f"{name}: {len(unknown)} answers are not in the gallery and left out ({shown})")
    return table


def encode_gallery(
    gallery: Gallery, encoder: DualEncoder, *, batch: int = 64, progress: Progress | None = None
) -> tuple[Float[np.ndarray, "i d"], Float[np.ndarray, "c d"]]:
    """Features of a gallery's images and captions, in their order.

    Args:
        gallery: What `read_gallery` gave.
        encoder: The model; images come as uint8 [height, width, 3] of any size.
        batch: At once, at least 1.
        progress: Called with "images", then "captions".

    Raises:
        ValueError: `batch` below 1; an image that cannot be decoded.

    Example:
        >>> from eqben_builder.formats import Picture, encode_png
        >>> class Two:
        ...     def encode_image(self, images):
        ...         return [[1.0, image.mean()] for image in images]
        ...     def encode_text(self, captions):
        ...         return [[1.0, len(caption)] for caption in captions]
        >>> black = Picture(content=encode_png(np.zeros((2, 2, 3), np.uint8)))
        >>> gallery = Gallery("own", (black,), ("a", "bc"), {})
        >>> [features.shape for features in encode_gallery(gallery, Two())]
        [(1, 2), (2, 2)]
    """
    images, texts = (part for part, _, _ in encoded(gallery.images, gallery.captions, encoder, batch, progress))
    return images, texts


class GalleryLine(NamedTuple):
    """One line of the table.

    judgements: "original", "eccv", "cxc" or another of the gallery's.
    direction: "image to text" or "text to image".
    measure: "R@1", "R@5", "R@10", "R-precision" or "mAP@R".
    score: In [0, 1], with its interval over queries and its chance.
    queries: How many were asked.
    published: Model -> its score in [0, 1], as published.
    """

    judgements: str
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
    """Recall at 1, 5 and 10, R-precision and mAP@R in both directions; a tie counts against the right answer.

    recall@k = mean over queries of [some right answer is among the first k];
    R-precision = mean of #right among the first R / R, R being how many are right;
    mAP@R = mean of 1/R times the sum over r <= R of precision(r) [rank r is right].

    Args:
        gallery: What `read_gallery` gave.
        images: Features of its images, in order; cosines are taken.
        texts: Features of its captions, in order.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Returns:
        Five lines a direction of each set of judgements.

    Raises:
        ValueError: Other numbers of features than of images or captions, fewer than ten of either, features that are
            not finite.

    Numerics:
        Cosines in the features' own precision, 512 queries at a time: a gallery of 25,000 takes 50 MB.

    Example:
        >>> own = {k: [k] for k in range(12)}
        >>> gallery = Gallery("pets", (None,) * 12, ("",) * 12, {"original": (own, own)})
        >>> line = gallery_table(gallery, np.eye(12), np.eye(12))[0]
        >>> line.direction, line.measure, line.score.value
        ('image to text', 'R@1', 1.0)

    Source:
        Recall as in Karpathy and Fei-Fei's split; R-precision and mAP@R as in ECCV Caption.
    """
    check_sampling(level, resamples)
    if (len(images), len(texts)) != (len(gallery.images), len(gallery.captions)):
        raise ValueError(
            f"{len(images)} and {len(texts)} features for {len(gallery.images)} images and "
            f"{len(gallery.captions)} captions"
        )
    if min(len(images), len(texts)) < max(RANKS):
        raise ValueError(f"{len(images)} images and {len(texts)} captions: expected at least {max(RANKS)} of both")
    lines = []
    for judgements, (captions_of, images_of) in gallery.right.items():
        for direction, queries, answers, right in (
            ("image to text", images, texts, captions_of),
            ("text to image", texts, images, images_of),
        ):
            values, sizes = _values(right_ranks(queries, answers, right))
            count = len(values)
            draws = _resampled(values, resamples, np.random.default_rng(seed))
            for k, (measure, chance) in enumerate(_chances(len(answers), sizes).items()):
                share = share_of(float(values[:, k].mean()), draws[:, k], chance, count, (1 - level) / 2)
                published = published_scores(gallery.name, direction, measure) if judgements == "original" else {}
                lines.append(GalleryLine(judgements, direction, measure, share, count, published))
    return tuple(lines)


def _resampled(values: NDArray[np.float64], resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Means of each column over queries that are drawn with replacement, [resamples, columns]."""
    count = len(values)
    share, parts = np.full(count, 1 / count), []
    for start in range(0, resamples, _DRAWN):
        parts.append(rng.multinomial(count, share, min(_DRAWN, resamples - start)) @ values / count)
    return np.concatenate(parts)


def right_ranks(
    queries: Float[np.ndarray, "q d"], answers: Float[np.ndarray, "a d"], right: Mapping[int, Sequence[int]]
) -> list[NDArray[np.intp]]:
    """Of each query with right answers their ranks, the best first; equally good wrong answers come before."""
    q, a = (unit_rows(rows, len(rows), kind, None) for rows, kind in ((queries, "queries"), (answers, "answers")))
    if q.shape[1] != a.shape[1]:
        raise ValueError(f"features of {q.shape[1]} and of {a.shape[1]} numbers: nothing to search")
    # Equal answers are multiplied once: a product of matrices sums some columns in another order.
    numbers: dict[bytes, int] = {}
    at = [numbers.setdefault(row.tobytes(), len(numbers)) for row in a]
    distinct = a[np.unique(at, return_index=True)[1]]
    queried = sorted(right)
    ranks = []
    for start in range(0, len(queried), _CHUNK):
        chunk = queried[start : start + _CHUNK]
        for query, similar in zip(chunk, (q[chunk] @ distinct.T)[:, at], strict=True):
            places = list(dict.fromkeys(right[query]))
            own, wrong = np.sort(similar[places])[::-1], np.delete(similar, places)
            better = np.array([np.count_nonzero(wrong >= value) for value in own])
            ranks.append(better + np.arange(1, len(own) + 1))
    return ranks


def _values(ranks: Sequence[NDArray[np.intp]]) -> tuple[NDArray[np.float64], list[int]]:
    """Of each query its hits within each k, R-precision and average precision at R; and how many are right."""
    values = []
    for own in ranks:
        inside = own <= len(own)
        precision = np.where(inside, np.arange(1, len(own) + 1) / own, 0.0)
        values.append([*(float(own[0] <= k) for k in RANKS), float(inside.mean()), float(precision.mean())])
    return np.array(values), [len(own) for own in ranks]


def _chances(gallery: int, sizes: Sequence[int]) -> dict[str, float]:
    """Measure -> what random features get, by how many of the gallery are right."""
    chances = {f"R@{k}": float(np.mean([_chance(gallery, size, k) for size in sizes])) for k in RANKS}
    chances["R-precision"] = float(np.mean(np.array(sizes) / gallery))
    return chances | {"mAP@R": float(np.mean([_chance_of_map(gallery, size) for size in sizes]))}


def _chance(gallery: int, right: int, k: int) -> float:
    """1 - C(gallery - right, k) / C(gallery, k)."""
    missed = 1.0
    for j in range(k):
        missed *= max(0, gallery - right - j) / (gallery - j)
    return 1.0 - missed


def _chance_of_map(gallery: int, right: int) -> float:
    """Of a random order: rank r is right with R / N, and then (r - 1)(R - 1)/(N - 1) more are expected before it."""
    share = (right - 1) / max(1, gallery - 1)
    return sum((1 + (rank - 1) * share) / rank for rank in range(1, right + 1)) / gallery
