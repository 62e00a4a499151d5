"""Each wheel in an environment with what its arrows bring: it imports, and the first test of each file passes there.

The suite has run all of them once, and `test_boundaries.py` proves that what is imported is declared;
`website/release.py` runs all of them from the wheel.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import hatchling.build
import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "wary-files": "wary_files",
    "paired-scores": "paired_scores",
    "eqsim": "eqsim",
    "knowledge-prompts": "knowledge_prompts",
    "adapters": "vision_adapters",
    "eqben-builder": "eqben_builder",
    "oven-retrieval": "oven_retrieval",
    "eevee": "eevee",
    "gate-data": "gate_data",
    "vision-features": "vision_features",
}


def below(folder: str) -> list[str]:
    """Folders of ours that a package requires, at once or through another."""
    project = tomllib.loads((ROOT / "packages" / folder / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[\[<>=]", requirement)[0] for requirement in project["dependencies"]}
    names = {
        tomllib.loads(path.read_text())["project"]["name"]: path.parent.name
        for path in ROOT.glob("packages/*/pyproject.toml")
    }
    direct = [names[name] for name in sorted(required & names.keys())]
    return sorted({*direct, *(deeper for name in direct for deeper in below(name))})


def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def uv() -> str:
    path = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip("uv is not installed")
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All, built from their source distributions' folders by the one of the tests' processes that asks first."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheels"
    with FileLock(f"{out}.lock"):
        for folder in [*PACKAGES, "gate-runner"]:
            if not (out / folder).is_dir():
                (out / folder).mkdir(parents=True)
                with contextlib.chdir(ROOT / "packages" / folder):
                    hatchling.build.build_wheel(str(out / folder))
    return {folder.name: next(folder.glob("*.whl")) for folder in out.iterdir()}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each environment takes the last one's place: bytecode of what several have, as torch, is made once."""
    return tmp_path_factory.mktemp("home")


def clean(home: Path) -> dict[str, str]:
    """What a process in such an environment is told: nothing of this one, and where bytecode lies."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    return {**environ, "PYTHONPYCACHEPREFIX": str(home / "bytecode")}


def environment(uv: str, folder: Path, install: list[str]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    run([uv, "pip", "install", "--quiet", "--python", str(python), *constraints, *install])
    return python


@pytest.mark.again
@pytest.mark.parametrize("folder", PACKAGES)
def test_a_package_passes_its_tests_with_what_its_arrows_bring(
    folder: str, uv: str, wheels: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    arrows = below(folder)
    python = environment(uv, home / "env", [str(wheels[name]) for name in [folder, *arrows]] + ["pytest", "hypothesis"])
    known = {PACKAGES[name] for name in [folder, *arrows]}
    siblings = [name for name in [*PACKAGES.values(), "gate_runner"] if name not in known]
    code = f"import importlib.util as u, {PACKAGES[folder]}; print([n for n in {siblings!r} if u.find_spec(n)])"
    assert run([str(python), "-c", code], env=clean(home)).stdout.strip() == "[]"
    for part in ("tests", "examples", "README.md"):
        source = ROOT / "packages" / folder / part
        if source.is_dir():
            shutil.copytree(source, tmp_path / part)
        elif source.exists():
            shutil.copy(source, tmp_path / part)
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    environ = {"VLB_SHARED_DATA": str(ROOT.parent / "shared" / "data"), **clean(home)}
    done = run(
        [
            str(python),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not long",
            "--first",
            "1",
            "--rootdir",
            str(tmp_path),
            str(tmp_path / "tests"),
        ],
        cwd=tmp_path,
        env=environ,
    )
    assert " passed" in done.stdout


def test_eqsim_brings_torch_and_nothing_else(uv: str, wheels: dict[str, Path]) -> None:
    """What an installer would bring, which it says without bringing it."""

    def resolved(requirement: str) -> set[str]:
        options = ["--quiet", "--no-header", "--no-annotate", "--constraint", str(ROOT / "constraints.txt")]
        listed = run([uv, "pip", "compile", *options, "--python", sys.executable, "-"], input=requirement).stdout
        return {line.split("==")[0].split(" ")[0] for line in listed.splitlines()}

    brought = resolved("torch")
    assert "torch" in brought
    assert resolved(f"eqsim @ {wheels['eqsim'].as_uri()}") - brought == {"eqsim"}


@pytest.mark.again
def test_the_runner_works_from_its_wheels(uv: str, wheels: dict[str, Path], home: Path, tmp_path: Path) -> None:
    python = environment(uv, home / "env", [str(path) for path in wheels.values()])
    done = run([str(python.parent / "gate-runner"), "run", "digits", "--limit", "100"], cwd=tmp_path, env=clean(home))
    assert any(line.startswith("digits ") and "built-in" in line for line in done.stdout.splitlines())


def test_a_wheel_holds_what_it_should(wheels: dict[str, Path]) -> None:
    import zipfile

    for folder, wheel in wheels.items():
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith("py.typed") for name in names), folder
        assert any(name.endswith("licenses/LICENSE") for name in names), folder
        assert not any("tests/" in name for name in names), folder
    inside = zipfile.ZipFile(wheels["vision-features"]).namelist()
    for encoder in ("micro_clip", "micro_dense"):
        assert any(name.endswith(f"{encoder}_files/weights.safetensors") for name in inside)
