"""ARO's order suites: the wrong captions are shuffles, drawn once and stored, so that two runs ask the same."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.suites.files import Files, column_picture, field_of, tables_of, text_of
from eqben_builder.suites.galleries import karpathy_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eqben_builder.suites.files import ColumnPicture, SuiteRow

    Tagger = Callable[[str], Sequence[tuple[str, str]]]

NOUNS, ADJECTIVES = ("NN", "NNS", "NNP", "NNPS"), ("JJ", "JJR", "JJS")
#: Folders in which MTEB's frozen draws are looked for, by subset.
FROZEN = {
    "coco_order": ("coco_order", "ARO-COCO-order"),
    "flickr30k_order": ("flickr30k_order", "ARO-Flickr-order"),
}
_SHUFFLES = 4
_WORDS = 30
_DROPPED = re.compile(r"[.!\"()*#:;~]")


def order_captions(tagged: Sequence[tuple[str, str]], rng: np.random.Generator) -> list[str]:
    """A caption and four shuffles of it, as ARO makes them.

    In this order: the caption; its nouns exchanged among themselves and its adjectives likewise; all other words
    exchanged; the words within each three; the threes. All are in lower case, without punctuation, of 30 words at most.

    Args:
        tagged: Tokens with Penn Treebank tags, such as ("dog", "NN"), as spaCy's `token.tag_` gives them.
        rng: Draws the shuffles.

    Returns:
        Five texts; a shuffle may come out as the caption itself, as in ARO.

    Raises:
        ValueError: No tokens.

    Example:
        >>> tagged = [("a", "DT"), ("red", "JJ"), ("cup", "NN"), ("on", "IN"), ("a", "DT"), ("table", "NN")]
        >>> order_captions(tagged, np.random.default_rng(3))[:2]
        ['a red cup on a table', 'a red table on a cup']

    Source:
        ARO's dataset_zoo/perturbations.py at 81fdd20. Two things differ: the threes are made of the same tokens, where
        ARO tokenises a second time with NLTK; and all five texts are the tokens joined by spaces, where ARO leaves the
        right caption as it was written, so that a split "n't" gives the wrong ones away.
    """
    if not tagged:
        raise ValueError("a caption without a word cannot be shuffled")
    words = np.array([token for token, _ in tagged], dtype=object)
    nouns = np.flatnonzero([tag in NOUNS for _, tag in tagged])
    adjectives = np.flatnonzero([tag in ADJECTIVES for _, tag in tagged])
    further = np.setdiff1d(np.arange(len(words)), np.concatenate([nouns, adjectives]))
    named, unnamed = words.copy(), words.copy()
    for places in (nouns, adjectives):
        named[places] = rng.permutation(words[places])
    unnamed[further] = rng.permutation(words[further])
    threes = [words[start : start + 3] for start in range(0, len(words), 3)]
    within = np.concatenate([rng.permutation(three) for three in threes])
    across = np.concatenate([threes[index] for index in rng.permutation(len(threes))])
    return [_cleaned(" ".join(text)) for text in (words, named, unnamed, within, across)]


def draw_orders(root: str | Path, name: str, tag: Tagger, *, seed: int = 1) -> Path:
    """Draw the shuffles of COCO's or Flickr30k's test captions once, and store them where `read_suite` looks.

    Args:
        root: The data root, which holds `dataset_coco.json`, `coco_karpathy_test.json` or Flickr30k's files, in it or
            in `coco/` and `flickr30k/`.
        name: "coco" or "flickr30k".
        tag: A caption to its tokens with their tags: `lambda text: [(t.text, t.tag_) for t in nlp(text)]` with spaCy's
            `en_core_web_sm` is ARO's.
        seed: Of the shuffles, at least 0; each caption has a generator of its own.

    Returns:
        `ROOT/aro/coco_order.json` or `flickr30k_order.json`.

    Raises:
        ValueError: Another name.
        FileNotFoundError: None of the files with the captions.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> rows = [{"image": "val2014/a.jpg", "caption": ["A red cup."]}]
        >>> _ = (root / "coco_karpathy_test.json").write_text(json.dumps(rows))
        >>> path = draw_orders(root, "coco", lambda text: [(word, "NN") for word in text.split()])
        >>> path.name, len(json.loads(path.read_text())[0]["captions"])
        ('coco_order.json', 5)
    """
    rows: list[dict[str, object]] = []
    for image, captions in karpathy_entries(Path(root), name):
        for caption in captions:
            rng = np.random.default_rng([seed, len(rows)])
            rows.append({"image": image, "captions": order_captions(tag(caption), rng)})
    path = Path(root) / "aro" / f"{name}_order.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return path


def read_order(files: Files, subset: str) -> Iterator[SuiteRow]:
    """A stored draw, `[{"image": "val2014/…jpg", "captions": [true, four shuffled ones]}]`, or MTEB's parquet files."""
    if files.has(f"{subset}.json", f"data/{subset}.json"):
        yield from _stored(files, subset)
        return
    for folder in FROZEN[subset]:
        if (files.own / folder).is_dir():
            yield from _frozen(files, files.own / folder, subset)
            return
    files.notes.append(
        f"{subset}: left out: its captions are shuffled when ARO is run and not published; store a draw with "
        f"eqben_builder.suites.draw_orders, or lay mteb/{FROZEN[subset][1]}'s parquet files into {FROZEN[subset][1]}/"
    )


def _stored(files: Files, subset: str) -> Iterator[SuiteRow]:
    for where, number, row in files.json(f"{subset}.json", f"data/{subset}.json", kind=list):
        path = text_of(row, "image", where)
        captions = field_of(row, "captions", where)
        if (
            not isinstance(captions, list)
            or len(captions) < 2
            or not all(isinstance(caption, str) for caption in captions)
        ):
            raise ValueError(f"{where}: field 'captions' should be a list of texts, the true one first")
        base = PurePosixPath(path).name
        picture = files.picture(path, f"val2014/{base}", f"flickr30k-images/{base}")
        yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, path)


def _frozen(files: Files, folder: Path, subset: str) -> Iterator[SuiteRow]:
    """MTEB's draw: five rows hold the same picture, which is told by its bytes."""
    drawn: dict[bytes, ColumnPicture] = {}
    number = 0
    for path, table in tables_of(folder, "*.parquet"):
        names = ["correct_caption", *(f"hard_text_{k}" for k in range(1, _SHUFFLES + 1))]
        absent = [name for name in names if name not in table.column_names]
        if absent:
            raise ValueError(f"{path}: no column {absent[0]!r}; there are {', '.join(table.column_names)}")
        texts = [table.column(name).to_pylist() for name in names]
        for row, captions in enumerate(zip(*texts, strict=True)):
            own = column_picture(table, "images", row, path)
            key = hashlib.blake2b(own.read(), digest_size=16).digest()
            picture = drawn.setdefault(key, own)
            yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, key.hex())
            number += 1


def _cleaned(text: str) -> str:
    return " ".join(_DROPPED.sub(" ", text.lower()).split()[:_WORDS])
