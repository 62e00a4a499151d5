"""Where and with what a run happened, for the manifest."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate_runner.benchmarks.benchmark import Benchmark

_PACKAGES = (
    "gate-runner", "vision-adapters", "eqben-builder", "eqsim", "eevee-search", "gate-data", "knowledge-prompts",
    "oven-retrieval", "torch", "open_clip_torch", "timm", "transformers", "numpy", "scikit-learn",
)  # fmt: skip


def circumstances() -> dict[str, Any]:
    """Versions, hardware and git revision where parts are computed; nothing that identifies a person."""
    import torch

    return {
        "git": _revision(),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        },
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }


def command() -> list[str]:
    """What this process was started with: the whole command line of gate-runner; of any other program its name alone.

    Example:
        >>> command()[0] != ""
        True
    """
    program = Path(sys.argv[0]).stem if sys.argv else ""
    if program in ("gate-runner", "-c"):
        return ["gate-runner", *sys.argv[1:]]
    return [program or "python"]


def own_files(benchmarks: Iterable[Benchmark], output: Path) -> dict[str, dict[str, str]]:
    """Where the files of benchmarks of one's own lie, as seen from the run folder: reports make their pictures again.

    Example:
        >>> own_files([], Path("runs/micro-clip"))
        {}
    """
    found = {
        one.id: os.path.relpath(one.sources["file"], output.absolute()) for one in benchmarks if "file" in one.sources
    }
    return {"files": found} if found else {}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The commit of the working directory's repository, with ``+`` where files differ from it."""
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def processor() -> str:
    """The processor's name.

    Example:
        >>> processor() != ""
        True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
