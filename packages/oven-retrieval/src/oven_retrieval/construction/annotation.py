"""The human set: a page on which people correct questions, and the questions that three of them agree on."""

from __future__ import annotations

import io
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from oven_retrieval.entity import EntityFileError
from oven_retrieval.evaluation.files import Reference
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.questions import ImageFolder
from oven_retrieval.pictures import read_rgb
from oven_retrieval.text_files import json_objects, text_field
from oven_retrieval.tokens import words
from wary_files.durable import replace_file
from wary_files.text import json_text

_SIDE = 640
LEAST_AGREEING = 2
"""So many annotators must say that a link is wrong, or that the answer is not in the image."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one person says of a question.

    `right` whether the entity is the right one, `entity_id` the right one where it is not, `present` whether the answer
    is physically in the image, `question` as it was rewritten.

    Example:
        >>> Annotation("ann", "d1", right=False, entity_id="Q2", present=True, question="which aircraft?").entity_id
        'Q2'
    """

    annotator: str
    data_id: str
    right: bool
    entity_id: str
    present: bool
    question: str


def write_annotation_page(
    path: str | Path,
    references: Sequence[Reference],
    kb: KnowledgeBase,
    images: ImageFolder | None = None,
    *,
    title: str = "Questions to check",
) -> Path:
    """Write one HTML file, which needs no network, with a form for each question.

    It shows the image, the question and the entity, and asks three things: is the entity right, is it in the image, and
    the question again. "Save annotations" gives the file that `read_annotations` reads.

    Raises:
        ImportError: names the extra to install.

    Source: the interface of OVEN's figure 9.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("a page needs jinja2: pip install 'oven-retrieval[page]'") from error
    rows = kb.rows([reference.entity_id for reference in references]).tolist()
    items = [
        {
            "data_id": reference.data_id,
            "question": reference.question,
            "entity_id": reference.entity_id,
            "name": kb.names[row] if row >= 0 else reference.entity_text or "not in the knowledge base",
            "description": kb.descriptions[row] if row >= 0 else "",
            "link": f"https://www.wikidata.org/wiki/{quote(reference.entity_id)}" if _is_item(reference) else "",
            "picture": _picture(images, reference.image_id),
        }
        for reference, row in zip(references, rows, strict=True)
    ]
    loader = PackageLoader("oven_retrieval.construction", "")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    replace_file(Path(path), templates.get_template("annotate.html").render(title=title, items=items))
    return Path(path)


def _is_item(reference: Reference) -> bool:
    """Whether an id is Wikidata's."""
    return reference.entity_id[:1] == "Q" and reference.entity_id[1:].isdecimal()


def _picture(images: ImageFolder | None, name: str) -> str:
    if images is None or not name or name not in images:
        return ""
    file = images.find(name)
    try:
        small = read_rgb(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: expected an image: {error}") from None
    small.thumbnail((_SIDE, _SIDE))
    written = io.BytesIO()
    small.save(written, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{b64encode(written.getvalue()).decode('ascii')}"


def read_annotations(paths: Sequence[str | Path]) -> list[Annotation]:
    """Read what the page saves, one file an annotator.

    Raises:
        EntityFileError: file, line and field of the first row that cannot be read, or an annotator's second of a
            question.
    """
    annotations, pairs = [], set[tuple[str, str]]()
    for path in paths:
        for line, record in json_objects(path):
            try:
                link, present = record.get("link"), record.get("present")
                if link not in ("right", "wrong") or not isinstance(present, bool):
                    raise ValueError(
                        f"link, present: expected right or wrong and a truth value, got {link!r:.40}, {present!r:.40}"
                    )
                annotator, data_id = text_field(record, "annotator"), text_field(record, "data_id")
                if (annotator, data_id) in pairs:
                    raise ValueError(f"data_id: {annotator!r} has annotated {data_id!r} already")
                pairs.add((annotator, data_id))
                entity, question = (text_field(record, name, required=False) for name in ("entity_id", "question"))
            except ValueError as error:
                raise EntityFileError(path, line, str(error)) from None
            annotations.append(Annotation(annotator, data_id, link == "right", entity, present, question))
    return annotations


def agreed(
    references: Sequence[Reference], annotations: Sequence[Annotation], kb: KnowledgeBase, *, annotators: int = 3
) -> tuple[list[Reference], dict[str, int]]:
    """Return the questions that the annotators leave, corrected, and how many were left out or changed, and why.

    Where two say that the answer is not in the image, the question is left out. Where two say that the entity is wrong,
    the one that two of them name takes its place, or the question is left out. The question is that of the first
    annotator, by name, who agrees with this and whose text does not hold the entity's name.

    Args:
        references: the questions, as they were annotated.
        annotations: of at least `annotators` people each; questions of fewer are left out.
        kb: the knowledge base, which has every entity that is named.
        annotators: people a question; 3 in the paper.

    Raises:
        ValueError: an annotation of a question that is not there, or an entity that the knowledge base lacks.

    Example:
        >>> kb = KnowledgeBase.from_names(["Tornado", "Panavia Tornado"])
        >>> question = Reference("d1", "0", "test_seen", "i1", "what is it?")
        >>> notes = [Annotation(name, "d1", False, "1", True, f"which jet, {name}?") for name in ("ann", "bo", "cy")]
        >>> remaining, report = agreed([question], notes, kb)
        >>> remaining[0].entity_id, remaining[0].question, report["entity corrected"]
        ('1', 'which jet, ann?', 1)

    Source: OVEN appendix 10.2, whose annotators corrected 8.4 % of the links; 10.3 % of the answers were not present.
    """
    by_question: dict[str, list[Annotation]] = {reference.data_id: [] for reference in references}
    for annotation in annotations:
        if annotation.data_id not in by_question:
            raise ValueError(f"data_id: {annotation.data_id!r} is annotated and not among the questions")
        by_question[annotation.data_id].append(annotation)
    remaining, report = [], Counter[str]()
    for reference in references:
        own = sorted(by_question[reference.data_id], key=lambda annotation: annotation.annotator)
        if len(own) < annotators:
            report[f"fewer than {annotators} annotations"] += 1
        elif sum(not annotation.present for annotation in own) >= LEAST_AGREEING:
            report["answer not in the image"] += 1
        else:
            corrected = _corrected(reference, own, kb)
            report["no agreement on the entity" if corrected is None else "questions"] += 1
            if corrected is not None:
                report["entity corrected"] += corrected.entity_id != reference.entity_id
                report["question rewritten"] += corrected.question != reference.question
                remaining.append(corrected)
    return remaining, dict(report)


def _corrected(reference: Reference, own: Sequence[Annotation], kb: KnowledgeBase) -> Reference | None:
    """The question with the entity and the words that its annotators agree on; None where they agree on no entity."""
    entity = reference.entity_id
    if sum(not annotation.right for annotation in own) >= LEAST_AGREEING:
        named = Counter(annotation.entity_id for annotation in own if not annotation.right and annotation.entity_id)
        best = named.most_common(1)
        if not best or best[0][1] < LEAST_AGREEING:
            return None
        entity = best[0][0]
    row = int(kb.rows([entity])[0])
    if row < 0:
        raise ValueError(f"entity_id: {entity!r}, of {reference.data_id!r}, is not in {kb.path}")
    answer = words(kb.names[row])
    for annotation in own:
        agrees = (reference.entity_id if annotation.right else annotation.entity_id) == entity
        if agrees and annotation.present and annotation.question and not _holds(words(annotation.question), answer):
            return replace(reference, entity_id=entity, entity_text=kb.names[row], question=annotation.question)
    return replace(reference, entity_id=entity, entity_text=kb.names[row])


def _holds(text: Sequence[str], name: Sequence[str]) -> bool:
    """Whether a text holds all words of a name, one after the other."""
    return bool(name) and any(list(text[i : i + len(name)]) == list(name) for i in range(len(text) - len(name) + 1))


_FIELDS = ("data_id", "image_id", "question", "entity_id", "entity_text")


def write_references(path: str | Path, references: Sequence[Reference], split: str = "human") -> Path:
    """Write questions as OVEN's reference jsonl, `human_seen` and `human_unseen` in place of their split."""
    lines = []
    for reference in references:
        kind = "seen" if "_seen" in reference.data_split else "unseen"
        record = {name: getattr(reference, name) for name in _FIELDS}
        lines.append(json_text(record | {"data_split": f"{split}_{kind}"}) + "\n")
    replace_file(Path(path), "".join(lines))
    return Path(path)
