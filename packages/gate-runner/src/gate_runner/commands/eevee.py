"""``gate-runner eevee``: the ``eevee`` command as it is."""

from __future__ import annotations

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
HELP = "Which few benchmarks predict the rest: check, select, score, predict, pareto, report."


def eevee(context: typer.Context) -> None:
    """Pass every argument on."""
    from eevee.cli import main

    status = main(context.args, prog="gate-runner eevee")
    if status:
        raise typer.Exit(status)
