"""The command line: `eqben build|verify|score|ground|review|apply-votes|convert`; its help imports nothing heavy."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from eqben_builder.commands.models import Models
from wary_files.errors import line_of
from wary_files.folders import refuse_empty_paths, refuse_over_inputs, require_ending, require_place
from wary_files.stopping import stoppable
from wary_files.text import escape_output, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

ABOUT = "Build and score pairs of images and captions that differ in one thing."


def make_app(models: Models | None = None) -> typer.Typer:
    """The Typer application.

    Args:
        models: How `score` comes by encoders and models; by default from `MODULE:FUNCTION`.

    Example:
        >>> [command.name or command.callback.__name__ for command in make_app().registered_commands]
        ['build', 'verify', 'score', 'ground', 'review', 'apply-votes', 'convert']
    """
    try:
        import typer
        from typer.core import TyperCommand
    except ImportError as error:
        raise ImportError("the command line needs typer: pip install 'eqben-builder[cli]'") from error

    from eqben_builder.commands.building import apply_votes, build, convert, review, verify
    from eqben_builder.commands.grounding import ground_with
    from eqben_builder.commands.scoring import score_with

    app = typer.Typer(
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    class Guarded(TyperCommand):
        """A command that does not write over a file that it reads, nor a page over a file of another kind."""

        def invoke(self, ctx: Any) -> Any:
            refuse_over_inputs(ctx.params)
            for name in ("page", "save"):
                if ctx.params.get(name):
                    require_place(name, ctx.params[name])
            if ctx.params.get("page"):
                require_ending("page", ctx.params["page"], ".html", ".htm")
            if ctx.params.get("save"):
                require_ending("save", ctx.params["save"], ".npz")
            return super().invoke(ctx)

    app.command(cls=Guarded)(build)
    app.command(cls=Guarded)(verify)
    app.command("score", cls=Guarded)(score_with(models or Models()))
    app.command("ground", cls=Guarded)(ground_with(models or Models()))
    app.command(cls=Guarded)(review)
    app.command("apply-votes", cls=Guarded)(apply_votes)
    app.command(cls=Guarded)(convert)
    return app


def main(arguments: Sequence[str] | None = None, models: Models | None = None) -> None:
    """Run a command; an error that the user can mend is one line, and the exit status 2."""
    escape_output()
    try:
        refuse_empty_paths(arguments)
        with stoppable("eqben"):
            make_app(models)(args=None if arguments is None else list(arguments), prog_name="eqben")
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("EQBEN_DEBUG"):
            raise
        sys.stderr.write(f"eqben: {printable(line_of(error))}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("eqben: interrupted; the same command continues\n")
        raise SystemExit(130) from None


def console() -> None:
    """The entry point of the console script."""
    main()
