"""`eqben ground`: boundaries of Kinetics-GEB+ found in their videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqben_builder.commands.printing import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from eqben_builder.commands.models import Models


def ground_with(models: Models) -> Callable[..., None]:
    """The command, whose encoders are made by these."""

    def ground(
        annotations: Annotated[Path, typer.Argument(help="Kinetics-GEB+'s JSON file of boundaries.")],
        videos: Annotated[Path, typer.Argument(help="Folder of Kinetics clips.")],
        encoder: Annotated[list[str] | None, typer.Option(help="Spec of a dual encoder; may be repeated.")] = None,
        rate: Annotated[float, typer.Option(help="Frames a second that are looked at.")] = 5.0,
        device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    ) -> None:
        """Find video boundaries by captions alone.

        Prints the share of boundaries that lie within each of the paper's eight thresholds (table 12), and their mean.
        """
        from eqben_builder.video.grounding import ground_gebc

        for spec in encoder or models.default():
            report = ground_gebc(annotations, videos, models.encoder(spec, device), rate=rate)
            say(f"{spec}: {len(report.true)} boundaries, {report.missing} without a video that can be decoded")
            say("within " + "".join(f"{f'{seconds:g} s':<8}" for seconds in report.accuracy) + "mean")
            say(f"{'':<7}" + "".join(f"{share:<8.3f}" for share in report.accuracy.values()) + f"{report.average:.3f}")

    return ground
