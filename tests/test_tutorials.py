"""The tutorials and the pages on adding things, run from their text as it stands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website.tutorials import pages, start_page  # noqa: E402 - found by the line above


@pytest.mark.again
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path) -> None:
    done = start_page(page)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_the_readme_shows_what_the_start_page_ran() -> None:
    """The start page runs as a tutorial does; the README has its example word for word."""
    sections = [
        (ROOT / name)
        .read_text(encoding="utf-8")
        .split("## Compare two encoders in Python")[1]
        .split("\n## Packages")[0]
        for name in ("README.md", "docs/index.md")
    ]
    assert "## The same as commands" in sections[0]
    assert sections[0] == sections[1].replace("](", "](docs/")


def test_there_are_eight_tutorials() -> None:
    assert len([page for page in pages() if page.parent.name == "tutorials" and page.stem != "index"]) >= 8


def test_a_page_that_says_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert start_page(page).returncode == 1
    page.write_text(page.read_text().replace("3", "2"))
    assert start_page(page).returncode == 0


def test_a_page_whose_own_lines_warn_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    program = "import numpy\nsquares = numpy.array([4.0, 4.0])\nprint(numpy.sqrt(squares).mean())"
    page.write_text(f"# Page\n\n```python\n{program}\n```\n\n```text\n2.0\n```\n")
    assert start_page(page).returncode == 0
    page.write_text(
        page.read_text().replace("numpy.sqrt(squares).mean()", "2.0 if numpy.log(0 * squares).any() else 0.0")
    )
    done = start_page(page)
    assert done.returncode == 1
    assert "RuntimeWarning: divide by zero" in done.stderr
