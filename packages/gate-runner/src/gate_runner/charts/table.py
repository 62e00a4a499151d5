"""A table of words and figures that HTML, Markdown, CSV and LaTeX are made of."""

from __future__ import annotations

from dataclasses import dataclass

from gate_runner.files import csv_text

LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "×": r"$\times$",
})  # fmt: skip
"""Of `str.translate`: text as LaTeX shows it."""


@dataclass(frozen=True)
class Table:
    """A table of words and figures.

    Args:
        id: for links and file names.
        title: what it shows, with the paper's number.
        heads: of the columns; the first names the rows.
        rows: as many texts each.
        note: what a reader must know.
        words: columns behind the first that hold words.
    """

    id: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: tuple[int, ...] = ()

    def as_markdown(self) -> str:
        """With a heading."""
        lines = [f"\n**{self.title}**\n", f"| {' | '.join(map(_cell, self.heads))} |"]
        lines.append("|" + "|".join("---" if at in (0, *self.words) else "---:" for at in range(len(self.heads))) + "|")
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in self.rows]
        return "\n".join([*lines, *([f"\n{self.note}"] if self.note else []), ""])

    def as_csv(self) -> str:
        """Its rows under one line of heads."""
        return csv_text(["table", *self.heads], ([self.id, *row] for row in self.rows))

    def as_latex(self) -> str:
        """A ``tabular`` with booktabs' rules."""
        columns = "".join("l" if at in (0, *self.words) else "r" for at in range(len(self.heads)))
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines.append(" & ".join(head.translate(LATEX) for head in self.heads) + r" \\")
        lines.append(r"\midrule")
        lines += [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in self.rows]
        return "\n".join([f"% {' '.join(self.title.split())}", *lines, r"\bottomrule", r"\end{tabular}", ""])


def _cell(text: str) -> str:
    """Text in Markdown that neither ends its cell nor begins an element."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
