"""`eqben score SUITE`: compositional suites from their original files, and retrieval galleries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from eqben_builder.commands.printing import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eqben_builder.commands.models import Models
    from eqben_builder.progress import Progress
    from eqben_builder.suites import Gallery, SuiteData, SuiteLine, SuiteTable
    from eqben_builder.suites.galleries import GalleryLine
    from eqben_builder.suites.ranked import Ranking

GALLERIES = ("coco", "flickr30k")
ALL = "compositional"
_QUERIES = 6
"""Captions of a gallery whose retrieved images a page shows."""


def is_suite(name: str, root: Path | None) -> bool:
    """Whether this names a suite, a gallery, or all of them, rather than a path; with a data root a name is a suite."""
    from eqben_builder.suites import SUITES

    return (root is not None or not Path(name).exists()) and name in (*SUITES, *GALLERIES, ALL, f"micro/{ALL}")


def score_suites(
    name: str,
    encoders: list[str],
    models: Models,
    *,
    data_root: Path | None,
    language_model: str | None,
    limit: int | None,
    page: Path | None,
    batch_size: int,
    device: str,
    seed: int,
    fusion: Sequence[str] = (),
    results: Path | None = None,
) -> None:
    """Score one suite, or all that are there, with each model, and print every subset and average."""
    from eqben_builder.suites import (
        SUITES,
        encode_gallery,
        encode_rows,
        gallery_records,
        gallery_table,
        similarities,
        similarities_of,
        suite_records,
        suite_table,
        write_records,
    )

    if data_root is None and name != f"micro/{ALL}":
        expected = SUITES[name].expected if name in SUITES else f"a folder for each of {', '.join(SUITES)}"
        expected = "its annotations and their images" if name in GALLERIES else expected
        raise ValueError(f"{name} reads original files: give --data-root ({expected})")
    if results is not None and results.suffix not in (".json", ".csv"):
        raise ValueError(f"--results {results}: expected a file that ends in .json or .csv")
    # Before anything is read: what is wrong with a model is said at once.
    encoder = models.encoder(encoders[0], device) if encoders else None
    scores = {spec: models.fusion(spec, device) for spec in fusion}
    scorers = {} if language_model is None else {language_model: models.model(language_model)}
    suites, galleries = _read(name, data_root, limit)
    if scores and galleries:
        raise ValueError(f"--fusion: {galleries[0].name} is searched by features; expected --encoder")
    tables: dict[str, list[SuiteTable]] = {}
    searched: dict[str, list[tuple[Gallery, tuple[GalleryLine, ...]]]] = {}
    features_of: dict[str, dict[str, tuple[Any, Any]]] = {gallery.name: {} for gallery in galleries}
    for number, spec in enumerate(encoders):
        encoder = models.encoder(spec, device) if number or encoder is None else encoder
        for data in suites:
            features = encode_rows(data.rows, encoder, batch=batch_size, progress=_progress(data.suite.title))
            table = suite_table(data, similarities(data.rows, features), scorers=scorers, seed=seed)
            tables.setdefault(spec, []).append(table)
            _show(table, spec, data.suite.title)
        for gallery in galleries:
            images, texts = encode_gallery(gallery, encoder, batch=batch_size, progress=_progress(gallery.name))
            lines = gallery_table(gallery, images, texts, seed=seed)
            searched.setdefault(spec, []).append((gallery, lines))
            if page is not None:
                features_of[gallery.name][spec] = images, texts
            _show_gallery(gallery, lines, spec)
    for spec, score in scores.items():
        for data in suites:
            similar = similarities_of(data.rows, score, batch=batch_size, progress=_progress(data.suite.title))
            table = suite_table(data, similar, scorers=scorers, seed=seed)
            tables.setdefault(spec, []).append(table)
            _show(table, spec, data.suite.title)
    if results is not None:
        records = [
            record for spec, scored in tables.items() for table in scored for record in suite_records(spec, table)
        ]
        for spec, held in searched.items():
            records += [record for gallery, lines in held for record in gallery_records(spec, gallery, lines)]
        say(f"scores {write_records(results, records)}")
    if page is not None:
        from eqben_builder.pages import write_suites_page

        retrieved = [(gallery, _retrieved(gallery, features_of[gallery.name])) for gallery in galleries]
        say(f"page {write_suites_page(tables, page, galleries=searched, retrieved=retrieved)}")


def _retrieved(gallery: Gallery, features: Mapping[str, tuple[Any, Any]]) -> dict[str, list[Ranking]]:
    """What each model retrieves for the captions on which they differ the most."""
    from eqben_builder.suites import rankings, ranks_of, telling_captions

    ranks = {spec: ranks_of(gallery, *own) for spec, own in features.items()}
    captions = telling_captions(ranks, _QUERIES)
    return {spec: rankings(gallery, *own, captions) for spec, own in features.items()}


def _read(name: str, root: Path | None, limit: int | None) -> tuple[list[SuiteData], list[Gallery]]:
    from eqben_builder.suites import SUITES, micro_suite, read_gallery, read_suite
    from eqben_builder.suites.galleries import has_captions

    if root is None or name == f"micro/{ALL}":
        return [micro_suite(pairs=max(1, (limit or 900) // 15))], []
    if name in GALLERIES:
        return [], [read_gallery(root, name)]
    if name != ALL:
        return [read_suite(SUITES[name], root, limit=limit)], []
    present = [suite for suite in SUITES.values() if (root / suite.id).is_dir()]
    absent = [suite.id for suite in SUITES.values() if suite not in present]
    if not present:
        raise ValueError(f"{root} holds no folder of a suite: {', '.join(absent)}")
    if absent:
        say(f"not in {root}, and not scored: {', '.join(absent)}", err=True)
    galleries = [read_gallery(root, gallery) for gallery in GALLERIES if has_captions(root, gallery)]
    return [read_suite(suite, root, limit=limit) for suite in present], galleries


def _progress(title: str) -> Progress:
    """A line that is written over on a terminal, and nothing elsewhere."""
    terminal = sys.stderr.isatty()

    def show(phase: str, done: int, total: int) -> None:
        if terminal:
            typer.echo(f"\r{title}: {phase} {done:,}/{total:,} ", err=True, nl=phase != "images" and done == total)

    return show


def _show(table: SuiteTable, spec: str, title: str) -> None:
    say(f"{title}, {spec}")
    for note in table.notes:
        say(f"  note: {note}")
    head = f"  {'':<34}{'measure':<11}{'n':>7}  {'score':<22}{'chance':>7}  {'blind':<18}{'better, p':<17}published"
    say(head)
    for line in (table.overall, *table.averages, *table.lines):
        say(f"  {_said(line, spec)}".rstrip())


def _said(line: SuiteLine, spec: str) -> str:
    from eqben_builder.suites.published import published_of

    unit = 1 if line.measure == "mean rank" else 100
    score = f"{unit * line.score.value:.1f} ({unit * line.score.low:.1f}, {unit * line.score.high:.1f})"
    blind = max(line.blind.items(), key=lambda item: item[1].value, default=None)
    blind_text = "" if blind is None else f"{100 * blind[1].value:.1f} {blind[0]}"
    better = "" if line.better is None else f"{100 * line.better.value:+.1f}, {line.better.p:.3f}"
    shown = published_of(line.published, spec)
    match_text = "" if shown is None else f"{100 * shown[1]:.1f} {shown[0]}"
    ties = f"; with ties as the authors have them {100 * line.authors:.1f}" if line.authors is not None else ""
    count = f"{line.questions:,}" if line.questions else "average"
    head = f"{line.name:<34}{line.measure:<11}{count:>7}  {score:<22}{unit * line.score.chance:>7.1f}"
    return f"{head}  {blind_text:<18}{better:<17}{match_text}{ties}"


def _show_gallery(gallery: Gallery, lines: Sequence[GalleryLine], spec: str) -> None:
    from eqben_builder.suites.published import published_of

    say(f"{gallery.name}, {spec}: {len(gallery.images):,} images, {len(gallery.captions):,} captions")
    for note in gallery.notes:
        say(f"  note: {note}")
    for line in lines:
        share = line.score
        match = published_of(line.published, spec)
        match_text = "" if match is None else f"  {100 * match[1]:.1f} {match[0]}"
        score = f"{100 * share.value:.1f} ({100 * share.low:.1f}, {100 * share.high:.1f})"
        head = f"  {line.judgements:<10}{line.direction:<15}{line.measure:<12}{score:<22}"
        say(f"{head}chance {100 * share.chance:.1f}{match_text}".rstrip())
