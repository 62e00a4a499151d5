r"""What only real weights can show of zero-shot segmentation, beside published rows: plain CLIP, MaskCLIP, the papers.

Needs the eight sets' own files and CLIP's weights; a set that is not there is left out of all means. Checks: plain
CLIP's mean is near 12 and MaskCLIP's near 30 with ViT-B/16, and B is above L for plain CLIP. Each paper is run under
its own preset, and its difference from its published row is printed. Runs continue where they stopped.

    python packages/gate-runner/benchmarks/open_vocabulary.py --data-root /data [--limit 100] \
        --words SCLIP/configs ClearCLIP/configs ProxyCLIP/configs

Each preset takes the folder whose lists are its own by their digests; without ``--words``, names of classes are words.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import gate_runner
from gate_runner.tasks.segmenting.presets import SETS, find_preset
from gate_runner.tasks.segmenting.published import NAMES, published
from gate_runner.tasks.segmenting.words import LISTS

RESULTS = Path(__file__).with_name("results") / "open_vocabulary.json"
NEAR = 3.0
"""Points of mIoU by which a mean may differ from the published one."""
BASE, LARGE = "open_clip:ViT-B-16/openai", "open_clip:ViT-L-14/openai"
ROWS = (
    ("CLIP, class token", "ViT-B/16", BASE, "class-token", "sclip"),
    ("MaskCLIP", "ViT-B/16", BASE, "value", "sclip"),
    ("SCLIP", "ViT-B/16", BASE, "sclip", "sclip"),
    ("ClearCLIP", "ViT-B/16", BASE, "clearclip", "clearclip"),
    ("NACLIP", "ViT-B/16", BASE, "naclip", "naclip"),
    ("ProxyCLIP", "ViT-B/16", BASE, "proxyclip", "proxyclip"),
    ("CLIP, class token", "ViT-L/14", LARGE, "class-token", "clearclip"),
)
"""Method, its published encoder, the encoder here, patch features and preset."""


def words_of(folders: Sequence[Path], preset: str) -> Path | None:
    """The folder that holds a preset's published lists, each by its digest; None without folders.

    Raises:
        SystemExit: no folder has them; the message says of each what is missing or other.
    """
    complaints = []
    for folder in folders:
        other = []
        for name, digest in find_preset(preset).words.items():
            file = folder / LISTS[name]
            if not file.is_file():
                other.append(f"no {file.name}")
            elif hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest() != digest:
                other.append(f"another {file.name}")
        if not other:
            return folder
        complaints.append(f"{folder}: {', '.join(other)}")
    if complaints:
        raise SystemExit(f"no folder has the lists of the preset {preset}; " + "; ".join(complaints))
    return None


def scored(arguments: argparse.Namespace, encoder: str, features: str, preset: str) -> dict[str, float]:
    """MIoU in percent of each set that is there."""
    folder = words_of(arguments.words, preset)
    words = {} if folder is None else {"class_words": folder}
    name = encoder.rpartition(":")[2].replace("/", "-")
    done = gate_runner.run(
        "open-vocabulary",
        encoder=encoder,
        data_root=arguments.data_root,
        limit=arguments.limit,
        patch_features=[features],
        preset=preset,
        proxy=arguments.proxy if features == "proxyclip" else None,
        output=arguments.output / f"{name}-{features}-{preset}",
        device=arguments.device,
        **words,
    )
    scores = {}
    for result in done.results:
        if result.status == "ok":
            scores[result.name.partition("@")[0]] = 100 * result.scores[0].value
            print(result.training["setting"])
        else:
            print(f"{result.name}: {result.reason}")
    return scores


def row_of(method: str, encoder: str, preset: str) -> dict[str, float]:
    """The published row of a method: of its own preset where there is one."""
    rows = [row for row in published() if row["method"] == method and row["encoder"] == encoder]
    own = [row for row in rows if row.get("preset") == preset] or rows
    scores: dict[str, float] = own[0]["scores"]
    return scores


def main() -> None:
    """Score every row, compare it with the published one, and check what has to hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--words", type=Path, nargs="*", default=(), help="the papers' configs/, one folder or more")
    parser.add_argument("--proxy", default="timm:vit_base_patch8_224.dino")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--output", type=Path, default=Path("runs/open-vocabulary"))
    arguments = parser.parse_args()
    for preset in dict.fromkeys(row[-1] for row in ROWS):
        words_of(arguments.words, preset)  # before hours of work
    rows: list[dict[str, Any]] = []
    for method, published_encoder, encoder, features, preset in ROWS:
        scores, other = scored(arguments, encoder, features, preset), row_of(method, published_encoder, preset)
        shared = [name for name in SETS if name in scores and name in other]
        rows.append({"method": method, "encoder": encoder, "features": features, "preset": preset, "scores": scores})
        for name in shared:
            print(f"{method}, {encoder}, {NAMES[name]}: {scores[name]:.1f}, published {other[name]}")
        if shared:
            difference = fmean(scores[name] - other[name] for name in shared)
            rows[-1]["difference"] = difference
            print(f"{method}, {encoder}: {difference:+.1f} points from the published row over {len(shared)} sets")
    plain, masked, large = rows[0], rows[1], rows[-1]
    without = [name for name in plain["scores"] if name in large["scores"] and name in SETS[3:]]
    base_mean, large_mean = (
        fmean(row["scores"][name] for name in without) if without else float("nan") for row in (plain, large)
    )
    checks = {
        "plain CLIP near its published row": abs(plain.get("difference", 99.0)) <= NEAR,
        "MaskCLIP near its published row": abs(masked.get("difference", 99.0)) <= NEAR,
        "B above L for plain CLIP": base_mean > large_mean,
    }
    for name, holds in checks.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {name}")
    packages = ("torch", "open_clip_torch", "timm", "gate-runner")
    about = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    RESULTS.write_text(
        json.dumps({"rows": rows, "checks": checks, "versions": about}, indent=1) + "\n", encoding="utf-8"
    )
    if not all(checks.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
