"""Pages of the reference: one per public module, with each of its names or where that is shown."""

from __future__ import annotations

import sys

from website.public import ROOT, Module, documented_at, public_modules


def page_of(module: str) -> str:
    """Path of a module's page, below docs/."""
    return f"reference/{module}.md"


def reference_pages() -> dict[str, str]:
    """Path to Markdown, for every public module and the list of them."""
    pages = {page_of(name): _page(module) for name, module in public_modules().items()}
    rows = [f"| [`{name}`]({name}.md) | {module.summary} |" for name, module in public_modules().items()]
    pages["reference/index.md"] = "\n".join(
        [
            "# Reference",
            "",
            "Every public name, from its docstring. The examples run as tests.",
            "",
            "| module | what |",
            "|---|---|",
            *rows,
            "",
        ]
    )
    return pages


def _page(module: Module) -> str:
    shown, elsewhere = [], []
    places = documented_at()
    for name in module.names:
        path = places[module.name, name]
        if path == f"{module.name}.{name}":
            options = "\n    options:\n      members: false" if path in public_modules() else ""
            shown.append(f"::: {path}{options}\n")
        else:
            home = path.rsplit(".", 1)[0]
            elsewhere.append(f"- [`{name}`][{path}], on the page of `{home}`")
    submodules = [name for name in public_modules() if name.rsplit(".", 1)[0] == module.name and name != module.name]
    lines = [f"# {module.name}", "", module.summary, ""]
    if submodules:
        lines += ["Modules: " + ", ".join(f"[`{name}`]({name}.md)" for name in submodules), ""]
    if elsewhere:
        lines += ["Also here:", "", *elsewhere, ""]
    if ("gate_runner", "Settings") in {(module.name, name) for name in module.names}:
        shown += _settings()
    return "\n".join([*lines, *shown])


def _settings() -> list[str]:
    """Every setting of a run, which its record declares as data."""
    # None is installed where the site is built.
    for package in ("wary-files", "gate-data", "vision-features", "gate-runner"):
        source = str(ROOT / "packages" / package / "src")
        if source not in sys.path:
            sys.path.append(source)
    from gate_runner.settings.record import DECLARED

    rows = [
        f"| `{name}` | {declared.group} | {' '.join(declared.help.split())} |" for name, declared in DECLARED.items()
    ]
    return ["## Fields of Settings", "", "| setting | group | what it says |", "|---|---|---|", *rows, ""]
