"""The packages as the release scripts see them, environments for them, and what their tests say there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "website" / "results"


@dataclass(frozen=True)
class Package:
    """One package of the repository.

    Args:
        folder: below `packages/`.
        name: of the distribution.
        module: import name.
        version: as its `__about__.py` says.
    """

    folder: Path
    name: str
    module: str
    version: str


def packages() -> dict[str, Package]:
    """All packages by the name of their distribution."""
    by_name = {}
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        name = tomllib.loads(path.read_text())["project"]["name"]
        (about,) = path.parent.glob("src/*/__about__.py")
        version = re.search(r'__version__ = "([^"]+)"', about.read_text())
        assert version is not None
        by_name[name] = Package(path.parent, name, about.parent.name, version[1])
    return by_name


def run(command: list[str], cwd: Path = ROOT, **environment: str) -> None:
    """Run a command, without what hatch sets for its own environments, pins included, and stop where it fails."""
    print("+", " ".join(command), flush=True)
    ours = ("PIP_CONSTRAINT", "PYTEST", "PYTHON", "UV_CONSTRAINT", "VIRTUAL")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(command, cwd=cwd, env={**clean, **environment}, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: exit status {done.returncode}")


def uv() -> str:
    """The program `uv`, of this environment or on the PATH."""
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise SystemExit("uv is not installed: pip install uv")
    return program


def environment(folder: Path, python: str, install: list[str]) -> Path:
    """A new environment with some requirements; its interpreter."""
    run([uv(), "venv", "--quiet", "--python", python, str(folder)])
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([uv(), "pip", "install", "--quiet", "--python", str(inside), *install])
    return inside


def built(package: Package, folder: Path) -> tuple[Path, Path]:
    """The package's sdist, and the wheel that is built from that sdist, not from the folder."""
    run([uv(), "build", "--quiet", "--sdist", "--out-dir", str(folder), str(package.folder)])
    (sdist,) = folder.glob("*.tar.gz")
    run([uv(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(sdist)])
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def run_tests(python: Path, sdist: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the tests that the sdist holds, with this repository's settings of pytest, against what is installed.

    Returns:
        Counts of tests that passed and were skipped, and the seconds that it took.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    shutil.rmtree(source / "src")
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, source / name)
    data = os.environ.get("VLB_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    report = folder / "report.xml"
    command = [str(python), "-m", "pytest", "-q", "--durations=15", "-p", "no:cacheprovider", "--rootdir", str(source)]
    run([*command, *arguments, f"--junitxml={report}", str(source / "tests")], cwd=source, VLB_SHARED_DATA=data)
    (suite,) = ElementTree.parse(report).getroot()
    tests, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    return {"passed": tests - skipped, "skipped": skipped, "seconds": round(float(suite.attrib["time"]))}


def python_of(python: Path) -> str:
    """Version of an interpreter."""
    answer = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[-1]


def required(package: Package) -> list[str]:
    """What a package depends on, as it declares it: `["torch>=2.2", ...]`."""
    lines: list[str] = tomllib.loads((package.folder / "pyproject.toml").read_text())["project"]["dependencies"]
    return lines


def versions_of(package: Package, python: Path) -> str:
    """What a package requires, as it is installed in an environment: `numpy 1.26.0, torch 2.2.0`."""
    names = {normal(re.split(r"[^\w.-]", line)[0]) for line in required(package)}
    listed = subprocess.run(
        [uv(), "pip", "list", "--quiet", "--format", "json", "--python", str(python)], capture_output=True, check=True
    )
    versions = {normal(row["name"]): row["version"] for row in json.loads(listed.stdout)}
    return ", ".join(f"{name} {versions[name]}" for name in sorted(names))


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def keep(name: str, key: str, values: dict[str, Any]) -> None:
    """Put one row into a file of website/results, beside the rows of earlier runs, with the date."""
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows[key] = {**values, "date": date.today().isoformat()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n", encoding="utf-8")
