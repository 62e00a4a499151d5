"""RESULTS.md names every field of results as they are written, but for names of metrics, classes and layers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gate_runner

PAGE = Path(__file__).parents[1] / "RESULTS.md"
NAMED = ("gradients", "classes", "drawn", "worth", "each", "per_class", "tested", "curve", "versions")
"""Fields whose keys are names of classes, layers, templates, packages and positions."""
TEXT = """[benchmark]
id = "pets"
[data]
kind = "table"
table = "pets.csv"
[splits]
column = "split"
group = "owner"
[slices]
columns = ["camera"]
"""


def unnamed(value: Any, page: str, metrics: set[str], path: str = "") -> set[str]:
    """Fields of a value that no word in code on the page is."""
    if isinstance(value, list):
        return set().union(*(unnamed(part, page, metrics, f"{path}[]") for part in value)) if value else set()
    if not isinstance(value, dict) or path.rpartition(".")[2].removesuffix("[]") in NAMED:
        return set()
    missing = {f"{path}.{key}" for key in value if key not in metrics and f"`{key}`" not in page}
    return missing.union(*(unnamed(part, page, metrics, f"{path}.{key}") for key, part in value.items()))


def pets(folder: Path) -> str:
    """Red and blue images of several owners and two cameras, two of them near copies over the splits."""
    rng = np.random.default_rng(0)
    lines = ["image,label,split,camera,owner"]
    for at in range(80):
        split, label = ("train", "test")[at % 2], at // 2 % 2
        pixels = rng.integers(0, 80, (12, 12, 3)).repeat(4, 0).repeat(4, 1)
        pixels[..., 2 * label] += 150
        image = Image.fromarray(pixels.astype(np.uint8))
        image.save(folder / f"{at}.png")
        if at == 0:
            image.save(folder / "1.jpg", quality=80)
        name = "1.jpg" if at == 1 else f"{at}.png"
        lines.append(f"{name},{('red', 'blue')[label]},{split},{('day', 'night')[at // 4 % 2]},{split}{at // 8}")
    (folder / "pets.csv").write_text("\n".join(lines) + "\n")
    (folder / "benchmark.toml").write_text(TEXT)
    return str(folder / "benchmark.toml")


def test_the_page_names_every_field(tmp_path: Path) -> None:
    file, how = pets(tmp_path), {"encoder": "micro-dense", "show": False}
    gate_runner.run(file, output=tmp_path / "probe", save_heads=True, shift=("grey",), **how)
    gate_runner.run(file, output=tmp_path / "folds", folds=2, **how)
    gate_runner.run(file, output=tmp_path / "tuned", tune="full", recipe_fields={"steps": 2}, limit=12, **how)
    gate_runner.run("digits", output=tmp_path / "shots", shots=0, limit=40, **how)
    page = re.sub(r"\s+", " ", PAGE.read_text())
    files = sorted(tmp_path.glob("*/results/*.json"))
    assert len(files) == 4
    fields: set[str] = set()
    for path in files:
        result = json.loads(path.read_text())
        assert result["status"] == "ok", result["reason"]
        fields |= set(result["training"])
        metrics = {score["metric"] for score in result["scores"]}
        assert not unnamed(result, page, metrics), path.parent.parent.name
    assert {"slices", "near", "clusters", "calibration", "shifts", "cross_validation", "by_class", "recipe"} <= fields


def test_a_field_that_no_page_names_is_seen() -> None:
    assert unnamed({"training": {"wise": [{"new": 1}], "acc": 2}}, "`training` `wise`", {"acc"}) == {
        ".training.wise[].new"
    }
