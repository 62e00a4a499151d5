"""The command line: `oven build|link|search|train|eval|…`. Neither torch nor FAISS is imported for its help."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from oven_retrieval.commands.encoders import Encoders
from wary_files.folders import refuse_empty_paths, refuse_over_inputs
from wary_files.stopping import stoppable
from wary_files.text import escape_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

ABOUT = "Link names, images and questions to the entities of a knowledge base."


def make_app(encoders: Encoders | None = None) -> typer.Typer:
    """The Typer application.

    Args:
        encoders: How the commands come by encoders; by default from `MODULE:FUNCTION`.

    Example:
        >>> [command.name or command.callback.__name__ for command in make_app().registered_commands][:3]
        ['build', 'add', 'remove']
    """
    try:
        import typer
        from typer.core import TyperCommand
    except ImportError as error:
        raise ImportError("the command line needs typer: pip install 'oven-retrieval[cli]'") from error

    from oven_retrieval.commands.annotate import agree, annotate
    from oven_retrieval.commands.build import build
    from oven_retrieval.commands.curves import history, sizes
    from oven_retrieval.commands.edit import add, remove, update, verify
    from oven_retrieval.commands.evaluate import evaluate
    from oven_retrieval.commands.link import calibrate, link
    from oven_retrieval.commands.make import make
    from oven_retrieval.commands.search import search
    from oven_retrieval.commands.train import answer, generate, train, train_generator

    app = typer.Typer(
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    class Guarded(TyperCommand):
        """A command that does not write over a file that it reads."""

        def invoke(self, ctx: Any) -> Any:
            refuse_over_inputs(ctx.params)
            return super().invoke(ctx)

    own = {"obj": encoders or Encoders()}
    commands = (
        build, add, remove, update, verify, link, calibrate, search, make, train, answer, generate, sizes, history,
        annotate, agree,
    )  # fmt: skip
    for command in commands:
        app.command(context_settings=own, cls=Guarded)(command)
    app.command("train-generator", context_settings=own, cls=Guarded)(train_generator)
    app.command("eval", context_settings=own, cls=Guarded)(evaluate)
    return app


def main(arguments: Sequence[str] | None = None, encoders: Encoders | None = None) -> None:
    """Run a command; an error that the user can mend is one line, and the exit status 2."""
    escape_output()
    try:
        refuse_empty_paths(arguments)
        with stoppable("oven"):
            make_app(encoders)(args=None if arguments is None else list(arguments), prog_name="oven")
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("OVEN_DEBUG"):
            raise
        from wary_files.errors import line_of
        from wary_files.text import printable_json

        sys.stderr.write(f"oven: {printable_json(line_of(error))}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("oven: interrupted; the same command continues\n")
        raise SystemExit(130) from None


def console() -> None:
    """The entry point of the console script."""
    main()
