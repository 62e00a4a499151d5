"""Measure the sentences of every page, and find words that the field has others for.

    python website/sentences.py [FILE ...]

The mean must be at most 20 words in READMEs and on the start page and 22 elsewhere, and no sentence may have more than
40; that holds for the cells of tables, too, which do not count in the mean. Code, headings, images and what a comment
hides are not sentences; an item of a list ends one, and a link counts as its text. Words are looked for in tables,
headings and the printed help, and in what the packages print: texts of their sources that have a blank and are no
docstrings.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("*.md", "docs/**/*.md", "packages/*/*.md", "packages/*/src/**/*.md")
MEAN, MEAN_ELSEWHERE, MOST = 20, 22, 40
"""Words of a sentence: on average in READMEs and on the start page, on average elsewhere, and at most."""

WORDS = {
    r"beside": "next to, compared with",
    r"anew|made again": "again, rebuilt",
    r"mend(s|ed|ing)?": "fix",
    r"pictures?": "image",
    r"made-up": "synthetic",
    r"processor time|by the clock": "CPU time, wall-clock",
    r"told apart": "distinguished",
    r"held against": "compared with",
    r"(?<![\w.\d/,%])\.\d+": "a zero before the point",
}
"""Expressions and what to write instead."""
PRINTED = "packages/*/src/**/*.py"
UNREAD = (
    *("/stand_ins/", "/micro/", "/scoring/caption_order.py", "/encoders/probe.py", "/tasks/retention.py"),
    "/benchmarks/registry.py",
)
"""Sources whose texts are captions, prompts and templates."""
HELP = "docs/commands.md"
"""The page whose code blocks are the printed help."""

_HIDDEN = re.compile(r"\A---\n.*?\n---\n|^ *(```|~~~).*?^ *\1 *$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"^\s*(#|\||</?\w[^>]*>\s*$|!\[|:::)")
_ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TEST = re.compile(r"\[[^\]]*\]\([^)]*/tests/[^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[A-Z`\"“(\[*0-9])")
_WORD = re.compile(r"\w[\w'’.,/-]*")


def sentences(text: str) -> list[str]:
    r"""Return the sentences of a Markdown page; a piece of code in a line counts as a word.

    Example:
        >>> sentences("# Title\n\nRun `a b`. It\nprints [two words](page.md).\n\n- An item\n- Another")
        ['Run Code.', 'It prints two words.', 'An item', 'Another']
    """
    blocks: list[list[str]] = [[]]
    for line in _HIDDEN.sub("\n", text).splitlines():
        if not line.strip() or _NOT_PROSE.match(line):
            blocks.append([])
        elif _ITEM.match(line):
            blocks.append([_ITEM.sub("", line)])
        else:
            blocks[-1].append(line)
    prose = (_CODE.sub("Code", _LINK.sub(r"\1", " ".join(block))) for block in blocks)
    return [sentence.strip() for block in prose for sentence in _END.split(block) if _WORD.search(sentence)]


def cells(text: str) -> list[str]:
    r"""Return the sentences in the cells of a page's tables; a cell without a point is one.

    Example:
        >>> cells("| a | b |\n|---|---|\n| One. Two `x|y` | [three](page.md) |")
        ['a', 'b', 'One.', 'Two Code', 'three']
    """
    rows = [line for line in _HIDDEN.sub("\n", text).splitlines() if line.lstrip().startswith("|")]
    plain = (_CODE.sub("Code", _LINK.sub(r"\1", _TEST.sub("", row))) for row in rows)
    parts = (cell.strip() for row in plain for cell in row.split("|"))
    return [sentence for cell in parts for sentence in _END.split(cell) if _WORD.search(sentence)]


def findings(name: str, text: str) -> list[str]:
    """Return what is wrong with a page's sentences, a line each.

    Example:
        >>> findings("a.md", "word " * 41 + ".")[0]
        'a.md: 41 words a sentence on average; expected at most 22'
    """
    counts = [(len(_WORD.findall(sentence)), sentence) for sentence in sentences(text)]
    if not counts:
        return [f"{name}: no sentence"]
    mean = sum(count for count, _ in counts) / len(counts)
    most = MEAN if name.endswith(("README.md", "docs/index.md")) else MEAN_ELSEWHERE
    faults = [f"{name}: {mean:.3g} words a sentence on average; expected at most {most}"] if mean > most else []
    return faults + [
        f"{name}: {count} words, expected at most {MOST}: {' '.join(sentence.split()[:6])} …"
        for count, sentence in [*counts, *((len(_WORD.findall(cell)), cell) for cell in cells(text))]
        if count > MOST
    ]


_HELD = re.compile(_TEST.pattern + r"|\]\([^)]*\)|<[^>\n]*>|https?://\S+")


def words(name: str, text: str) -> list[str]:
    r"""Return where a page's prose has one of `WORDS`, a line each.

    Names in code, links' targets and tests' names in links are no prose.

    Example:
        >>> words("a.md", "It prints `beside`.\nA row beside it.")
        ['a.md:2: beside; expected next to, compared with']
    """

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    prose = text if name == HELP else _HIDDEN.sub(blank, text)
    faults = []
    for number, line in enumerate(prose.splitlines(), 1):
        line = _HELD.sub("](", _CODE.sub("", line))
        for expression, better in WORDS.items():
            pattern = expression if expression.startswith("(?<!") else rf"(?<![\w-]){expression}(?![\w-])"
            hit = re.search(pattern, line, re.IGNORECASE)
            if hit and not (name.startswith("docs/tutorials/") and better in ("image", "synthetic")):
                faults.append(f"{name}:{number}: {hit[0]}; expected {better}")
    return faults


def printed(name: str, source: str) -> list[str]:
    r"""Return where a text that a package prints has one of `WORDS`, a line each.

    Example:
        >>> printed("a.py", 'def f():\n    "Start anew."\n    raise ValueError("remove it to start anew")')
        ['a.py:3: anew; expected again, rebuilt']
    """
    tree = ast.parse(source)
    quoted = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quoted:
            text = "" if "{" in node.value and ";" in node.value else node.value  # style sheets
            if " " in text:
                faults += [fault.replace(":1:", f":{node.lineno}:", 1) for fault in words(name, " ".join(text.split()))]
    return faults


def main(names: list[str]) -> int:
    """Print the findings of each page; 1 if there are any."""
    given = bool(names)
    names = names or sorted(str(path.relative_to(ROOT)) for pattern in FILES for path in ROOT.glob(pattern))
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    faults = [fault for name, text in texts.items() for fault in (*findings(name, text), *words(name, text))]
    for path in [] if given else sorted(ROOT.glob(PRINTED)):
        if not any(part in path.as_posix() for part in UNREAD):
            faults += printed(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    print("\n".join(faults) or f"sentences and words of {len(names)} pages: fine")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
