"""The command line. Nothing heavy is imported here: ``gate-runner --help`` must not wait for torch."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gate_data.imports import named
from gate_runner.__about__ import __version__
from gate_runner.commands.choose import choose
from gate_runner.commands.data import check_data, new
from gate_runner.commands.finetune import finetune
from gate_runner.commands.importing import import_
from gate_runner.commands.listing import env
from gate_runner.commands.results import compare, export, forecast, power, report, trade, upload
from gate_runner.commands.run import plan, run
from wary_files.folders import refuse_empty_paths, refuse_over_inputs
from wary_files.stopping import stoppable
from wary_files.text import escape_output


class Guarded(TyperCommand):
    """A command that does not write over a file that it reads."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless one of its outputs is one of its inputs."""
        refuse_over_inputs(ctx.params)
        return super().invoke(ctx)


class Panels(Guarded):
    """A command whose ``--help`` lists its options under headings, what everybody needs first; errors stay one line."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options without a heading, and those of each heading in the order of the options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; one that is a setting without an option of its own is told how to be given."""
        from gate_runner.errors import UsageError
        from gate_runner.settings.record import NAMES

        flags = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        for word in args:
            flag = word.partition("=")[0]
            name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
            if flag.startswith("--") and flag not in flags and name in NAMES:
                raise UsageError(f"{flag} is not an option but a setting: --setting {name}=VALUE")
        return super().parse_args(ctx, args)


def lazy(where: str) -> type[TyperGroup]:
    """A kind of group whose commands are those of a Typer application elsewhere."""

    class Lazy(TyperGroup):
        """Imports the application when a command, or the list of them, is asked for."""

        def _filled(self) -> None:
            if not self.commands:
                from typer.main import get_group

                application = named(where)
                for command in application.registered_commands:
                    command.cls = Guarded
                self.commands = get_group(application).commands

        def list_commands(self, ctx: Any) -> list[str]:
            """Their names."""
            self._filled()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """One of them."""
            self._filled()
            return super().get_command(ctx, cmd_name)

    return Lazy


app = typer.Typer(
    name="gate-runner",
    help="Evaluate, adapt and compare vision encoders; use the libraries behind it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new", cls=Guarded)(new)
app.command("run", cls=Panels)(run)
app.command("plan", cls=Panels)(plan)
app.command("check-data", cls=Guarded)(check_data)
app.command("choose", cls=Guarded)(choose)
app.command("compare", cls=Guarded)(compare)
app.command("finetune", cls=Guarded)(finetune)
app.command("trade", cls=Panels)(trade)
app.command("report", cls=Guarded)(report)
app.command("export", cls=Guarded)(export)
app.command("import", cls=Guarded)(import_)
app.command("upload", cls=Guarded)(upload)
app.command("power", cls=Guarded)(power)
app.command("forecast", cls=Guarded)(forecast)
app.command("env", cls=Guarded)(env)
for name, where, about in (
    ("ls", "listing:app", "List what there is: sets, tasks, settings, …"),
    ("prompts", "libraries:prompts", "Class prompts with and without knowledge."),
    ("eqben", "libraries:eqben", "Build and score pairs that differ in one thing."),
    ("oven", "libraries:oven", "Link names and images to entities."),
    ("audit", "audit:app", "Review labels that may be wrong."),
    ("adapt", "adapt:app", "Adapt an encoder to your own images."),
):
    group = typer.Typer(cls=lazy(f"gate_runner.commands.{where}"), no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name, help=about)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    help="Find the few benchmarks that predict the rest.",
)
def eevee(context: typer.Context) -> None:
    """Pass every argument on."""
    from eevee.cli import main as evolve

    status = evolve(context.args, prog="gate-runner eevee")
    if status:
        raise typer.Exit(status)


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


@cache
def _command() -> Any:
    """Return what typer makes of the application, made once for all calls in a process."""
    from typer.main import get_command

    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that the user can mend is one line, and the exit status 2."""
    escape_output()
    try:
        refuse_empty_paths(arguments)
        with stoppable("gate-runner"):
            _command()(args=None if arguments is None else list(arguments), prog_name="gate-runner")
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("GATE_RUNNER_DEBUG"):
            raise
        from gate_runner.errors import printable
        from wary_files.errors import line_of

        sys.stderr.write(f"gate-runner: {printable(line_of(error))}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("gate-runner: interrupted; the same command continues\n")
        raise SystemExit(130) from None
