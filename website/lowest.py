"""Run packages' tests with the lowest versions that they declare, or with the newest, in an environment each.

    hatch run test:python website/lowest.py [NAME ...] [--python 3.13] [--newest]

The pins of constraints.txt are not used: what pyproject.toml says is what is tested. What passed is kept in
website/results/lowest.json, with the versions of what the package depends on; `--only` looks, and keeps nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website.packages import built, environment, keep, normal, packages, python_of, required, run_tests, versions_of

BESIDE = {"gate-runner": ["torchvision==0.21.0"]}
"""What comes with open_clip_torch and timm: its newest version needs the newest torch, this one the lowest declared."""


def raised(requirements: list[str], versions: str) -> list[str]:
    """Lower bounds of which something higher is installed, because something else asks for more.

    Example:
        >>> raised(["torch>=2.6", "rich>=13.7,<15"], "rich 13.7.1, torch 2.14.0")
        ['torch 2.14.0 where 2.6 is declared']
    """
    installed = dict(pair.split(" ") for pair in versions.split(", "))
    bounds = [re.split(r"[>=]+", line.partition(",")[0]) for line in requirements]
    return [
        f"{name} {installed[normal(name)]} where {bound} is declared"
        for name, bound in bounds
        if not f"{installed[normal(name)]}.".startswith(f"{bound}.")
    ]


def main() -> None:
    """Build, install with one resolution, test, keep."""
    every = packages()
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("names", nargs="*", help=f"of {', '.join(every)}; all by default")
    reader.add_argument("--python", default=sys.executable, help="interpreter, e.g. 3.13")
    reader.add_argument("--newest", action="store_true", help="the newest versions, not the lowest")
    reader.add_argument("--only", default="", help="pytest's -k")
    arguments = reader.parse_args()
    for name in arguments.names or every:
        if name not in every:
            raise SystemExit(f"{name!r} is no package; expected one of {', '.join(every)}")
    resolution = ["--upgrade"] if arguments.newest else ["--resolution", "lowest-direct"]
    for name in arguments.names or every:
        bound = "newest" if arguments.newest else "lowest"
        with tempfile.TemporaryDirectory() as folder:
            sdist, wheel = built(every[name], Path(folder) / name)
            needed = {re.split(r"[<>=]", line)[0] for line in required(every[name])} & every.keys()
            siblings = [built(every[sibling], Path(folder) / sibling)[1] for sibling in sorted(needed)]
            beside = [] if arguments.newest else BESIDE.get(name, [])
            offered = [word for sibling in siblings for word in ("--find-links", str(sibling.parent))]
            python = environment(
                Path(folder) / "env",
                arguments.python,
                # To uv, what is named here is direct, and what the wheel asks for is not: it would be the newest.
                [
                    *resolution,
                    *offered,
                    str(wheel),
                    *required(every[name]),
                    *beside,
                    "pytest>=8.3",
                    "hypothesis>=6.100",
                ],
            )
            versions = versions_of(every[name], python)
            print(f"{name}, {bound}: Python {python_of(python)}, {versions}", flush=True)
            if not arguments.newest and (wrong := raised(required(every[name]), versions)):
                raise SystemExit(f"{name}: {', '.join(wrong)}: declare what is installed, or pin what asks for it")
            source = Path(folder) / "source"
            source.mkdir()
            # Old versions warn about what came after them; nobody can mend that, so warnings are no errors here.
            only = ["-k", arguments.only] if arguments.only else []
            counts = run_tests(python, sdist, source, "-W", "ignore", *only)
            if not arguments.only:
                keep("lowest", f"{name}, {bound}", {"Python": python_of(python), "requirements": versions, **counts})
        print(f"{name}: passed with the {bound} versions", flush=True)


if __name__ == "__main__":
    main()
