"""A results page: one HTML file that needs no network and no script; needs the extra `page`."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from oven_retrieval.__about__ import __version__
from oven_retrieval.evaluation.curves import accuracy_by_popularity
from oven_retrieval.evaluation.errors import KINDS, PAPER_KINDS, error_kinds, kind_shares
from oven_retrieval.evaluation.scores import Outcomes
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.questions import ImageFolder
from oven_retrieval.pictures import read_rgb
from wary_files.durable import replace_file

_SIDE = 256


_EXAMPLES = 24
"""Wrong answers of each split that are shown, the surest first where predictions have scores, else drawn by a hash."""


def write_page(
    path: str | Path,
    marked: Mapping[str, Outcomes],
    result: Mapping[str, Any],
    *,
    kb: KnowledgeBase | None = None,
    images: str | Path | None = None,
    title: str = "OVEN results",
) -> None:
    """Write accuracies, kinds of errors, accuracy by popularity and the surest mistakes as one HTML file.

    Args:
        path: the file; one that is there is replaced when the new one is complete.
        marked: outcomes of each split.
        result: what `evaluate_splits` gives for them.
        kb: the knowledge base, without which there are no kinds of errors and no popularity.
        images: folder of the questions' images, and of entities' images by the names that they have there.
        title: of the page.

    Raises:
        ImportError: names the extra to install.

    Example:
        >>> import tempfile
        >>> from oven_retrieval.evaluation import Prediction, Reference, evaluate_splits, outcomes
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> split = references, [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> file = Path(tempfile.mkdtemp()) / "results.html"
        >>> write_page(file, {"entity": outcomes(*split)}, evaluate_splits({"entity": split}))
        >>> "harmonic mean" in file.read_text()
        True
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("a results page needs jinja2: pip install 'oven-retrieval[page]'") from error
    pictures = None if images is None else ImageFolder(images)
    splits = {}
    for name, outcome in marked.items():
        kinds = [] if kb is None else error_kinds(outcome, kb)
        splits[name] = {
            "shares": kind_shares(kinds),
            "bins": [] if kb is None else _bins(outcome, kb),
            "mistakes": [
                _mistake(outcome, number, kinds[number] if kinds else "wrong", kb, pictures)
                for number in _chosen(outcome, kinds, _EXAMPLES)
            ],
        }
    loader = PackageLoader("oven_retrieval.evaluation", "")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    page = templates.get_template("page.html").render(
        title=title, result=result, splits=splits, kb=kb, version=__version__, kinds=KINDS, paper_kinds=PAPER_KINDS
    )
    replace_file(Path(path), page)


def _bins(marked: Outcomes, kb: KnowledgeBase) -> list[Any]:
    """Accuracy by popularity, where the knowledge base knows any."""
    rows = kb.rows([reference.entity_id for reference in marked.references])
    in_kb = rows >= 0
    popularity = kb.popularity[rows[in_kb]]
    if not in_kb.any() or not np.any(popularity > 0) or popularity.min() < 0:
        return []
    entities = [marked.references[i].entity_id for i in np.flatnonzero(in_kb).tolist()]
    return accuracy_by_popularity(marked.correct[in_kb], popularity, entities)


def _chosen(marked: Outcomes, kinds: list[str], examples: int) -> list[int]:
    """Wrong answers: the surest of each kind in turn, or by a hash where there are no scores."""

    def place(i: int) -> tuple[float, bytes]:
        score = marked.scores[i]
        draw = blake2b(marked.references[i].data_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return (-float(score) if score == score else np.inf, draw)

    by_kind: dict[str, list[int]] = {}
    for i in np.flatnonzero(~marked.correct).tolist():
        if any(marked.answers[i]):  # without an answer there is nothing to look at
            by_kind.setdefault(kinds[i] if kinds else "wrong", []).append(i)
    for members in by_kind.values():
        members.sort(key=place)
    order = [kind for kind in KINDS if kind in by_kind] or list(by_kind)
    chosen: list[int] = []
    for turn in range(examples):
        chosen += [by_kind[kind][turn] for kind in order if turn < len(by_kind[kind])]
        if len(chosen) >= examples:
            break
    return sorted(chosen[:examples], key=lambda i: order.index(kinds[i] if kinds else "wrong"))


def _mistake(
    marked: Outcomes, number: int, kind: str, kb: KnowledgeBase | None, pictures: ImageFolder | None
) -> dict[str, Any]:
    """What the page shows of one wrong answer."""
    reference, score = marked.references[number], float(marked.scores[number])
    entities = [(reference.entity_id, reference.entity_text), *((answer, "") for answer in marked.answers[number])]
    return {
        "kind": kind,
        "reference": reference,
        "picture": _picture(pictures, reference.image_id),
        "score": None if np.isnan(score) else score,
        "entities": [_entity(entity_id, text, kb, pictures) for entity_id, text in entities],
    }


def _entity(entity_id: str, text: str, kb: KnowledgeBase | None, pictures: ImageFolder | None) -> dict[str, Any]:
    """Id, name, category and image of an entity, as far as they are known."""
    row = -1 if kb is None else int(kb.rows([entity_id])[0])
    if kb is None or row < 0:
        return {"id": entity_id, "name": text or entity_id or "no entity", "category": "", "picture": None}
    entity = kb[row]
    picture = None if "://" in (entity.image or "://") else _picture(pictures, Path(entity.image or "").name)
    return {"id": entity_id, "name": entity.name, "category": entity.category, "picture": picture}


def _picture(pictures: ImageFolder | None, name: str) -> str | None:
    """An image of the folder as a `data:` address, at most 256 pixels a side; None where it cannot be read."""
    if pictures is None or not name or name not in pictures:
        return None
    try:
        small = read_rgb(pictures.find(name))
    except (LookupError, OSError, ValueError):
        return None
    small.thumbnail((_SIDE, _SIDE))
    written = io.BytesIO()
    small.save(written, "JPEG", quality=82)
    return f"data:image/jpeg;base64,{b64encode(written.getvalue()).decode('ascii')}"
