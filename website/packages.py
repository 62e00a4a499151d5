"""The seven packages as the release scripts see them: folder, distribution, import name, version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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
    found = {}
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        name = tomllib.loads(path.read_text())["project"]["name"]
        (about,) = path.parent.glob("src/*/__about__.py")
        version = re.search(r'__version__ = "([^"]+)"', about.read_text())
        assert version is not None
        found[name] = Package(path.parent, name, about.parent.name, version[1])
    return found


def run(command: list[str], cwd: Path = ROOT, **environment: str) -> None:
    """Run a command and stop where it fails."""
    print("+", " ".join(command), flush=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "VIRTUAL"))}
    done = subprocess.run(command, cwd=cwd, env={**clean, **environment}, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: exit status {done.returncode}")


def uv() -> str:
    """The program `uv`, of this environment or on the PATH."""
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        raise SystemExit("uv is not installed: pip install uv")
    return found


def environment(place: Path, python: str, install: list[str]) -> Path:
    """A new environment with some requirements; its interpreter."""
    run([uv(), "venv", "--quiet", "--python", python, str(place)])
    inside = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([uv(), "pip", "install", "--quiet", "--python", str(inside), *install])
    return inside


def built(package: Package, place: Path) -> tuple[Path, Path]:
    """The package's sdist, and the wheel that is built from that sdist, not from the folder."""
    run([uv(), "build", "--quiet", "--sdist", "--out-dir", str(place), str(package.folder)])
    (sdist,) = place.glob("*.tar.gz")
    run([uv(), "build", "--quiet", "--wheel", "--out-dir", str(place), str(sdist)])
    (wheel,) = place.glob("*.whl")
    return sdist, wheel


def run_tests(python: Path, sdist: Path, place: Path, *arguments: str) -> None:
    """Run the tests that the sdist holds, with this repository's settings of pytest, against what is installed."""
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (source,) = (path for path in place.iterdir() if path.is_dir())
    shutil.rmtree(source / "src")
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, source / name)
    data = os.environ.get("VLB_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(source), *arguments]
    run([*command, str(source / "tests")], cwd=source, VLB_SHARED_DATA=data)
