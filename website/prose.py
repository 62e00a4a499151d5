"""What the site makes of a docstring: it is plain text, which Markdown shall show as it stands."""

from __future__ import annotations

import re

OTHERS = ("Formula", "Numerics", "Shapes", "Source")
"""Sections besides Google's; they become boxes."""
TITLE = re.compile(rf"^(?P<title>Args|Attributes|Example|Raises|Returns|Warns|Yields|{'|'.join(OTHERS)}):(?P<rest>.*)$")
ITEM = re.compile(r"^( {4}\*{0,2}\w[^:`]*:)( .*)$")
"""First line of what an argument, attribute or error is: the name is looked up, and must stay as it is."""
LISTED = ("Args", "Attributes", "Raises", "Warns")
FIELD = re.compile(r"^(\w+(?:, \w+)*): ")
FIGURE = re.compile(r"(?<![\w./-])[-+±−]?\d[\d.,–]*(?:e-?\d+)?(?![\w/-]) ?")
"""A number on its own: not one in a name, a path or a version behind a word."""
CODE = re.compile(r"(`+[^`]*`+)")


def as_it_stands(text: str) -> str:
    """Text of which Markdown makes nothing but code between backticks."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"([*_])", r"\\\1", part.replace("<", "&lt;")) for part in parts[::2]]
    return re.sub(r"^(\s*)>", r"\1&gt;", "".join(parts))


def prepared(text: str, fields: frozenset[str] = frozenset()) -> str:
    """A docstring as the parser of Google's style wants it.

    Args:
        text: without the indentation of its code.
        fields: of the class that it describes; a paragraph that describes them line by line becomes a section.
    """
    lines, section = [], ""
    for line in _with_attributes(text.split("\n"), fields):
        title = TITLE.match(line)
        if title:
            section, remainder = title["title"], title["rest"].strip()
            lines.append("Examples:" if section == "Example" else f"{section}:")
            if remainder:  # a short section on the line of its title
                lines.append(f"    {as_it_stands(remainder)}")
            continue
        if line and not line.startswith(" "):
            section = ""
        if section == "Example":
            lines.append(line)
        elif section in LISTED and (item := ITEM.match(line)):
            lines.append(f"{item[1]} {as_it_stands(item[2].strip())}")
        elif line and lines[-1:] in (["Returns:"], ["Yields:"]):
            # What stands before its first colon would be taken for a type; the type is the function's own.
            lines.append(f"    : {as_it_stands(line.strip())}")
        else:
            lines.append(as_it_stands(line))
    return "\n".join(lines)


def _with_attributes(lines: list[str], fields: frozenset[str]) -> list[str]:
    """The lines, a paragraph on fields as a section of attributes."""
    lines_out: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        field = FIELD.match(line)
        starts = number == 0 or not lines[number - 1]
        if field and starts and set(field[1].split(", ")) <= fields:
            lines_out.append("Attributes:")
            inside = True
        inside = inside and bool(line)
        if inside and line.startswith(" "):
            lines_out.append(f"        {line.strip()}")
        else:
            lines_out.append(f"    {line}" if inside else line)
    return lines_out


def without_figures(text: str) -> str:
    """Return a text of the search's index without its numbers, which nobody searches for."""
    return FIGURE.sub("", text)
