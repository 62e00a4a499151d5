"""What MkDocs is told besides the pages in docs/: generated pages, pages of code that others link to, and llms.txt."""

from __future__ import annotations

import gzip
import html
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.encoder_results import encoder_results
from website.links import as_code
from website.prose import without_figures
from website.public import ROOT, public_modules
from website.reference import page_of, reference_pages
from website.results import result_folders, result_pages

CODE = re.compile(r"\]\(code:([^)\s#]+)(?:#([^)\s]+))?\)")
"""A link to a file of the repository, or to a name in it: to a page that shows it, or to an image itself."""

RECORDS = (
    "reference/",
    "results/",
    "measured/",
    "commands.html",
    "supported.html",
    "promised.html",
    "trust.html",
    "compared-readers.html",
    "contributing.html",
    "gate.html",
    "icinw.html",
    "odinw.html",
)
"""Pages of which the search knows headings and first words: lists of code, data sets, figures and tests."""

LINED = re.compile(r'<a data-line="(\d+)" href="([^"]+)"')

TO_LINE = re.compile(r'href="([^"]+)#(__codelineno-0-\d+)"')

LOADED = re.compile(r'(?:href|src)="([^":]+\.(?:css|js|svg|png))"|"search":\s*"([^"]+)"')
"""What a page names of what it loads; the script of the search fetches the index."""

FORMULA = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
"""A formula in TeX, as Markdown leaves it."""

CODE_OR_SCRIPT = re.compile(r"<(pre|code|script|style|title)\b.*?</\1>|<[^>]+>", re.DOTALL)
"""Parts of a page that are not prose."""

BAR = r"\|"

TABLE_CODE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""Code in a table that holds a bar, which GitHub reads and Markdown's tables show with its backslash."""

MOST_BYTES = 300_000
"""Of the start page with all that it loads, compressed as hosts send it."""

PICTURES = (".jpg", ".png", ".svg")

LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".md": "markdown", ".sh": "bash", ".yml": "yaml"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are generated."""
    folders: dict[str, list[str]] = {}
    for name in public_modules():
        folders.setdefault(name.split(".")[0], []).append(page_of(name))
    reference: list[Any] = ["reference/index.md", *({top: pages} for top, pages in folders.items())]
    results = ["results/index.md", "results/encoders.md", *(f"results/{name}.md" for name in result_folders())]
    decisions = [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    nav: list[Any] = config.nav or []
    for section in nav:
        if "Reference" in section:
            section["Reference"] = reference
        if "How to" in section:
            guides = [f"how-to/{path.name}" for path in sorted((ROOT / "docs" / "how-to").glob("*.md"))]
            section["How to"] = list(dict.fromkeys([*section["How to"], *guides]))
        if "Results" in section:
            section["Results"] = results
        if "What and why" in section:
            section["What and why"] = [entry for entry in section["What and why"] if isinstance(entry, str)]
            listed = str(config.nav)
            pages = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in listed]
            section["What and why"] += [*pages, "contributing.md", {"Decisions": decisions}]
    return config


def generated_pages() -> dict[str, str]:
    """Path below docs/ to Markdown, of every page that no file there holds."""
    own = {"contributing.md": contributing(), "results/encoders.md": encoder_results()}
    return {**reference_pages(), **result_pages(), **own}


def contributing() -> str:
    """CONTRIBUTING.md with links as seen from docs/."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.replace("](docs/decisions)", "](decisions/0001-frozen-encoders.md)").replace("](docs/", "](")


def shown_at(path: str) -> str:
    """Path below docs/ of a file of the repository."""
    return f"code/{path}" if path.endswith(PICTURES) else f"code/{path}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and one for each file that some page links to as code."""
    pages = generated_pages()
    written = [as_code(file.content_string, file.src_uri) for file in files.documentation_pages()]
    texts = [*pages.values(), *written]
    for source in sorted({match[1] for text in texts for match in CODE.finditer(text)}):
        path = ROOT / source
        if not path.is_file():
            raise PluginError(f"a page links to code:{source}, which is no file of the repository")
        if path.suffix in PICTURES:
            files.append(File.generated(config, shown_at(source), abs_src_path=str(path)))
            continue
        fence = "`" * 6
        language = LANGUAGES.get(path.suffix, "text")
        body = f'{fence}{language} linenums="1"\n{path.read_text(encoding="utf-8")}\n{fence}\n'
        pages[shown_at(source)] = f"---\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n\n# {source}\n\n{body}"
    for path_below, text in pages.items():
        files.append(File.generated(config, path_below, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to code to their pages; give tutorials, which are long lines of code, the contents' column too."""
    if page.file.src_uri.startswith("tutorials/"):
        page.meta["hide"] = ["toc"]
    up = "../" * page.file.src_uri.count("/")

    def led(match: re.Match[str]) -> str:
        line = f'{{ data-line="{line_of(match[1], match[2])}" }}' if match[2] else ""
        return f"]({up}{shown_at(match[1])}){line}"

    markdown = TABLE_CODE.sub(lambda match: f"<code>{html.escape(match[1]).replace(BAR, '&#124;')}</code>", markdown)
    return CODE.sub(led, as_code(markdown, page.file.src_uri))


def line_of(path: str, name: str) -> int:
    """Number of the line on which a file of the repository defines a name."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if re.match(rf"\s*(def|class) {re.escape(name)}\b", line)]
    if not numbers:
        raise PluginError(f"a page links to code:{path}#{name}, which is not defined there")
    return numbers[0]


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML, which browsers show without a script."""
    content = FORMULA.sub(lambda match: mathml(match[1]), content)
    if left := re.search(r"\$[^$\n]*\\[^$\n]*\$", CODE_OR_SCRIPT.sub(" ", content)):
        raise PluginError(f"{page.file.src_uri} shows a formula as text: {left[0]}")
    return content


def mathml(formula: str) -> str:
    """Return an inline formula of TeX, escaped for HTML, as MathML."""
    # Prose escapes underscores, which are subscripts here.
    return convert(html.unescape(formula).replace("\\_", "_"), display="inline")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Names that the theme leaves out, no empty headers in tables, links to lines."""
    # Lines of code have anchors that MkDocs does not know of when it checks links.
    output = LINED.sub(r'<a href="\2#__codelineno-0-\1"', named(output))
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The page for what is not found is no page to MkDocs, and needs its names too."""
    return named(output_content) if template_name.endswith(".html") else output_content


def named(output: str) -> str:
    """Names for the search and for nested navigations, no two of which are the same to somebody who hears them."""
    output = output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
    count = iter(range(1, 1000))
    output = re.sub(r'aria-labelledby="__nav_[\d_]+_label"', lambda _: f'aria-label="Pages {next(count)}"', output)
    heard: Counter[str] = Counter()

    def numbered(match: re.Match[str]) -> str:
        heard[match[1].lower()] += 1
        again = heard[match[1].lower()]
        return match[0] if again == 1 else f'<nav class="md-nav" aria-label="{match[1]} ({again})"'

    return re.sub(r'<nav class="md-nav" aria-label="([^"]*)"', numbered, output)


def on_post_build(config: MkDocsConfig) -> None:
    """Make the search's index light, which every page loads, write llms.txt, and check what MkDocs does not."""
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        if entry["location"].startswith(RECORDS):
            entry["text"] = shortened(entry["text"])
        entry["text"] = without_figures(entry["text"])
    path.write_text(json.dumps(index, separators=(",", ":"), ensure_ascii=False), encoding="utf-8")
    write_llms(config)
    site = Path(config.site_dir)
    if lost := links_to_no_line(site):
        raise PluginError(f"links to lines that no page shows: {', '.join(lost)}")
    if (heavy := weight(site, "index.html")) > MOST_BYTES:
        raise PluginError(f"the start page loads {heavy:,} bytes; expected at most {MOST_BYTES:,}")


def links_to_no_line(site: Path) -> list[str]:
    """Links of built pages to lines of code that the page they lead to does not have."""
    lost = []
    for page in site.rglob("*.html"):
        for path, line in TO_LINE.findall(page.read_text(encoding="utf-8")):
            target = page.parent / path
            if not target.is_file() or f'id="{line}"' not in target.read_text(encoding="utf-8"):
                lost.append(f"{page.relative_to(site)} to {path}#{line}")
    return lost


def weight(site: Path, name: str) -> int:
    """Bytes of a built page and of all that it loads, compressed as hosts send it."""
    page = (site / name).read_text(encoding="utf-8")
    loaded = {name, "search/search_index.json", *(script or style for script, style in LOADED.findall(page))}
    return sum(len(gzip.compress((site / script).read_bytes())) for script in loaded)


def shortened(text: str) -> str:
    """The first paragraph: names and what they are for are what is searched for in a reference."""
    first = text.split("</p>")[0]
    return f"{first}</p>" if len(first) < 88 else f"{first[:88]}…</p>"


def write_llms(config: MkDocsConfig) -> None:
    """Every written page and module in a line, for programs that read."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for title, folder in (
        ("Start", ""),
        ("Tutorials", "tutorials"),
        ("Packages", "packages"),
        ("Adding", "adding"),
        ("How to", "how-to"),
    ):
        lines += [f"## {title}", ""]
        for path in sorted((ROOT / "docs" / folder).glob("*.md")):
            text = path.read_text(encoding="utf-8")
            heading = next((line[2:] for line in text.splitlines() if line.startswith("# ")), path.stem)
            address = path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
            lines.append(f"- [{heading}]({address}): {first_sentence(text)}")
        lines.append("")
    lines += ["## Reference", ""]
    lines += [f"- [{name}]({page_of(name)[:-3]}.html): {module.summary}" for name, module in public_modules().items()]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_sentence(text: str) -> str:
    """The first sentence of a page's first paragraph."""
    for part in text.split("\n\n"):
        if part and part[0].isalpha():
            return re.split(r"(?<=[.:?])\s", " ".join(part.split()))[0]
    return ""
