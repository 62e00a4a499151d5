"""The results page: scores with their intervals and chance, the distribution of figure 6, and the worst pairs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eqben_builder.pages.charts import Bar, Curve, bar_chart, density_chart, legend
from eqben_builder.pages.html import embedded, page
from eqben_builder.scoring import equivariance_scores, score_table

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow
    from eqben_builder.scoring import ScoreTable, Share

_THUMBNAIL = 240


class Model(NamedTuple):
    """A model's similarities and what they give."""

    name: str
    scores: NDArray[np.float64]
    table: ScoreTable


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
        rows: The pairs, of two pictures each.
        scores: Name of a model -> [n, 2, 2] with `scores[k, caption, image]`; the first model's worst pairs are shown.
        path: The file to write.
        title: Of the page.
        worst: Pairs to show, at least 0: those with the smallest margin min(s00, s11) - max(s01, s10).
        seed: Of the intervals.

    Returns:
        The path. Everything is within the file; names are escaped.

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
    subsets, aspects = [row.subset for row in rows], [row.aspect for row in rows]
    models = [
        Model(
            name,
            np.asarray(s, dtype=np.float64),
            score_table(s, subsets, aspects, clusters=videos_of(rows), seed=seed),
        )
        for name, s in scores.items()
    ]
    names = [model.name for model in models]
    counted = f"{len(rows):,} pairs, {len(models)} {'model' if len(models) == 1 else 'models'}."
    intro = (
        f"{counted} Intervals are 95 % bootstrap intervals over pairs, those of one video taken together. Chance is "
        "what four independent random scores get: text 25 %, image 25 %, group 16.7 %. A tie counts as wrong. "
        "<b>macro</b> is the mean of the subsets, <b>all</b> pools the pairs."
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{intro}</p>',
        *(_table(model) for model in models),
        "<h2>Group score by subset and aspect</h2>",
        legend(names),
        bar_chart(_bars(models), names, "Group score"),
        '<p class="quiet">Dashed: chance. Lines: intervals.</p>',
        "<h2>Equivariance score</h2>",
        _distribution(models),
    ]
    if worst > 0 and rows:
        body += [f"<h2>Pairs to look at: the worst of {escape(names[0])}</h2>", _worst(rows, models[0], worst)]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(title, "\n".join(body)), encoding="utf-8")
    return target


def videos_of(rows: Sequence[PairRow]) -> list[str]:
    """The video of each pair, so that pairs of one video are resampled together; a pair of none is on its own."""
    names = []
    for row in rows:
        source = row.extra.get("source")
        video = source.get("video") if isinstance(source, Mapping) else None
        names.append(f"{row.subset} video {video}" if video else f"{row.subset} pair {row.id}")
    return names


def _cell(share: Share) -> str:
    return f"<td>{100 * share.value:.1f}<small>{100 * share.low:.1f} to {100 * share.high:.1f}</small></td>"


def _table(model: Model) -> str:
    average = model.table.average
    lines = [
        f'<tr class="{row.kind}"><td>{escape(row.name.split("/", 1)[-1] if row.kind == "aspect" else row.name)}</td>'
        f"<td>{row.pairs:,}</td>{_cell(row.text)}{_cell(row.image)}{_cell(row.group)}<td>{row.ties:,}</td></tr>"
        for row in model.table.rows
    ]
    return (
        f"<h3>{escape(model.name)}</h3><p>Average of all subsets and metrics: <b>{100 * average.value:.1f}</b> "
        f'<span class="quiet">({100 * average.low:.1f} to {100 * average.high:.1f}; chance '
        f"{100 * average.chance:.1f})</span></p>"
        '<div class="wide"><table><thead><tr><th>subset</th><th>pairs</th><th>text %</th><th>image %</th>'
        f"<th>group %</th><th>ties</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _bars(models: Sequence[Model]) -> list[Bar]:
    rows = [row.name for row in models[0].table.rows]
    return [Bar(name, tuple(model.table.row(name).group for model in models)) for name in rows]


def _distribution(models: Sequence[Model]) -> str:
    curves = [Curve(model.name, equivariance_scores(model.scores, scale=_scale(model))) for model in models]
    groups = [
        f"{model.name}: median {np.median(curve.values):.3g}, group {100 * model.table.row('macro').group.value:.1f} %"
        for model, curve in zip(models, curves, strict=True)
    ]
    note = (
        "|(s00 - s10) - (s11 - s01)| + |(s00 - s01) - (s11 - s10)| of each pair, in units of the spread of the model's "
        "scores: 0 is equivariant, and a tighter curve is better. Vertical lines are medians."
    )
    return (
        f"{legend(groups) or f'<p>{escape(groups[0])}</p>'}{density_chart(curves, 'equivariance score')}"
        f'<p class="quiet">{escape(note)}</p>'
    )


def _scale(model: Model) -> Literal["given", "spread"]:
    # A constant model has no spread to divide by: its scores are all 0 on any scale.
    return "spread" if np.ptp(model.scores) > 0 else "given"


def margins(scores: Float64[np.ndarray, "n 2 2"]) -> Float64[np.ndarray, " n"]:
    """How clearly each pair is right: min(s00, s11) - max(s01, s10), above 0 where the group score counts it."""
    own = np.minimum(scores[:, 0, 0], scores[:, 1, 1])
    result: NDArray[np.float64] = own - np.maximum(scores[:, 0, 1], scores[:, 1, 0])
    return result


def _worst(rows: Sequence[PairRow], model: Model, count: int) -> str:
    order = np.argsort(margins(model.scores), kind="stable")[:count]
    cards = []
    for k in order.tolist():
        row, s = rows[k], model.scores[k]
        pictures = "".join(
            f'<img src="{embedded(picture, _THUMBNAIL)}" alt="picture {side} of pair {escape(row.id)}">'
            for side, picture in enumerate(row.pictures())
        )
        lines = "".join(
            f"<tr><td>caption {c}</td><td{_own(c == 0)}>{s[c, 0]:.4g}</td><td{_own(c == 1)}>{s[c, 1]:.4g}</td></tr>"
            for c in (0, 1)
        )
        place = "/".join(part for part in (row.subset, row.aspect) if part)
        cards.append(
            f'<div class="card"><div class="pictures">{pictures}</div><p>0: {escape(row.caption0)}<br>'
            f"1: {escape(row.caption1)}</p><table><thead><tr><th></th><th>picture 0</th><th>picture 1</th></tr></thead>"
            f'<tbody>{lines}</tbody></table><p class="quiet">{escape(row.id)}, {escape(place)}</p></div>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _own(own: bool) -> str:
    return ' class="own"' if own else ""
