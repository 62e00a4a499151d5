"""Retrieval in a whole gallery, with several right answers to a query: COCO and Flickr30k by Karpathy's test split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.formats.json_files import load_json
from eqben_builder.scoring.intervals import Share, share_of
from eqben_builder.suites.files import Files, field_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float
    from numpy.typing import NDArray

    from eqben_builder.formats import Picture

#: So many captions of an image are kept: some of COCO's have six or more, and the positives of ECCV count on five.
CAPTIONS = 5
#: Pictures of one of COCO's folds.
FOLD = 1000
_CHUNK = 512


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


class RetrievalScores(NamedTuple):
    """One direction with one set of judgements: shares in [0, 1], with intervals over queries, and what chance gives.

    recall: k -> share of queries of which a right answer is among the first k.
    r_precision: Mean share of right answers among the first R, R being how many there are.
    map_at_r: Mean over the first R ranks of the precision where a right answer stands, else 0.
    queries: How many were asked.

    Example:
        >>> retrieval_scores(np.eye(2), np.eye(2), {0: [0]}, ks=(1,)).queries
        1
    """

    recall: Mapping[int, Share]
    r_precision: Share
    map_at_r: Share
    queries: int


def read_gallery(root: str | Path, name: str) -> Gallery:
    """Karpathy's test split with its pictures, and the extended positives of ECCV Caption where their files lie there.

    COCO: `dataset_coco.json` or BLIP's `coco_karpathy_test.json`, pictures under `val2014/`; ECCV's
    `{eccv,cxc}_{image_to_caption,caption_to_image}.json` beside it need `dataset_coco.json`, which holds the ids.
    COCO's 5,000 pictures come with five folds of 1,000, in the order of ECCV Caption's `coco_test_ids.npy` where that
    lies there, else in the annotations' order.
    Flickr30k: `dataset_flickr30k.json`, BLIP's `flickr30k_test.json`, or `flickr30k_test_karpathy.txt`.

    Args:
        root: The data root.
        name: "coco" or "flickr30k".

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
    files = Files(Path(root), name)
    entries, ids = _entries(files, name)
    images: list[Picture] = []
    captions: list[str] = []
    owners: list[int] = []
    for place, texts in entries:
        base = PurePosixPath(place).name
        found = files.picture(place, f"val2014/{base}", f"flickr30k-images/{base}", f"images/{base}", base)
        if isinstance(found, str):
            files.missing[found] += 1
            continue
        images.append(found)
        captions += texts
        owners += [len(images) - 1] * len(texts)
    if files.missing:
        raise FileNotFoundError(
            f"{len(files.missing)} of {len(entries)} pictures of {name} are missing, such as "
            f"{next(iter(files.missing))}: a smaller gallery is an easier one"
        )
    own: dict[int, list[int]] = {}
    for caption, image in enumerate(owners):
        own.setdefault(image, []).append(caption)
    positives = {"original": Positives(own, {caption: [image] for caption, image in enumerate(owners)})}
    positives |= _extended(files, ids)
    notes = (
        [] if len(positives) > 1 else ["no extended positives: a right answer that nobody wrote down counts as wrong"]
    )
    folds = _folds(files, owners, ids) if name == "coco" else ()
    return Gallery(name, tuple(images), tuple(captions), positives, tuple(notes), folds)


def _folds(files: Files, owners: Sequence[int], ids: tuple[list[int], list[int]] | None) -> tuple[tuple[int, ...], ...]:
    """Places of COCO's pictures, 1,000 a fold; none where there are fewer than two folds."""
    order = list(dict.fromkeys(owners))
    if files.there("coco_test_ids.npy") and ids is not None:
        path = files.find("coco_test_ids.npy")
        listed = np.load(path, allow_pickle=False).ravel().tolist()
        owner = dict(zip(ids[1], owners, strict=True))
        unknown = [one for one in listed if int(one) not in owner]
        if unknown:
            raise ValueError(f"{path}: the caption id {unknown[0]!r} is not in the test split")
        order = list(dict.fromkeys(owner[int(one)] for one in listed))
    if len(order) < 2 * FOLD or len(order) % FOLD:
        return ()
    return tuple(tuple(order[start : start + FOLD]) for start in range(0, len(order), FOLD))


def karpathy_entries(root: Path, name: str) -> list[tuple[str, list[str]]]:
    """The pictures of Karpathy's test split with their captions, by name: no picture has to be there.

    Raises:
        ValueError: Another name than "coco" and "flickr30k"; file, row and field.
        FileNotFoundError: None of the annotation files.
    """
    if name not in ("coco", "flickr30k"):
        raise ValueError(f"gallery {name!r} is neither 'coco' nor 'flickr30k'")
    return _entries(Files(root, name), name)[0]


def _entries(files: Files, name: str) -> tuple[list[tuple[str, list[str]]], tuple[list[int], list[int]] | None]:
    """(picture, captions) of the test split, and COCO's ids of pictures and captions where the file has them."""
    whole = f"dataset_{name}.json"
    if files.there(whole):
        return _karpathy(files.find(whole))
    if name == "flickr30k" and not files.there("flickr30k_test.json"):
        path = files.find("flickr30k_test_karpathy.txt", "flickr30k_test.json")
        grouped: dict[str, list[str]] = {}
        for number, line in enumerate(path.read_text("utf-8").splitlines()[1:], 2):
            picture, cut, caption = line.partition(".jpg,")
            if not cut:
                raise ValueError(f"{path}, line {number}: expected NAME.jpg,CAPTION, found {line[:60]!r}")
            grouped.setdefault(f"{picture}.jpg", []).append(caption.strip().strip('"').strip())
        return [(picture, texts[:CAPTIONS]) for picture, texts in grouped.items()], None
    entries = []
    for where, _, row in files.json("coco_karpathy_test.json" if name == "coco" else "flickr30k_test.json", kind=list):
        texts = field_of(row, "caption", where)
        if not isinstance(texts, list) or not texts:
            raise ValueError(f"{where}: field 'caption' should be a list of texts, found {texts!r}")
        entries.append((text_of(row, "image", where), [str(text) for text in texts[:CAPTIONS]]))
    return entries, None


def _karpathy(path: Path) -> tuple[list[tuple[str, list[str]]], tuple[list[int], list[int]] | None]:
    content = load_json(path)
    entries, image_ids, caption_ids = [], [], []
    for number, row in enumerate(field_of(content, "images", str(path))):
        where = f"{path}, image {number}"
        if field_of(row, "split", where) != "test":
            continue
        sentences = field_of(row, "sentences", where)[:CAPTIONS]
        folder = row.get("filepath")
        name = text_of(row, "filename", where)
        entries.append((f"{folder}/{name}" if folder else name, [text_of(one, "raw", where) for one in sentences]))
        image_ids.append(int(row.get("cocoid", row.get("imgid", number))))
        caption_ids += [int(one.get("sentid", -1)) for one in sentences]
    if not entries:
        raise ValueError(f"{path} holds no image of the split 'test'")
    return entries, (image_ids, caption_ids)


def _extended(files: Files, ids: tuple[list[int], list[int]] | None) -> dict[str, Positives]:
    found = {}
    for name in ("eccv", "cxc"):
        both = [f"{name}_image_to_caption.json", f"{name}_caption_to_image.json"]
        if not all(files.there(one) for one in both):
            continue
        if ids is None:
            files.notes.append(f"{name}: needs dataset_coco.json, which holds the ids")
            continue
        at_image = {value: k for k, value in enumerate(ids[0])}
        at_caption = {value: k for k, value in enumerate(ids[1])}
        places = [(at_image, at_caption), (at_caption, at_image)]
        tables = [_judged(files.find(one), *at) for one, at in zip(both, places, strict=True)]
        found[name] = Positives(tables[0], tables[1])
    return found


def _judged(path: Path, queries: dict[int, int], answers: dict[int, int]) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    content: Any = load_json(path)
    for key, right in content.items():
        if int(key) not in queries:
            raise ValueError(f"{path}: the query {key!r} is not in the test split")
        unknown = [one for one in right if int(one) not in answers]
        if unknown:
            raise ValueError(f"{path}, query {key!r}: the answer {unknown[0]!r} is not in the test split")
        table[queries[int(key)]] = [answers[int(one)] for one in right]
    return table


def retrieval_scores(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    *,
    ks: Sequence[int] = (1, 5, 10),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> RetrievalScores:
    """Recall at k, R-precision and mAP at R over a whole gallery; a tie counts against the right answer.

    recall@k = mean over queries of [some right answer is among the first k];
    R-precision = mean of #right among the first R / R;
    mAP@R = mean of 1/R times the sum over r <= R of precision(r) [rank r is right].

    Args:
        queries: Features; cosines are taken.
        answers: Features of the gallery, of the same width.
        right: Query -> its right answers, by place; queries without an entry are not asked.
        ks: Each from 1 to the size of the gallery.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `RetrievalScores`.

    Raises:
        ValueError: No queries, shapes that do not fit, a place outside of the gallery, features that are not finite.

    Numerics:
        Cosines in the features' own precision, 512 queries at a time: a gallery of 25,000 takes 50 MB.

    Example:
        >>> images, texts = np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> found = retrieval_scores(images, texts, {0: [0, 1], 1: [2]}, ks=(1,))
        >>> found.recall[1].value, found.r_precision.value
        (0.5, 0.25)

    Source:
        Recall as in Karpathy and Fei-Fei's split; R-precision and mAP@R as in ECCV Caption. In the example the second
        picture's caption ties with one that is not its own, and the first picture's second caption with another.
    """
    values, chance = _values(queries, answers, right, ks)
    return _resampled(values, chance, ks, level, resamples, seed)


def fold_scores(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    folds: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    ks: Sequence[int] = (1, 5, 10),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> RetrievalScores:
    """The same where each fold's queries are searched among its own answers; the mean over all queries.

    Args:
        queries: As in `retrieval_scores`, and so are all others but `folds`.
        answers: Features of all folds.
        right: Query -> its right answers; those of other folds are left out.
        folds: Places of the queries and of the answers of each.
        ks: Each from 1 to the size of the smallest fold.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Raises:
        ValueError: As `retrieval_scores`; no folds.

    Example:
        >>> texts = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> own = {k: [k] for k in range(4)}
        >>> folds = [((0, 2), (1, 3)), ((1, 3), (0, 2))]
        >>> fold_scores(texts, texts[::-1], {k: [3 - k] for k in own}, folds, ks=(1,)).queries
        4

    Source:
        COCO's "1k": Karpathy and Fei-Fei average over five folds of 1,000 pictures.
    """
    if not folds:
        raise ValueError("no folds to search")
    parts = []
    for asked, held in folds:
        place = {answer: k for k, answer in enumerate(held)}
        own = {k: [place[one] for one in right.get(query, ()) if one in place] for k, query in enumerate(asked)}
        own = {k: answered for k, answered in own.items() if answered}
        parts.append(_values(np.asarray(queries)[list(asked)], np.asarray(answers)[list(held)], own, ks))
    weights = np.array([len(values) for values, _ in parts], dtype=np.float64)
    chance = np.average([chance for _, chance in parts], axis=0, weights=weights).tolist()
    return _resampled(np.concatenate([values for values, _ in parts]), chance, ks, level, resamples, seed)


def _values(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    ks: Sequence[int],
) -> tuple[NDArray[np.float64], list[float]]:
    """Of each query its hits within each k, R-precision and average precision at R; and what chance gives."""
    q, a = _unit(queries, "queries"), _unit(answers, "answers")
    asked = sorted(right)
    if not asked or q.shape[1] != a.shape[1] or not 1 <= min(ks) <= max(ks) <= len(a):
        raise ValueError(f"{len(asked)} queries, features {q.shape} and {a.shape}, ks = {tuple(ks)}: nothing to search")
    sizes = np.array([len(right[one]) for one in asked])
    everything = [place for one in asked for place in right[one]]
    if not sizes.all() or min(everything) < 0 or max(everything) >= len(a) or asked[-1] >= len(q):
        raise ValueError(f"a right answer lies outside of the gallery of {len(a)}, or a query has none")
    values = np.empty((len(asked), len(ks) + 2))
    for start in range(0, len(asked), _CHUNK):
        some = asked[start : start + _CHUNK]
        similar = q[some] @ a.T
        for k, one in enumerate(some):
            values[start + k] = _one_query(similar[k], np.asarray(right[one]), ks)
    chance = [float(np.mean([_chance(len(a), int(size), k) for size in sizes])) for k in ks]
    chance += [float(np.mean(sizes / len(a))), float(np.mean([_chance_of_map(len(a), int(size)) for size in sizes]))]
    return values, chance


def _resampled(
    values: NDArray[np.float64], chance: Sequence[float], ks: Sequence[int], level: float, resamples: int, seed: int
) -> RetrievalScores:
    count = len(values)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
    draws = drawn @ values / count
    shares = [
        share_of(float(values[:, k].mean()), draws[:, k], one, count, (1 - level) / 2) for k, one in enumerate(chance)
    ]
    return RetrievalScores(dict(zip(ks, shares, strict=False)), shares[-2], shares[-1], count)


def _one_query(similar: NDArray[Any], right: NDArray[np.intp], ks: Sequence[int]) -> list[float]:
    """Hits within each k, R-precision, average precision at R. Ranks count wrong answers that are as good as better."""
    own = np.sort(similar[right])[::-1]
    wrong = np.delete(similar, right)
    better = np.array([np.count_nonzero(wrong >= value) for value in own])
    ranks = better + np.arange(1, len(own) + 1)
    size = len(right)
    inside = ranks <= size
    precision = np.where(inside, np.arange(1, size + 1) / ranks, 0.0)
    return [*(float(ranks[0] <= k) for k in ks), float(inside.mean()), float(precision.mean())]


def _chance(gallery: int, right: int, k: int) -> float:
    """1 - C(gallery - right, k) / C(gallery, k)."""
    missed = 1.0
    for j in range(k):
        missed *= max(0, gallery - right - j) / (gallery - j)
    return 1.0 - missed


def _chance_of_map(gallery: int, right: int) -> float:
    """Of a random order: rank r is right with R / N, and then (r - 1)(R - 1)/(N - 1) more are expected before it."""
    others = (right - 1) / max(1, gallery - 1)
    return sum((1 + (rank - 1) * others) / rank for rank in range(1, right + 1)) / gallery


def _unit(features: NDArray[Any], what: str) -> NDArray[Any]:
    found = np.asarray(features)
    if found.ndim != 2 or not np.isfinite(found).all():
        raise ValueError(f"{what} have the shape {found.shape} or are not finite: expected finite features (n, d)")
    length = np.linalg.norm(found, axis=1, keepdims=True)
    if not length.all():
        raise ValueError(f"a feature of the {what} is all zero")
    unit: NDArray[Any] = found / length
    return unit
