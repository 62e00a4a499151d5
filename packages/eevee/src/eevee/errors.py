"""The one exception that bad input raises."""

from __future__ import annotations

_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def plain(text: str) -> str:
    """A text whose control characters are escapes: a terminal obeys no name of a file; JSON stays the same JSON."""
    return text.translate(_CONTROLS)


class EeveeError(ValueError):
    """Input that cannot be used; the message prints the offending value and what was expected.

    Example:
        >>> from eevee import load_table
        >>> try:
        ...     load_table("gate").positions(["imagenet"])
        ... except EeveeError as error:
        ...     print(str(error)[:28])
        unknown benchmark 'imagenet'
    """


class MissingExtraError(EeveeError, ImportError):
    """An optional dependency is absent; the message names the extra that installs it.

    Example:
        >>> print(MissingExtraError("matplotlib", "plot"))
        matplotlib is not installed; install it with: pip install 'eevee-search[plot]'
    """

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; install it with: pip install 'eevee-search[{extra}]'")
