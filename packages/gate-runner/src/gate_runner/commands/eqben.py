"""``gate-runner eqben``: pairs of images and captions that differ in one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def build(
    output: Annotated[Path, typer.Argument(help="Folder to write.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of each kind.")] = 100,
    kind: Annotated[list[str] | None, typer.Option(help="attribute, count or relation; all by default.")] = None,
    size: Annotated[int, typer.Option(min=8, help="Side of the pictures in pixels.")] = 224,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
) -> None:
    """Draw certified pairs of the micro world, with captions and scene graphs."""
    from eqben_builder import write_pairs
    from eqben_builder.micro import KINDS, generator_at, minimal_pair
    from gate_runner.errors import unknown

    for name in kind or ():
        if name not in KINDS:
            raise unknown("kind of pair", name, KINDS)
    kinds = [name for name in KINDS if name in (kind or KINDS)]
    made = (minimal_pair(generator_at(seed, index), kinds[index % len(kinds)]) for index in range(pairs * len(kinds)))
    typer.echo(f"{pairs * len(kinds)} pairs in {write_pairs(made, output, size=size)}")


@app.command()
def score(
    source: Annotated[Path, typer.Argument(help="A pairs.json, in EqBen's flat form.")],
    encoder: Annotated[str, typer.Option(help="Spec of a dual encoder.")] = "micro-clip",
    batch_size: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 128,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
) -> None:
    """Group, text and image score of an encoder, for each kind and in all, with 95 % intervals and chance."""
    import torch
    import torch.nn.functional as F

    from eqben_builder import read_pairs, read_pictures, winoground_scores
    from gate_runner.encoders import load_encoder
    from gate_runner.errors import DataError

    rows = read_pairs(source)
    if not rows:
        raise DataError(f"{source} holds no pairs")
    model = load_encoder(encoder, device=device)
    parts = []
    for start in range(0, len(rows), batch_size):
        some = rows[start : start + batch_size]
        pictures = torch.from_numpy(read_pictures(some)).permute(0, 1, 4, 2, 3).flatten(0, 1)
        images = F.normalize(model.encode_image(pictures), dim=-1).reshape(len(some), 2, -1)
        captions = [caption for row in some for caption in (row.caption0, row.caption1)]
        texts = F.normalize(model.encode_text(captions), dim=-1).reshape(len(some), 2, -1)
        parts.append(torch.einsum("ncd,nid->nci", texts, images).cpu())
    similarities = torch.cat(parts).double().numpy()
    kinds = [str(row.extra.get("kind", "")) for row in rows]
    typer.echo(f"{'kind':<12}{'pairs':>6}  group                  text                   image")
    for name in [*sorted(set(kinds) - {""}), "all"]:
        chosen = [index for index, kind in enumerate(kinds) if name in (kind, "all")]
        found = winoground_scores(similarities[chosen])
        shares = [
            f"{share.value:.3f} ({share.low:.3f}, {share.high:.3f})" for share in (found.group, found.text, found.image)
        ]
        typer.echo(f"{name:<12}{len(chosen):>6}  " + "   ".join(shares))
    typer.echo(f"{'chance':<18}  {1 / 6:.3f}{'':<18}{0.25:.3f}{'':<18}{0.25:.3f}")
