"""GLIP's files of knowledge, in exactly their format."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_prompts import ClassPrompts, KnowledgeFileError, glip_sources, named_sources

pytest.importorskip("yaml")
FILE = """\
? ''
: clean_name: ''
  def_wiki: null
  def_wn: ''
  gpt3: []
  name: ''
  path_wn: ''
'0':
  clean_name: '0'
  def_wiki: '0.'
  def_wn: a mathematical element that when added to another number yields the same
    number
  gpt3:
  - ' The digit or figure zero.'
  - ' The digit or number zero, a number, numeral, or glyph.'
  name: '0'
  path_wn:
  - nothing
  - relative_quantity
  path_wn3:
  - nothing
"""


def test_each_field_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "odinw.yaml"
    path.write_text(FILE)
    sources = {source.name: source for source in named_sources(f"glip={path}", ClassPrompts("x", ["{}"], ["0"]))}
    assert {name: source.items("0") for name, source in sources.items()} == {
        "wiktionary": ("0.",),
        "wordnet-definition": ("a mathematical element that when added to another number yields the same number",),
        "wordnet-path": ("nothing, relative quantity",),
        "gpt3": ("The digit or figure zero.", "The digit or number zero, a number, numeral, or glyph."),
    }
    assert all(source.items("") == source.items("1") == () for source in sources.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", r"line \d+: not YAML"),
        ("- a\n- b", "expected one entry for each class, found list"),
        ("hen: 3", "class 'hen': expected fields, found 3"),
        ("hen: {gpt3: [1, 2]}", r"class 'hen', field 'gpt3': expected texts, found \[1, 2\]"),
        ("hen: {def_wn: {a: b}}", "class 'hen', field 'def_wn'"),
        ("[" * 100_000, "nested too deeply|not YAML"),
        ("hen: !!python/object/apply:os.system ['false']", "not YAML"),
    ],
)
def test_what_is_not_in_the_format_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "odinw.yaml"
    path.write_text(text)
    with pytest.raises(KnowledgeFileError, match=message):
        glip_sources(path)
