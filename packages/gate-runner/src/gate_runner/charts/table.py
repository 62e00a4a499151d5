"""A table of words and figures that HTML, Markdown, CSV and LaTeX are made of."""

from __future__ import annotations

from dataclasses import dataclass

from gate_runner.errors import printable
from gate_runner.files import csv_text

_LATEX: dict[int, str] = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--", "×": r"$\times$",
    "≈": r"$\approx$", "†": r"$\dagger$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
})  # fmt: skip
_MARKDOWN: dict[int, str] = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_[]~|"}, "&": "&amp;", "<": "&lt;"})


@dataclass(frozen=True)
class Table:
    """A table of words and figures."""

    id: str  # for links and file names
    title: str  # what it shows, with the paper's number; may be empty
    heads: tuple[str, ...]  # of the columns; the first names the rows
    rows: tuple[tuple[str, ...], ...]  # as many texts each
    note: str = ""  # what a reader must know
    words: tuple[int, ...] = ()  # columns behind the first that hold words
    best: frozenset[tuple[int, int]] = frozenset()  # row and column of each cell that is set in bold
    figure: str = ""  # inline SVG of the same numbers, above it on a page
    warning: str = ""  # why some of its values must not be compared; part of every form, of CSV as a column

    def as_markdown(self) -> str:
        """Its title, the table, and its note."""
        rows = self._cells(_MARKDOWN, "**{}**")
        rows.insert(1, ["---" if at in (0, *self.words) else "---:" for at in range(len(self.heads))])
        lines = [f"| {' | '.join(row)} |" for row in rows]
        title, note = (f"\n**{self.title}**\n\n" if self.title else ""), (f"\n{self.note}\n" if self.note else "")
        warning = f"\n{self.warning.translate(_MARKDOWN)}\n" if self.warning else ""
        return title + "\n".join(lines) + "\n" + warning + note

    def as_csv(self) -> str:
        """Its rows under one line of heads."""
        heads, end = (["warning"], [self.warning]) if self.warning else ([], [])
        return csv_text(["table", *self.heads, *heads], ([self.id, *row, *end] for row in self.rows))

    def as_latex(self) -> str:
        """A ``tabular`` with booktabs' rules."""
        columns = "".join("l" if at in (0, *self.words) else "r" for at in range(len(self.heads)))
        head, *body = (" & ".join(row) + r" \\" for row in self._cells(_LATEX, r"\textbf{{{}}}"))
        title = [f"% {' '.join(self.title.split())}"] if self.title else []
        begin = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
        warning = []
        if self.warning:
            text = printable(self.warning).translate(_LATEX)
            warning = [rf"\multicolumn{{{len(self.heads)}}}{{p{{\linewidth}}}}{{\footnotesize {text}}} \\"]
        return "\n".join([*title, *begin, *body, r"\bottomrule", *warning, r"\end{tabular}", ""])

    def _cells(self, marks: dict[int, str], bold: str) -> list[list[str]]:
        """Heads and rows as texts in which no name is a command of the form; the best in bold."""
        cells = [
            [printable(" ".join(cell.split())).translate(marks) for cell in row] for row in (self.heads, *self.rows)
        ]
        for row, column in self.best:
            cells[row + 1][column] = bold.format(cells[row + 1][column])
        return cells
