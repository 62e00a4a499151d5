"""How docstrings are read for the site: an "Example:" section is a program, and shapes are no cross-references."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(\s*)Example:[ \t]*$", flags=re.MULTILINE)


class Docstrings(griffe.Extension):
    """Google's style knows "Examples:" as the section of doctests; here each has one."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = SECTION.sub(r"\1Examples:", obj.docstring.value)
