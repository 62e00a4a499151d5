"""Pages of results: of pairs, with the worst of them, and of suites, with text-only baselines and published scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.formats.row import videos_of
from eqben_builder.pages.densities import density_charts
from eqben_builder.pages.rendering import write_page
from eqben_builder.scoring import equivariance_scores, score_table
from eqben_builder.suites.published import published_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxtyping import Float64
    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow
    from eqben_builder.suites import Gallery, SuiteTable
    from eqben_builder.suites.galleries import GalleryLine
    from eqben_builder.suites.ranked import Ranking


def write_results_page(
    rows: Sequence[PairRow],
    scores: Mapping[str, NDArray[np.float64]],
    path: str | os.PathLike[str],
    *,
    title: str = "Minimal pairs",
    worst: int = 12,
    seed: int = 0,
) -> Path:
    """Write one static HTML page about one or several models on the same pairs.

    Args:
        rows: The pairs, of two images each.
        scores: Name of a model -> [n, 2, 2] with `scores[k, caption, image]`; the first model's worst pairs are shown.
        path: The file to write.
        title: Of the page.
        worst: Pairs to show, at least 0: those with the smallest margin min(s00, s11) - max(s01, s10).
        seed: Of the intervals.

    Returns:
        The path. Everything is within the file; names are escaped. Beside tables and the worst pairs it shows the
        distribution of the equivariance score by subset, the models over one another, as figures 6 and 13 do.

    Raises:
        ValueError: No models; what `score_table` refuses.

    Example:
        >>> import tempfile
        >>> from eqben_builder.formats import PairRow, Picture, encode_png
        >>> white, black = (Picture(content=encode_png(np.full((2, 2, 3), v, np.uint8))) for v in (255, 0))
        >>> row = PairRow("a", "micro", "", white, black, "a white square", "a black square")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_results_page([row], {"mine": np.eye(2)[None]}, f"{folder}/results.html")
        ...     "<td>100.0<small>" in path.read_text()
        True
    """
    if not scores:
        raise ValueError("no scores to show")
    subsets, aspects, videos = [row.subset for row in rows], [row.aspect for row in rows], videos_of(rows)
    equivariance = {name: _equivariance(np.asarray(s, dtype=np.float64)) for name, s in scores.items()}
    models = [
        (name, score_table(s, subsets, aspects, clusters=videos, seed=seed), float(np.median(equivariance[name])))
        for name, s in scores.items()
    ]
    densities = density_charts(equivariance, subsets, "equivariance score")
    first = np.asarray(next(iter(scores.values())), dtype=np.float64)
    order = np.argsort(margins(first), kind="stable")[: max(worst, 0)].tolist()
    shown = [(rows[k], first[k].tolist()) for k in order]
    return write_page(
        path, "results.html", title=title, pairs=len(rows), models=models, worst=shown, densities=densities
    )


def _equivariance(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    # A constant model has no spread to divide by: its scores are all 0 on any scale.
    return equivariance_scores(scores, scale="spread" if np.ptp(scores) > 0 else "given")


def margins(scores: Float64[np.ndarray, "n 2 2"]) -> Float64[np.ndarray, " n"]:
    """How clearly each pair is right: min(s00, s11) - max(s01, s10), above 0 where the group score counts it."""
    own = np.minimum(scores[:, 0, 0], scores[:, 1, 1])
    result: NDArray[np.float64] = own - np.maximum(scores[:, 0, 1], scores[:, 1, 0])
    return result


def write_suites_page(
    tables: Mapping[str, Sequence[SuiteTable]],
    path: str | os.PathLike[str],
    *,
    galleries: Mapping[str, Sequence[tuple[Gallery, Sequence[GalleryLine]]]] | None = None,
    retrieved: Sequence[tuple[Gallery, Mapping[str, Sequence[Ranking]]]] = (),
    title: str = "Compositional suites",
) -> Path:
    """Write one static HTML page of suites: all subsets and averages, chance, text-only baselines, published scores.

    Args:
        tables: Name of a model -> its tables, one a suite.
        path: The file to write.
        galleries: Name of a model -> the galleries that it searched with their lines; shown after its suites.
        retrieved: Galleries, each with name of a model -> what it retrieves for some captions, the same of all models.
        title: Of the page.

    Returns:
        The path. Everything is within the file; names are escaped.

    Raises:
        ValueError: No scores; rankings of other captions by one model than by another.

    Example:
        >>> import tempfile
        >>> from eqben_builder.scoring import Share
        >>> from eqben_builder.suites import SuiteLine, SuiteTable
        >>> line = SuiteLine("all questions", "right", 1, 0, Share(0, 0, 0, 0), None, {}, None, {})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_suites_page({"a < b": [SuiteTable("aro", line, (), (), (), {})]}, f"{folder}/page.html")
        ...     "a &lt; b" in path.read_text()
        True
    """
    galleries = galleries or {}
    if not tables and not galleries:
        raise ValueError("no scores to show")
    models = {name: (tables.get(name, ()), galleries.get(name, ())) for name in dict.fromkeys([*tables, *galleries])}
    for gallery, by_model in retrieved:
        queries = {tuple(ranking.caption for ranking in rows) for rows in by_model.values()}
        if len(queries) != 1:
            raise ValueError(f"{gallery.name}: the models' rankings are of other captions")
    sequences = [(gallery, _by_caption(by_model)) for gallery, by_model in retrieved]
    return write_page(path, "suites.html", title=title, models=models, published_of=published_of, sequences=sequences)


def _by_caption(by_model: Mapping[str, Sequence[Ranking]]) -> list[tuple[int, list[tuple[str, Ranking]]]]:
    """What each model retrieves, caption by caption."""
    captions = [ranking.caption for ranking in next(iter(by_model.values()))]
    return [(caption, [(name, rows[k]) for name, rows in by_model.items()]) for k, caption in enumerate(captions)]
