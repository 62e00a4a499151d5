"""`eqben score`: how models do on pairs, suites and galleries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqben_builder.commands.printing import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from eqben_builder.commands.models import Models
    from eqben_builder.formats import PairRow
    from eqben_builder.scoring import Share


def score_with(models: Models) -> Callable[..., None]:
    """The command, whose models are made by these."""

    def score(
        source: Annotated[
            Path,
            typer.Argument(help="Pairs in any form that `convert` reads; or a suite, coco, flickr30k, compositional."),
        ],
        encoder: Annotated[list[str] | None, typer.Option(help="Spec of a dual encoder; may be repeated.")] = None,
        scores: Annotated[
            list[Path] | None, typer.Option(help="Similarities from elsewhere, npz or csv; may be repeated.")
        ] = None,
        fusion: Annotated[
            list[str] | None,
            typer.Option(
                help="hf-itm:FOLDER (BLIP, ViLT, …), or MODULE:FUNCTION that returns a model: images and captions to "
                "scores; may be repeated."
            ),
        ] = None,
        ask: Annotated[
            str | None,
            typer.Option(
                help="Pairs: MODULE:FUNCTION that returns a multimodal language model: images and a prompt to text."
            ),
        ] = None,
        images: Annotated[Path | None, typer.Option(help="Folder of the images, where it is another.")] = None,
        data_root: Annotated[
            Path | None, typer.Option(help="Suites: holds a folder for each, and coco/ and the like.")
        ] = None,
        language_model: Annotated[
            str | None,
            typer.Option(help="Suites: MODULE:FUNCTION that returns a model of captions alone: a text-only baseline."),
        ] = None,
        page: Annotated[
            Path | None, typer.Option(help="Write an HTML page with the table, and of pairs the worst.")
        ] = None,
        save: Annotated[
            Path | None, typer.Option(help="Write the first model's similarities to this npz file.")
        ] = None,
        results: Annotated[
            Path | None, typer.Option(help="Suites: write every line to this .json or .csv file.")
        ] = None,
        scale: Annotated[
            str | None, typer.Option(help="VALSE: what the scores are, probability or calibrated (any scale).")
        ] = None,
        blind: Annotated[bool, typer.Option("--blind", help="Also score a model that reads captions only.")] = False,
        limit: Annotated[int | None, typer.Option(min=1, help="The first so many pairs only.")] = None,
        batch_size: Annotated[int, typer.Option(min=1, help="Pairs at once.")] = 64,
        device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
        seed: Annotated[int, typer.Option(min=0, help="Seed of the intervals.")] = 0,
    ) -> None:
        """Score an encoder on pairs, by aspect.

        Text, image and group score by subset and aspect, with 95 % intervals, ties and chance.

        A suite's name in place of a path reads its original files from --data-root: every subset and published average,
        with what a model reaches that never looks at the images.

        VALSE's rows (one image, a caption, a foil) get its pairwise accuracy, and with --scale its thresholded ones.
        """
        from itertools import islice

        from eqben_builder.commands.suites import is_suite, score_suites
        from eqben_builder.formats import read_any
        from eqben_builder.scoring import fusion_similarities

        if is_suite(str(source), data_root):
            options = {"--scores": scores, "--ask": ask, "--save": save, "--scale": scale}
            for name, value in options.items():
                if value:
                    raise ValueError(f"{name} is for pairs, and {source} is a suite")
            score_suites(
                str(source), encoder or ([] if fusion else models.default()), models, data_root=data_root,
                language_model=language_model, limit=limit, page=page, batch_size=batch_size, device=device, seed=seed,
                fusion=fusion or (), results=results,
            )  # fmt: skip
            return
        if data_root is not None or language_model is not None or results is not None:
            raise ValueError(f"--data-root, --language-model and --results are for suites, and {source} is none")

        if ask is not None and not (encoder or fusion or scores):
            for name, file in (("--save keeps", save), ("--page shows", page)):
                if file is not None:
                    raise ValueError(f"{name} similarities, and --ask gives none: add --encoder, --fusion or --scores")

        def pairs() -> Iterator[PairRow]:
            return islice(read_any(source, images=images), limit)

        rows = [row if page is not None else _without_contents(row) for row in pairs()]
        if not rows:
            raise ValueError(f"{source} holds no pairs")
        # Of pairs whose files hold the images, these are read again, some at a time, for each model.
        stream = pairs if rows[0].image0.path is None and page is None else rows.__iter__
        foils = rows[0].image1 is None
        if foils and page is not None:
            raise ValueError(f"{source} holds rows of one image: the page shows pairs of two")
        encoders = encoder or ([] if scores or fusion or ask else models.default())
        similarities = _similarities(rows, stream, encoders, scores or [], models, batch_size, device)
        for spec in fusion or []:
            similarities[spec] = fusion_similarities(
                stream(), models.fusion(spec, device), batch=max(1, batch_size // 4)
            )
        if ask is not None:
            _show_answers(rows, stream(), ask, models, seed)
        if save is not None:
            import numpy as np

            np.savez(save, scores=next(iter(similarities.values())), ids=np.array([row.id for row in rows]))
        for name, s in similarities.items():
            say(name)
            if foils:
                _show_foils(s, scale, seed)
            else:
                _show_pairs(s, rows, seed)
        if blind:
            _show_blind(rows, seed)
        if page is not None:
            from eqben_builder.pages import write_results_page

            say(
                f"page {write_results_page(rows, similarities, page, title=f'Minimal pairs: {source.name}', seed=seed)}"
            )

    return score


def _without_contents(row: PairRow) -> PairRow:
    """A pair without the images that it holds in memory; those in files of their own stay."""
    from dataclasses import replace

    from eqben_builder.formats import Picture

    if row.image0.content is None:
        return row
    return replace(row, image0=Picture(), image1=None if row.image1 is None else Picture(), mask=None)


def _similarities(
    rows: list[PairRow],
    stream: Callable[[], Iterator[PairRow]],
    encoders: list[str],
    files: list[Path],
    models: Models,
    batch_size: int,
    device: str,
) -> dict[str, NDArray[np.float64]]:
    """Similarities of each model, files first."""
    from eqben_builder.scoring import dual_similarities, read_scores

    ids, foils = [row.id for row in rows], rows[0].image1 is None
    similarities = {}
    for path in files:
        name = path.stem if path.stem not in similarities else str(path)
        similarities[name] = read_scores(path, ids, foils=foils)
    for spec in encoders:
        similarities[spec] = dual_similarities(stream(), models.encoder(spec, device), batch=batch_size)
    return similarities


def _show_pairs(s: NDArray[np.float64], rows: list[PairRow], seed: int) -> None:
    import numpy as np

    from eqben_builder.formats.row import videos_of
    from eqben_builder.scoring import equivariance_scores, score_table

    subsets, aspects = [row.subset for row in rows], [row.aspect for row in rows]
    table = score_table(s, subsets, aspects, clusters=videos_of(rows), seed=seed)
    say(f"{'':<22}{'pairs':>8}  {'text':<22}{'image':<22}{'group':<22}ties")
    for row in table.rows:
        name = f"  {row.name.split('/', 1)[1]}" if row.kind == "aspect" else row.name
        shares = "".join(f"{_said(share):<22}" for share in (row.text, row.image, row.group))
        say(f"{name:<22}{row.pairs:>8}  {shares}{row.ties}")
    macro = table.row("macro")
    chance = "".join(f"{share.chance:<22.3f}" for share in (macro.text, macro.image, macro.group))
    say(f"{'chance':<32}{chance}")
    say(f"average of all columns {_said(table.average)}, chance {table.average.chance:.3f}")
    if np.ptp(s) > 0:
        relative = np.median(equivariance_scores(s, scale="spread"))
        absolute = np.median(equivariance_scores(s))
        say(f"median equivariance score {absolute:.4g}, in units of the scores' spread {relative:.4g} (0 is best)")


def _show_answers(rows: list[PairRow], stream: Iterator[PairRow], spec: str, models: Models, seed: int) -> None:
    """Which caption is whose, in the model's own words: the paper's table 7, by subset."""
    from eqben_builder.scoring import caption_order_scores

    if rows[0].image1 is None:
        raise ValueError("--ask needs pairs of two images")
    shown = ((row.image0.load(), row.image1.load(), row.caption0, row.caption1) for row in stream if row.image1)
    orders = caption_order_scores(shown, models.model(spec), seed=seed)
    say(f"{spec}, asked which caption is whose in both orders of the captions")
    for name, share in (
        ("right, own caption first", orders.first), ("right, own caption second", orders.swapped),
        ("right in both orders", orders.both), ("same answer in both orders", orders.consistent),
    ):  # fmt: skip
        say(f"{name:<28}{_said(share):<22}chance {share.chance:.3f}")
    say(f"{orders.unparsed} of {2 * len(rows)} answers could not be read; {orders.follows_order:.3f} say 1;2")
    say(f"{'':<22}{'pairs':>8}  {'own first':<12}{'own second':<12}both")
    for subset in dict.fromkeys(row.subset for row in rows):
        outcomes = orders.outcomes[[row.subset == subset for row in rows]]
        first, second = outcomes.mean(axis=0).tolist()
        say(f"{subset:<22}{len(outcomes):>8}  {first:<12.3f}{second:<12.3f}{outcomes.all(axis=1).mean():.3f}")


def _show_foils(s: NDArray[np.float64], scale: str | None, seed: int) -> None:
    import numpy as np

    from eqben_builder.scoring import valse_scores
    from eqben_builder.scoring.intervals import share_of

    if scale is not None:
        if scale not in ("probability", "calibrated"):
            raise ValueError(f"--scale {scale!r} is neither 'probability' nor 'calibrated'")
        measures = valse_scores(s, scale="probability" if scale == "probability" else "calibrated", seed=seed)
        for name, share in (
            ("pairwise", measures.pairwise), ("accuracy", measures.accuracy), ("caption p_c", measures.caption),
            ("foil p_f", measures.foil),
        ):  # fmt: skip
            say(f"{name:<14}{_said(share):<22}chance {share.chance:.3f}")
        cuts = ", ".join(f"{cut:.4g}" for cut in measures.thresholds)
        say(f"min(p_c, p_f) {measures.smaller:.3f}; thresholds {cuts}; {len(s)} rows, {measures.ties} ties")
        return
    right = float((s[:, 0] > s[:, 1]).mean())
    draws = np.random.default_rng(seed).binomial(len(s), right, 1000) / len(s)
    say(f"{'pairwise':<14}{_said(share_of(right, draws, 0.5, len(s), 0.025))}  chance 0.500; {len(s)} rows")
    say("accuracy and min(p_c, p_f) need a threshold: give --scale probability or --scale calibrated")


def _show_blind(rows: list[PairRow], seed: int) -> None:
    from eqben_builder.scoring import blind_scores

    control = blind_scores([(row.caption0, row.caption1) for row in rows], seed=seed)
    learnt = f", distinguished {_said(control.learnt)}" if control.learnt is not None else ""
    say(f"blind: caption 0 likelier {_said(control.likelier)}{learnt}; chance 0.500, leak {control.leak:.3f}")


def _said(share: Share) -> str:
    return f"{share.value:.3f} ({share.low:.3f}, {share.high:.3f})"
