"""Kinds of commands: groups that are made when one of theirs is asked for, and one whose options stand in panels."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from gate_data.imports import named


class Panels(TyperCommand):
    """A command whose ``--help`` shows its options in panels, what everybody needs first; errors stay one line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print it."""
        from typer.rich_utils import rich_format_help

        rich_format_help(obj=self, ctx=ctx, markup_mode="rich")


def lazy(where: str) -> type[TyperGroup]:
    """A kind of group whose commands are those of a Typer application elsewhere."""

    class Lazy(TyperGroup):
        """Imports the application when a command, or the list of them, is asked for."""

        def _filled(self) -> None:
            if not self.commands:
                from typer.main import get_group

                self.commands = get_group(named(where)).commands

        def list_commands(self, ctx: Any) -> list[str]:
            """Their names."""
            self._filled()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """One of them."""
            self._filled()
            return super().get_command(ctx, cmd_name)

    return Lazy
