"""A results page: one HTML file that needs no network and no script, light and dark, for a phone and a desk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oven_retrieval.__about__ import __version__
from oven_retrieval.durable import replace_file
from oven_retrieval.evaluation.curves import SizePoint, accuracy_by_popularity
from oven_retrieval.evaluation.errors import KINDS, PAPER_KINDS, error_kinds, kind_shares
from oven_retrieval.evaluation.figures import coverage_figure, popularity_figure, size_figure
from oven_retrieval.evaluation.honest import Estimate, Outcomes
from oven_retrieval.evaluation.pictures import find_picture, picture_data
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.refusal import risk_coverage
from oven_retrieval.text_files import read_json

_NAMES = {"query": "Query split", "entity": "Entity split"}


class PageSource(NamedTuple):
    """What a page is made of.

    `marked` outcomes of each split; `result` what `evaluate_splits` gives for them; `kb` the knowledge base, without
    which there are no kinds of errors and no popularity; `images` folder of the questions' pictures and of entities'
    pictures with relative paths; `sizes` points of `accuracy_by_size`; `kinds` what `error_kinds` gives for each split,
    computed where it is None and there is a knowledge base.

    Example:
        >>> from oven_retrieval.evaluation import Prediction, Reference, evaluate_splits, outcomes
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> split = references, [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> result = evaluate_splits({"entity": split}, resamples=100)
        >>> source = PageSource({"entity": outcomes(*split)}, result)
        >>> source.result["official"]["entity"]
        {'seen': 100.0, 'unseen': 0.0}
    """

    marked: Mapping[str, Outcomes]
    result: Mapping[str, Any]
    kb: KnowledgeBase | None = None
    images: Path | None = None
    sizes: Sequence[SizePoint] = ()
    kinds: Mapping[str, list[str]] | None = None


def write_page(path: str | Path, source: PageSource, *, title: str = "OVEN results", examples: int = 24) -> None:
    """Write a results page.

    Args:
        path: the HTML file; one that is there is replaced when the new one is complete.
        source: what to show.
        title: of the page.
        examples: wrong answers to show at most, the surest first where predictions have scores, else drawn by a
            hash; each kind of error has its share.

    Raises:
        ValueError: fewer than 0 examples.

    Example:
        >>> import tempfile
        >>> from oven_retrieval.evaluation import Prediction, Reference, evaluate_splits, outcomes
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> split = references, [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> file = Path(tempfile.mkdtemp()) / "results.html"
        >>> result = evaluate_splits({"entity": split}, resamples=100)
        >>> write_page(file, PageSource({"entity": outcomes(*split)}, result))
        >>> file.stat().st_size > 1000
        True
    """
    if examples < 0:
        raise ValueError(f"examples: expected at least 0, got {examples!r}")
    replace_file(Path(path), results_page(source, title=title, examples=examples))


def results_page(source: PageSource, *, title: str = "OVEN results", examples: int = 24) -> str:
    """The page of `write_page` as a text; every name in it is escaped.

    Example:
        >>> from oven_retrieval.evaluation import Prediction, Reference, evaluate_splits, outcomes
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> split = references, [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> result = evaluate_splits({"entity": split}, resamples=100)
        >>> source = PageSource({"entity": outcomes(*split)}, result)
        >>> "<title>Mine</title>" in results_page(source, title="Mine")
        True
    """
    kinds = source.kinds
    if kinds is None:
        kb = source.kb
        kinds = {name: [] if kb is None else error_kinds(marked, kb) for name, marked in source.marked.items()}
    body = [_headline(source.result, title), _scores_table(source.result)]
    for name, marked in source.marked.items():
        if kinds[name]:
            body.append(_kinds_section(name, kinds[name]))
        if source.kb is not None:
            body.append(_popularity_section(name, marked, source.kb))
        body += _coverage_section(name, marked)
    if source.sizes:
        body.append(
            f"<section><h2>Size of the knowledge base</h2><figure>{size_figure(source.sizes)}<figcaption>Accuracy when "
            "only some entities may be answered: all right ones, and others drawn at random; the bars span the draws."
            "</figcaption></figure></section>"
        )
    if examples:
        for name, marked in source.marked.items():
            body.append(_examples_section(name, marked, kinds[name], source, examples))
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>{''.join(body)}</main>"
        f"{_footer(source)}</body></html>\n"
    )


def _coverage_section(name: str, marked: Outcomes) -> list[str]:
    """The risk-coverage curve, where the answers have scores that differ."""
    scored = np.nan_to_num(marked.scores, nan=-np.inf)
    if len(np.unique(scored)) < 3:
        return []
    curve = risk_coverage(scored, marked.correct)
    section = (
        f"<section><h2>Only the surest answers: {_NAMES[name].lower()}</h2><figure>{coverage_figure(curve)}<figcaption>"
        "Who answers only the questions with the greatest scores gets this accuracy; mean risk over all coverages "
        f"{100 * curve.area():.1f} %.</figcaption></figure></section>"
    )
    return [section]


def _percent(value: float) -> str:
    return f"{value:.1f}"


def _interval(estimate: Sequence[float]) -> str:
    value, low, high = Estimate(*estimate)
    return f'{_percent(value)} <span class="interval">[{_percent(low)}, {_percent(high)}]</span>'


def _headline(result: Mapping[str, Any], title: str) -> str:
    honest = result["honest"]
    if "final" in honest:
        estimate, measure = honest["final"], "harmonic mean of both splits"
    else:
        name = next(iter(honest))
        estimate, measure = honest[name]["harmonic"], f"harmonic mean of seen and unseen, {_NAMES[name].lower()}"
    value, low, high = Estimate(*estimate)
    interval = f"{100 * result['confidence']:g} % interval {_percent(low)} to {_percent(high)}"
    return (
        f"<header><h1>{escape(title)}</h1><p class='headline'><strong>{_percent(value)}</strong> % "
        f"<span>{measure}, {interval}</span></p></header>"
    )


def _scores_table(result: Mapping[str, Any]) -> str:
    honest, official = result["honest"], result["official"]
    rows = []
    for name in ("query", "entity"):
        if name not in honest:
            continue
        split = honest[name]
        published = official.get(name, {})
        official_cells = "".join(
            f"<td>{published[kind]:.2f}</td>" if kind in published else "<td>–</td>" for kind in ("seen", "unseen")
        )
        rows.append(
            f"<tr><th scope='row'>{name}</th><td><b>{_interval(split['harmonic'])}</b></td>"
            f"<td>{_interval(split['seen'])}</td><td>{_interval(split['unseen'])}</td>{official_cells}"
            f"<td>{split['questions']:,}</td><td>{split['missing']:,}</td><td>{split['duplicates']:,}</td></tr>"
        )
    refused = f"<p class='note'>Official numbers: {escape(official['refused'])}</p>" if "refused" in official else ""
    return (
        "<section><h2>Accuracy, %</h2><div class='scroll'><table><thead><tr><th>split</th><th>harmonic mean</th>"
        "<th>seen</th><th>unseen</th><th>official seen</th><th>official unseen</th><th>questions</th>"
        f"<th>unanswered</th><th>duplicates</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>{refused}"
        "<p class='note'>Every question counts once and a missing answer is wrong; intervals are bootstrapped. The "
        "official numbers leave unanswered questions out and count duplicates twice.</p></section>"
    )


def _kinds_section(name: str, kinds: list[str]) -> str:
    rows = []
    for kind_share in kind_shares(kinds):
        paper = PAPER_KINDS.get(kind_share.kind, "")
        rows.append(
            f"<tr><th scope='row'>{kind_share.kind}<small>{KINDS[kind_share.kind]}</small></th>"
            f"<td class='meter'><i class='{'good' if kind_share.kind == 'correct' else 'bad'}' "
            f"style='width:{kind_share.share.value:.2f}%'></i></td>"
            f"<td>{_interval(kind_share.share)}</td><td>{kind_share.questions:,}</td><td>{paper}</td></tr>"
        )
    return (
        f"<section><h2>Kinds of answers: {_NAMES[name].lower()}</h2><div class='scroll'><table class='kinds'><thead>"
        "<tr><th>kind</th><th></th><th>share, %</th><th>questions</th><th>in the paper's table 3</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div><p class='note'>The first kind that fits counts; each is decided "
        "by names, categories and descriptions in the knowledge base. The paper's kinds were told by hand.</p>"
        "</section>"
    )


def _popularity_section(name: str, marked: Outcomes, kb: KnowledgeBase) -> str:
    rows = kb.rows([reference.entity_id for reference in marked.references])
    in_kb = rows >= 0
    popularity = kb.popularity[rows[in_kb]]
    if not in_kb.any() or not np.any(popularity > 0) or popularity.min() < 0:
        return ""
    figure = popularity_figure(accuracy_by_popularity(marked.correct[in_kb], popularity))
    return (
        f"<section><h2>Head and tail: {_NAMES[name].lower()}</h2><figure>{figure}<figcaption>Bars are Wilson's 95 % "
        "intervals.</figcaption></figure></section>"
    )


def _chosen(name: str, marked: Outcomes, kinds: list[str], examples: int) -> list[int]:
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


def _examples_section(name: str, marked: Outcomes, kinds: list[str], source: PageSource, examples: int) -> str:
    cards = []
    for i in _chosen(name, marked, kinds, examples):
        reference, answers = marked.references[i], marked.answers[i]
        score = "" if marked.scores[i] != marked.scores[i] else f" · score {marked.scores[i]:.3g}"
        shown = ", ".join(answer or "no entity" for answer in answers) or "no answer"
        cards.append(
            f"<article><p class='kind'>{escape(kinds[i] if kinds else 'wrong')}</p>"
            f"{_picture(source.images, reference.image_id, 'question')}"
            f"<p class='question'>{escape(reference.question or reference.data_id)}</p><dl>"
            f"<dt>right</dt><dd>{_entity(source, reference.entity_id, reference.entity_text)}</dd>"
            f"<dt>answered{escape(score)}</dt>"
            f"<dd>{_entity(source, answers[0], '') if len(answers) == 1 and answers[0] else escape(shown)}</dd></dl>"
            f"<p class='id'>{escape(reference.data_id)} · {'seen' if '_seen' in reference.data_split else 'unseen'}</p>"
            "</article>"
        )
    if not cards:
        return ""
    has_scores = bool(np.isfinite(marked.scores).any())
    note = (
        "The surest wrong answers of each kind."
        if has_scores
        else "Wrong answers of each kind, drawn by a hash of their id."
    )
    return (
        f"<section><h2>Wrong answers: {_NAMES[name].lower()}</h2><p class='note'>{note}</p>"
        f"<div class='cards'>{''.join(cards)}</div></section>"
    )


def _picture(folder: Path | None, name: str, subject: str) -> str:
    if folder is None:
        return ""
    file = find_picture(folder, name) if name else None
    data = None if file is None else picture_data(file)
    if data is None:
        return f"<div class='picture none {subject}'>{'no picture' if subject == 'question' else ''}</div>"
    return f"<img class='picture {subject}' src='{data}' alt='picture of the {subject}'>"


def _entity(source: PageSource, entity_id: str, text: str) -> str:
    """An entity's picture, name and category."""
    row = -1 if source.kb is None else int(source.kb.rows([entity_id])[0])
    if source.kb is None or row < 0:
        return f"{escape(text or entity_id)} <small>{escape(entity_id if text else '')}</small>"
    entity = source.kb[row]
    picture = ""
    if entity.image and "://" not in entity.image and source.images is not None:
        picture = _picture(source.images, entity.image, "entity")
    category = f" · {escape(entity.category)}" if entity.category else ""
    return f"{picture}<b>{escape(entity.name)}</b> <small>{escape(entity.id)}{category}</small>"


def _footer(source: PageSource) -> str:
    facts = {"oven-retrieval": __version__}
    if source.kb is not None:
        facts["knowledge base"] = f"{source.kb.entity_count:,} entities, {source.kb.hash[:12]}"
    return f"<footer><p>{escape(' · '.join(f'{name} {value}' for name, value in facts.items()))}</p></footer>"


def read_sizes(path: str | Path) -> list[SizePoint]:
    """Points of `accuracy_by_size` from a JSON list of {"size": …, "accuracy": [value, low, high]}.

    Raises:
        ValueError: the file, and the entry that is not a point.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "sizes.json"
        >>> _ = file.write_text('[{"size": 100, "accuracy": [50, 40, 60]}]', encoding="utf-8")
        >>> read_sizes(file)[0].accuracy.low
        40.0
    """
    try:
        content = read_json(path)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: expected a JSON list of sizes: {error.msg}") from None
    points = []
    for number, entry in enumerate(content if isinstance(content, list) else [content]):
        try:
            value, low, high = (float(x) for x in entry["accuracy"])
            points.append(SizePoint(int(entry["size"]), Estimate(value, low, high)))
            if points[-1].size < 1 or not 0 <= low <= value <= high <= 100:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f'{path}: entry {number}: expected {{"size": 1000, "accuracy": [value, low, high]}} in percent, '
                f"got {entry!r:.80}"
            ) from None
    return points
