"""Lines on a terminal, which obeys no name that comes out of a file."""

from __future__ import annotations

_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def plain(text: str) -> str:
    """The text with its control characters as escapes; JSON stays the same JSON."""
    return text.translate(_CONTROLS)


def echo(line: str, *, err: bool = False) -> None:
    """Print a line without control characters."""
    import typer  # which may be missing where an error says so

    typer.echo(plain(line), err=err)
