"""Run packages' tests with the lowest versions that they declare, or with the newest, in an environment each.

    hatch run test:python website/lowest.py [NAME ...] [--python 3.13] [--newest]

The pins of constraints.txt are not used: what pyproject.toml says is what is tested.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website.packages import built, environment, packages, run, run_tests, uv


def main() -> None:
    """Build, install with one resolution, list, test."""
    known = packages()
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("names", nargs="*", help=f"of {', '.join(known)}; all by default")
    reader.add_argument("--python", default=sys.executable, help="interpreter, e.g. 3.13")
    reader.add_argument("--newest", action="store_true", help="the newest versions, not the lowest")
    reader.add_argument("--only", default="", help="pytest's -k")
    said = reader.parse_args()
    for name in said.names or known:
        if name not in known:
            raise SystemExit(f"{name!r} is no package; expected one of {', '.join(known)}")
    resolution = ["--upgrade"] if said.newest else ["--resolution", "lowest-direct"]
    for name in said.names or known:
        with tempfile.TemporaryDirectory() as place:
            sdist, wheel = built(known[name], Path(place) / name)
            siblings = [built(other, Path(place) / one)[1] for one, other in known.items() if one != name]
            offered = [word for one in siblings for word in ("--find-links", str(one.parent))]
            python = environment(
                Path(place) / "env",
                said.python,
                [*resolution, *offered, str(wheel), "pytest>=8.3", "hypothesis>=6.100"],
            )
            run([uv(), "pip", "list", "--python", str(python)])
            (Path(place) / "source").mkdir()
            # Old versions warn about what came after them; nobody can mend that, so warnings are no errors here.
            run_tests(python, sdist, Path(place) / "source", "-W", "ignore", *(["-k", said.only] if said.only else []))
        print(f"{name}: passed with the {'newest' if said.newest else 'lowest'} versions", flush=True)


if __name__ == "__main__":
    main()
