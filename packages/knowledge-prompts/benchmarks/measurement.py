"""What every benchmark here prints and writes: the figures, the machine, the versions."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=None, help="folder with ELEVATER's external/ and gpt3/")
    return parser


def knowledge_folder(folder: Path | None) -> Path:
    """The given folder, or the one beside this checkout."""
    places = [folder] if folder else []
    if value := os.environ.get("VLB_SHARED_DATA"):
        places.append(Path(value) / "elevater_knowledge")
    places += [parent / "shared" / "data" / "elevater_knowledge" for parent in HERE.parents]
    for candidate in places:
        if (candidate / "external").is_dir():
            return candidate
    raise SystemExit("ELEVATER's stored knowledge was not found; give its folder with --data")


def machine() -> dict[str, object]:
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else ""
    return {"cpu": model or platform.processor(), "cores": os.cpu_count(), "system": platform.platform()}


def versions(*packages: str) -> dict[str, str]:
    installed = {"python": sys.version.split()[0]}
    for package in ("knowledge-prompts", *packages):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "absent"
    return installed


def write(name: str, figures: dict[str, object], *packages: str) -> None:
    """Print the figures and write them to ``results/NAME.json``."""
    result = {"benchmark": name, **figures, "machine": machine(), "versions": versions(*packages)}
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
