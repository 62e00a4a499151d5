"""`eqben score SUITE`: compositional suites from their original files, and retrieval galleries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from eqben_builder.commands.printing import say

if TYPE_CHECKING:
    from eqben_builder.commands.models import Models
    from eqben_builder.progress import Progress
    from eqben_builder.scoring import DualEncoder
    from eqben_builder.suites import GalleryTable, SuiteData, SuiteLine, SuiteTable

GALLERIES = ("coco", "flickr30k", "cola-objects")
ALL = "compositional"
_COLA = ("cola/data", "cola", "data", "")


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
) -> None:
    """Score one suite, or all that are there, with each encoder, and print every subset and average."""
    from eqben_builder.pages import write_suites_page
    from eqben_builder.suites import ObjectGallery, encode_gallery, gallery_table, object_table, suite_table

    suites, galleries = _read(name, data_root, limit), _galleries(name, data_root)
    scorers = {} if language_model is None else {language_model: models.model(language_model)}
    tables: dict[str, list[SuiteTable]] = {}
    searched: dict[str, list[GalleryTable]] = {}
    for spec in encoders:
        encoder = models.encoder(spec, device)
        for data in suites:
            similar = _similar(data, encoder, batch_size)
            table = suite_table(data, similar, scorers=scorers, seed=seed)
            tables.setdefault(spec, []).append(table)
            _show(table, spec, data.suite.title)
        for gallery in galleries:
            features = encode_gallery(gallery, encoder, batch=batch_size, progress=_progress(gallery.name))
            table_of = object_table if isinstance(gallery, ObjectGallery) else gallery_table
            searched_now = table_of(gallery, *features, seed=seed)
            searched.setdefault(spec, []).append(searched_now)
            _show_gallery(searched_now, spec)
    if page is not None:
        say(f"page {write_suites_page(tables, page, galleries=searched)}")


def _read(name: str, root: Path | None, limit: int | None) -> list[SuiteData]:
    from eqben_builder.suites import SUITES, micro_suite, read_suite

    if name == f"micro/{ALL}":
        return [micro_suite(pairs=max(1, (limit or 900) // 15))]
    if name in GALLERIES:
        return []
    if root is None:
        raise ValueError(f"{name} reads original files: give --data-root ({_expected(name)})")
    if name != ALL:
        return [read_suite(SUITES[name], root, limit=limit)]
    present = [suite for suite in SUITES.values() if (root / suite.id).is_dir()]
    absent = [suite.id for suite in SUITES.values() if suite not in present]
    if not present:
        raise ValueError(f"{root} holds no folder of a suite: {', '.join(absent)}")
    if absent:
        say(f"not in {root}, and not scored: {', '.join(absent)}", err=True)
    return [read_suite(suite, root, limit=limit) for suite in present]


def _expected(name: str) -> str:
    from eqben_builder.suites import SUITES

    return SUITES[name].expected if name in SUITES else f"a folder for each of {', '.join(SUITES)}"


def _galleries(name: str, root: Path | None) -> list[Any]:
    from eqben_builder.suites import micro_gallery

    if name == f"micro/{ALL}":
        return [micro_gallery()]
    if name in GALLERIES:
        if root is None:
            raise ValueError(f"{name} reads original files: give --data-root (its annotations and their pictures)")
        return _gallery(name, root, every=False)
    if name != ALL or root is None:
        return []
    return [gallery for kind in GALLERIES for gallery in _gallery(kind, root, every=True)]


def _gallery(name: str, root: Path, *, every: bool) -> list[Any]:
    """Galleries of a name; among all that are there none where its own folder or files are missing."""
    from eqben_builder.suites import COLA, read_gallery, read_objects

    if name in ("coco", "flickr30k"):
        return [] if every and not (root / name).is_dir() else [read_gallery(root, name)]
    parts = [
        part
        for part in COLA
        if any((root / folder / f"COLA_singleobjects_benchmark_{part}.json").is_file() for folder in _COLA)
    ]
    if not parts and not every:
        raise ValueError(f"{root} holds none of Cola's COLA_singleobjects_benchmark_{{{','.join(COLA)}}}.json")
    return [read_objects(root, part) for part in parts]


def _similar(data: SuiteData, encoder: DualEncoder, batch: int) -> Any:
    from eqben_builder.suites import encode_rows, similarities

    return similarities(data.rows, encode_rows(data.rows, encoder, batch=batch, progress=_progress(data.suite.title)))


def _progress(title: str) -> Progress:
    """A line that is written over on a terminal, and nothing elsewhere."""
    terminal = sys.stderr.isatty()

    def show(phase: str, done: int, total: int) -> None:
        if terminal:
            typer.echo(f"\r{title}: {phase} {done:,}/{total:,} ", err=True, nl=phase == "captions" and done == total)

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


def _show_gallery(table: GalleryTable, spec: str) -> None:
    from eqben_builder.suites.published import published_of

    say(f"{table.gallery}, {spec}: {table.images:,} pictures, {table.captions:,} captions")
    for note in table.notes:
        say(f"  note: {note}")
    for line in table.lines:
        share = line.score
        match = published_of(line.published, spec)
        match_text = "" if match is None else f"  {100 * match[1]:.1f} {match[0]}"
        score = f"{100 * share.value:.1f} ({100 * share.low:.1f}, {100 * share.high:.1f})"
        head = f"  {line.judgements:<16}{line.direction:<15}{line.measure:<12}{score:<22}"
        say(f"{head}chance {100 * share.chance:.1f}{match_text}".rstrip())
