"""The page of what is supported is what the lists print."""

from __future__ import annotations

from website.supported_page import LISTS, PAGE, page


def test_the_page_is_what_the_lists_print() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "python -m website.supported_page writes it again"
    assert all(f"## {heading}\n" in written for _, heading, _ in LISTS)
    assert "| `micro-clip[/random[:SEED]]` |" in written
