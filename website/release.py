"""Prepare one package's release: check its tag, build sdist and wheel, and test the wheel in a clean environment.

    hatch run test:python website/release.py oven-retrieval-v0.2.0 [--out dist] [--siblings]
    hatch run test:python website/release.py oven-retrieval    rehearses it, whatever tag and changelog say

Uploads nothing: `.github/workflows/release.yml` does that, after this. A rehearsal that passes is kept in
website/results/release.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website.packages import (
    ROOT,
    Package,
    built,
    environment,
    keep,
    packages,
    python_of,
    required,
    run,
    run_tests,
    versions_of,
)


def package_of(tag: str) -> Package:
    """The package that a tag names.

    Raises:
        SystemExit: the tag is not ``<name>-vX.Y.Z`` of a package, or version and changelog say something else.
    """
    match = re.fullmatch(r"(?P<name>[a-z-]+)-v(?P<version>\d+\.\d+\.\d+)", tag)
    every = packages()
    if match is None or match["name"] not in every:
        raise SystemExit(f"{tag!r} is no tag of a release; expected <name>-vX.Y.Z with a name of {', '.join(every)}")
    package = every[match["name"]]
    if match["version"] != package.version:
        raise SystemExit(f"{tag}: src/{package.module}/__about__.py says {package.version}")
    changes = (package.folder / "CHANGELOG.md").read_text()
    heading = re.search(r"^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?", changes, flags=re.MULTILINE)
    if heading is None or heading[1] != package.version:
        raise SystemExit(f"{tag}: the topmost heading of CHANGELOG.md is {heading and heading[0]!r}")
    if heading[2] is None:
        raise SystemExit(f"{tag}: give the heading of CHANGELOG.md a date: {heading[0]} (2026-01-31)")
    return package


def main() -> None:
    """Check, build, test."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("tag", help="<name>-vX.Y.Z, or <name> alone to rehearse")
    reader.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for sdist and wheel")
    reader.add_argument("--python", default=sys.executable, help="interpreter of the clean environment")
    reader.add_argument("--siblings", action="store_true", help="install siblings from here, not from the index")
    arguments = reader.parse_args()
    rehearsed = packages().get(arguments.tag)
    package = rehearsed or package_of(arguments.tag)
    out = arguments.out.resolve() / package.name
    with tempfile.TemporaryDirectory() as folder:
        sdist, wheel = built(package, out)
        install = [str(wheel), "pytest", "hypothesis"]
        if arguments.siblings:
            names = {re.split(r"[<>=]", line)[0] for line in required(package)}
            beside = [(name, sibling) for name, sibling in packages().items() if name in names]
            install += [str(built(sibling, Path(folder) / name)[1]) for name, sibling in beside]
        python = environment(Path(folder) / "env", arguments.python, install)
        code = f"import {package.module} as m; assert m.__version__ == {package.version!r}, m.__version__"
        run([str(python), "-c", code], cwd=Path(folder))
        (Path(folder) / "source").mkdir()
        counts = run_tests(python, sdist, Path(folder) / "source")
        if rehearsed:
            sizes = {"bytes of the sdist": sdist.stat().st_size, "bytes of the wheel": wheel.stat().st_size}
            versions = {"Python": python_of(python), "requirements": versions_of(package, python)}
            keep("release", package.name, {"version": package.version, **versions, **sizes, **counts})
    print(f"{arguments.tag}: {sdist.name} and {wheel.name} are in {out}")


if __name__ == "__main__":
    main()
