"""The command line. Nothing heavy is imported here: ``gate-runner --help`` must not wait for torch."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gate_runner.__about__ import __version__
from gate_runner.commands import eevee
from gate_runner.commands.check_data import check_data
from gate_runner.commands.choose import choose
from gate_runner.commands.compare import compare
from gate_runner.commands.env import env
from gate_runner.commands.export import export
from gate_runner.commands.finetune import finetune
from gate_runner.commands.forecast import forecast
from gate_runner.commands.lazy import Panels, lazy
from gate_runner.commands.new import new
from gate_runner.commands.plan import plan
from gate_runner.commands.power import power
from gate_runner.commands.report import report
from gate_runner.commands.run import run
from gate_runner.commands.trade import trade

app = typer.Typer(
    name="gate-runner",
    help="Score a vision encoder on GATE's tasks, and use the seven libraries behind it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new")(new)
app.command("run", cls=Panels)(run)
app.command("plan")(plan)
app.command("check-data")(check_data)
app.command("choose")(choose)
app.command("compare")(compare)
app.command("finetune")(finetune)
app.command("trade")(trade)
app.command("report")(report)
app.command("forecast")(forecast)
app.command("predict", hidden=True, deprecated=True)(forecast)  # its name until 0.2
app.command("export")(export)
app.command("power")(power)
app.command("env")(env)
for name, where, about in (
    ("ls", "listing", "List packs, benchmarks, tasks, metrics, encoders or settings."),
    ("prompts", "prompts", "Class prompts with and without external knowledge."),
    ("eqben", "eqben", "Pairs of images and captions that differ in one thing: build, score."),
    ("oven", "oven", "Link names, images and questions to the entities of a knowledge base."),
    ("adapt", "adapt", "Adapt an encoder to your own images: zeroshot, probe, finetune, predict, embed, export."),
):
    group = typer.Typer(cls=lazy(f"gate_runner.commands.{where}:app"), no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name, help=about)
app.command("eevee", context_settings=eevee.CONTEXT, help=eevee.HELP)(eevee.eevee)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"gate-runner {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and details.")] = False,
) -> None:
    if debug:
        os.environ["GATE_RUNNER_DEBUG"] = "1"
        logging.basicConfig(level=logging.DEBUG, format="%(name)s: %(message)s")
        for noisy in ("PIL", "matplotlib", "urllib3"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that the user can mend is one line, and the exit status 2."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="gate-runner")
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("GATE_RUNNER_DEBUG"):
            raise
        from gate_runner.errors import printable

        line = printable(" ".join(str(error).split())) or type(error).__name__
        sys.stderr.write(f"gate-runner: {line}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("gate-runner: interrupted; the same command continues\n")
        raise SystemExit(130) from None
