"""Measure the sentences of the README and the start page: `python website/sentences.py [FILE ...]`.

The mean must be at most 20 words, and no sentence may have more than 40. Code, tables, headings, images and what a
comment hides are not sentences; an item of a list ends one, and a link counts as its text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("README.md", "docs/index.md")
MEAN, MOST = 20, 40
"""Words of a sentence, on average and at most."""

_HIDDEN = re.compile(r"\A---\n.*?\n---\n|^ *(```|~~~).*?^ *\1 *$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"^\s*(#|\||</?\w[^>]*>\s*$|!\[|:::)")
_ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[A-Z`\"“(\[*0-9])")
_WORD = re.compile(r"\w[\w'’.,/-]*")


def sentences(text: str) -> list[str]:
    r"""Return the sentences of a Markdown page; a piece of code in a line counts as a word.

    Example:
        >>> sentences("# Title\n\nRun `a b`. It\nprints [two words](page.md).\n\n- An item\n- Another")
        ['Run code.', 'It prints two words.', 'An item', 'Another']
    """
    blocks: list[list[str]] = [[]]
    for line in _HIDDEN.sub("\n", text).splitlines():
        if not line.strip() or _NOT_PROSE.match(line):
            blocks.append([])
        elif _ITEM.match(line):
            blocks.append([_ITEM.sub("", line)])
        else:
            blocks[-1].append(line)
    prose = (_CODE.sub("code", _LINK.sub(r"\1", " ".join(block))) for block in blocks)
    return [sentence.strip() for block in prose for sentence in _END.split(block) if _WORD.search(sentence)]


def findings(name: str, text: str) -> list[str]:
    """Return what is wrong with a page's sentences, a line each.

    Example:
        >>> findings("a.md", "word " * 41 + ".")[0]
        'a.md: 41 words a sentence on average; expected at most 20'
    """
    counts = [(len(_WORD.findall(sentence)), sentence) for sentence in sentences(text)]
    if not counts:
        return [f"{name}: no sentence"]
    mean = sum(count for count, _ in counts) / len(counts)
    faults = [f"{name}: {mean:.3g} words a sentence on average; expected at most {MEAN}"] if mean > MEAN else []
    return faults + [
        f"{name}: {count} words, expected at most {MOST}: {' '.join(sentence.split()[:6])} …"
        for count, sentence in counts
        if count > MOST
    ]


def main(names: list[str]) -> int:
    """Print the findings of each page; 1 if there are any."""
    faults = [fault for name in names or FILES for fault in findings(name, (ROOT / name).read_text(encoding="utf-8"))]
    print("\n".join(faults) or f"sentences of {len(names or FILES)} pages: fine")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
