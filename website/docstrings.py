"""The parser's hook: every docstring of the reference goes through `website.prose`."""

from __future__ import annotations

from typing import Any

import griffe

from website.prose import prepared


class Docstrings(griffe.Extension):
    """Every docstring, before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Prepare it."""
        if obj.docstring is not None:
            fields = frozenset(obj.members) if obj.is_class else frozenset()
            obj.docstring.value = prepared(obj.docstring.value, fields)
