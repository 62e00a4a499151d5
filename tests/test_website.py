"""The site's sources: every public name has a place, every result a script, every drawing is current."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website import drawings, pictures  # noqa: E402 - found by the line above
from website.data_pages import DOCS, PAGES  # noqa: E402
from website.links import as_code  # noqa: E402
from website.missing_examples import without_example  # noqa: E402
from website.prose import as_it_stands, prepared, without_figures  # noqa: E402
from website.public import documented_at, public_modules  # noqa: E402
from website.reference import page_of, reference_pages  # noqa: E402
from website.release import package_of  # noqa: E402
from website.results import result_folders, result_pages, results_of, script_of  # noqa: E402
from website.sentences import findings, printed, words  # noqa: E402
from website.tutorials import alike, parsed, unparsed  # noqa: E402


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_data_are_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "out of date: python website/data_pages.py"


def test_the_reference_lists_every_public_name() -> None:
    pages = reference_pages()
    for name, module in public_modules().items():
        public = set(importlib.import_module(name).__all__) - {"__version__"}
        assert public == set(module.names), name
        page = pages[page_of(name)]
        for public_name in public:
            path = documented_at()[name, public_name]
            assert f"::: {path}\n" in page or f"[`{public_name}`][{path}]" in page, f"{name}.{public_name}"


def test_every_object_is_shown_once() -> None:
    shown = [line[4:] for page in reference_pages().values() for line in page.splitlines() if line.startswith("::: ")]
    assert len(shown) == len(set(shown)) == len(set(documented_at().values()))


def test_every_public_function_and_class_shows_its_use() -> None:
    assert without_example() == []


def test_markdown_makes_nothing_of_a_formula() -> None:
    assert as_it_stands("<a, b> of x_i and `y_i` * 2") == r"&lt;a, b> of x\_i and `y_i` \* 2"
    assert as_it_stands("    >= 0") == "    &gt;= 0"


def test_the_search_finds_names_and_leaves_figures_out() -> None:
    text = "ViT-B/16 59.63 ± 0.4, batch 8,192 of cifar100 in 2 s; eqsim_v2 +0.7"
    assert without_figures(text) == "ViT-B/16 ± batch of cifar100 in s; eqsim_v2 "


def test_a_docstring_is_prepared_for_its_parser() -> None:
    pairs = (
        ("Of x_i.\n", "Of x\\_i.\n"),
        ("Args:\n    x_i: >= 0.\n    *more: y_i.\n", "Args:\n    x_i: &gt;= 0.\n    *more: y\\_i.\n"),
        ("Returns:\n    One of: a, b.\n", "Returns:\n    : One of: a, b.\n"),
        ("Source: Ours.\n", "Source:\n    Ours.\n"),
        ("Example:\n    >>> f(x_i)", "Examples:\n    >>> f(x_i)"),
    )
    source, wanted = ("\n".join(texts) for texts in zip(*pairs, strict=True))
    assert prepared(source) == wanted


def test_a_paragraph_on_fields_becomes_a_section() -> None:
    text = "Both.\n\ntext: One,\n    and more.\nlow, high: Two.\n\nelse: Three."
    wanted = "Both.\n\nAttributes:\n    text: One,\n        and more.\n    low, high: Two.\n\nelse: Three."
    assert prepared(text, frozenset({"text", "low", "high"})) == wanted
    assert prepared(text) == text


def test_every_result_has_a_script_and_a_place_on_a_page() -> None:
    pages = result_pages()
    for name, folder in result_folders().items():
        for result in results_of(folder):
            assert script_of(result).is_file()
            assert f"(code:{result.relative_to(ROOT)})" in pages[f"results/{name}.md"]


def test_a_result_without_a_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "speed.py").write_text("import json\n")
    assert script_of(tmp_path / "results" / "speed_2_threads.json").name == "speed.py"
    with pytest.raises((FileNotFoundError, ValueError)):
        script_of(tmp_path / "results" / "memory.json")


def test_the_drawings_are_current_and_name_files_that_exist() -> None:
    assert drawings.missing_files() == []
    for name, text in drawings.drawings().items():
        assert (drawings.PICTURES / name).read_text(encoding="utf-8") == text, "run website/pictures.py"


def test_every_picture_is_made_by_something_here() -> None:
    places = [*ROOT.glob("docs/**/*"), *ROOT.glob("packages/*/*"), *ROOT.glob("packages/*/benchmarks/results/**/*")]
    places += ROOT.glob("experiments/results/*")
    present = {path.relative_to(ROOT).as_posix() for path in places if path.suffix in (".jpg", ".png", ".svg")}
    assert present == {*pictures.MADE, *pictures.ELSEWHERE}
    assert [path for path in pictures.ELSEWHERE.values() if not (ROOT / path).is_file()] == []


def test_the_contact_sheet_is_current(tmp_path: Path) -> None:
    pictures.contact_sheet(tmp_path / "sheet.png")
    drawn, stored = (
        Image.open(path) for path in (tmp_path / "sheet.png", ROOT / pictures.BUILDER / "contact_sheet.png")
    )
    assert np.array_equal(drawn, stored), "run website/pictures.py"


def test_code_that_pages_link_to_exists() -> None:
    pages = [
        as_code(path.read_text(encoding="utf-8"), path.relative_to(ROOT / "docs").as_posix())
        for path in (ROOT / "docs").rglob("*.md")
    ]
    linked = {match for page in pages for match in re.findall(r"\]\(code:([^)#]+)", page)}
    assert linked
    assert [match for match in sorted(linked) if not (ROOT / match).is_file()] == []


WALKS = {
    "the EqSim loss": ("eqsim.functional.eqsim_v2", "eqsim_v2("),
    "the loader of ADE20K": ("gate_data.originals.segmentation.paired", 'load("ade20k"'),
}
"""What a stranger looks for, the function where it is, and what its test does with it."""


@pytest.mark.parametrize("row", WALKS)
def test_the_start_page_leads_to_code_and_test(row: str) -> None:
    start, walk = (
        as_code((ROOT / "docs" / name).read_text(encoding="utf-8"), name) for name in ("index.md", "site.md")
    )
    lines = [line for page in (start, walk) for line in page.splitlines() if line.startswith(f"| {row} |")]
    (code, name), (test, test_name) = re.findall(r"\]\(code:([^)#]+)#(\w+)\)", lines[0])
    assert re.findall(r"\]\(code:([^)#]+)#(\w+)\)", lines[1]) == [(code, name), (test, test_name)]
    dotted_path, calls = WALKS[row]
    module, _, function = dotted_path.rpartition(".")
    assert name == function
    assert inspect.getsourcefile(getattr(importlib.import_module(module), function)) == str((ROOT / code).resolve())
    body = (ROOT / test).read_text(encoding="utf-8").split(f"\ndef {test_name}(")[1].split("\ndef ")[0]
    assert calls in body


def test_a_page_survives_parsing() -> None:
    paths = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    assert len(paths) >= 3
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert unparsed(parsed(text)) == text


def test_outputs_are_compared_by_what_they_say() -> None:
    assert alike("score 0.91 in 12.3 s", "score 0.92 in 4 s")
    assert not alike("score 0.91", "score 0.99")
    assert not alike("3 pairs", "4 pairs")
    assert not alike("better", "worse")


@pytest.mark.parametrize("tag", ["eqsim-v9.9.9", "eqsim-0.2.0", "nothing-v0.2.0"])
def test_a_tag_that_does_not_fit_is_refused(tag: str) -> None:
    with pytest.raises(SystemExit, match=tag):
        package_of(tag)


@pytest.mark.parametrize("package", ["oven-retrieval", "eqben-builder"])
def test_the_code_of_a_packages_page_runs(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "packages" / f"{package}.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block, package, "exec"), names)


BARE = """
import sys
sys.path += {places!r}
for name in ("torch", "numpy", "scipy", "PIL"):
    sys.modules[name] = None
from website.reference import reference_pages
print("\\n".join(reference_pages()["reference/gate_runner.md"].splitlines()))
"""


def test_the_reference_is_made_where_no_package_is_installed() -> None:
    lazy_loader = importlib.util.find_spec("lazy_loader")
    assert lazy_loader is not None
    assert lazy_loader.origin is not None
    places = [str(ROOT), str(Path(lazy_loader.origin).parents[1])]
    done = subprocess.run(  # -S: the editable installs are unknown, as where the site is built
        [sys.executable, "-I", "-S", "-c", BARE.format(places=places)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "| `readout` |" in done.stdout


def test_words_that_the_field_has_others_for_are_found_in_prose_tables_and_help() -> None:
    prose = "# A picture\n\nIt scores .58, beside 0.6.\n\n| made-up | `beside` |\n"
    assert [line.split("; ")[0] for line in words("docs/a.md", prose)] == [
        "docs/a.md:1: picture", "docs/a.md:3: beside", "docs/a.md:3: .58", "docs/a.md:5: made-up",
    ]  # fmt: skip
    fenced = "```text\n--seed  mends it\n```\n"
    assert words("docs/a.md", fenced) == []
    assert words("docs/commands.md", fenced) == ["docs/commands.md:2: mends; expected fix"]
    assert words("docs/tutorials/a.md", "A made-up picture, 0.5 and v1.2.3, a stand-beside.") == []


def test_printed_texts_are_read_and_docstrings_and_style_sheets_are_not() -> None:
    source = (
        'STYLE = "p {x: .5em; y: 1}"\ndef f():\n    """Start anew."""\n    raise ValueError(f"{f}: start it anew")\n'
    )
    assert printed("a.py", source) == ["a.py:4: anew; expected again, rebuilt"]


def test_long_sentences_are_found_and_code_is_none() -> None:
    table = f"| {'cell ' * 39}. |\n|---|\n"
    assert (
        findings("a.md", f"# A title {'long ' * 50}\n\nRun it. See it.\n\n```bash\n{'word ' * 60}\n```\n\n{table}")
        == []
    )
    long = "It is short. " * 3 + "Then " + "word " * 40 + "end."
    assert findings("a.md", long) == ["a.md: 42 words, expected at most 40: Then word word word word word …"]
    cell = "| " + "cell " * 40 + "[end](a.md). Next |\n|---|\n"
    assert findings("a.md", "It is short.\n\n" + cell) == [
        "a.md: 41 words, expected at most 40: cell cell cell cell cell cell …"
    ]
    start = "docs/index.md"
    assert findings(start, "word " * 20 + "end.") == [f"{start}: 21 words a sentence on average; expected at most 20"]
    assert findings("a.md", "word " * 20 + "end.") == []
    assert findings("a.md", "word " * 22 + "end.") == ["a.md: 23 words a sentence on average; expected at most 22"]
