"""Copies of repositories on the hub: Parquet with images, in the columns and splits that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

datasets = pytest.importorskip("datasets")

RNG = np.random.default_rng(3)
PICTURE, TEXT, INTEGER = datasets.Image(), datasets.Value("string"), datasets.Value("int64")


def picture(mode: str = "RGB") -> Image.Image:
    return Image.fromarray(RNG.integers(0, 256, (10, 12, 3), dtype=np.uint8)).convert(mode)


def label_map(*values: int) -> Image.Image:
    return Image.fromarray(np.resize(np.array(values, dtype=np.uint8), (10, 12)))


def write(
    folder: Path, split: str, columns: Mapping[str, Sequence[Any]], features: Mapping[str, Any], where: str = ""
) -> None:
    table = datasets.Dataset.from_dict(dict(columns), features=datasets.Features(dict(features)))
    path = folder / (where or f"data/{split}-00000-of-00001.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path)


def labelled(
    name: str, names: Sequence[str] | None, splits: Mapping[str, Sequence[int]], columns: tuple[str, str]
) -> Callable[[Path], None]:
    """Images and classes, by ``ClassLabel`` where there are names, else by bare numbers."""
    kind = datasets.ClassLabel(names=list(names)) if names else INTEGER

    def layout(root: Path) -> None:
        for split, labels in splits.items():
            values = {columns[0]: [picture() for _ in labels], columns[1]: labels}
            write(root / name, split, values, {columns[0]: PICTURE, columns[1]: kind})

    return layout


def named(count: int) -> list[str]:
    return [f"name {number}" for number in range(count)]


cifar100 = labelled(
    "uoft-cs/cifar100", named(100), {"train": [*range(5)] * 4, "test": [4, 3, 2]}, ("img", "fine_label")
)
food101 = labelled("ethz/food101", named(101), {"train": [0, 1] * 5, "validation": [1, 0, 1, 0]}, ("image", "label"))
imagenet1k = labelled(
    "ILSVRC/imagenet-1k",
    named(1000),
    {"train": [number % 7 for number in range(60)], "validation": [999, 0, 3, 5], "test": [-1, -1]},
    ("image", "label"),
)
few_shot = {
    name: labelled(
        f"GATE-engine/{repository}",
        None,
        {"train": [*range(6)] * 6, "validation": [*range(5)] * 6, "test": [*range(7)] * 6},
        ("image", "label"),
    )
    for name, repository in (
        ("aircraft", "aircraft_bbcrop"),
        ("cubirds", "cubirds200_bbcrop"),
        ("dtextures", "describable_textures"),
        ("fungi", "fungi"),
        ("mini", "mini_imagenet"),
        ("vgg", "vggflowers"),
    )
}


def happy(root: Path) -> None:
    kinds = ("kiler_whale", "killer_whale", "beluga")
    for split, count in (("train", 30), ("val", 3), ("test", 7)):
        values = {
            "image": [picture() for _ in range(count)],
            "species": [row % 3 for row in range(count)],
            "species_name": [kinds[row % 3] for row in range(count)],
            "individual": [row % 9 for row in range(count)],
            "individual_name": [f"whale {row % 9}" for row in range(count)],
        }
        features = {"image": PICTURE, "species": INTEGER, "species_name": TEXT}
        features |= {"individual": INTEGER, "individual_name": TEXT}
        write(root / "GATE-engine/happy-whale-dolphin-classification", split, values, features)


def of_maps(name: str, splits: Mapping[str, int], column: str, *values: int) -> Callable[[Path], None]:
    def layout(root: Path) -> None:
        for split, count in splits.items():
            columns = {"image": [picture() for _ in range(count)], column: [label_map(*values) for _ in range(count)]}
            write(root / name, split, columns, {"image": PICTURE, column: PICTURE})

    return layout


cityscapes = of_maps("Antreas/Cityscapes", {"train": 12, "val": 3, "test": 2}, "semantic_segmentation", 0, 7, 33)
coco_10k = of_maps("GATE-engine/COCOStuff10K", {"train": 12, "test": 3}, "mask", 0, 1, 182)
coco_164k = of_maps("GATE-engine/COCOStuff164K", {"train": 12, "val": 3}, "mask", 0, 181, 255)


def flickr30k(root: Path) -> None:
    splits = ["train"] * 6 + ["val"] * 2 + ["test"] * 3
    values = {
        "image": [picture() for _ in splits],
        "caption": [[f"caption {row} {number}" for number in range(5)] for row in range(len(splits))],
        "sentids": [["0"] for _ in splits],
        "split": splits,
        "img_id": [str(row) for row in range(len(splits))],
        "filename": [f"{row}.jpg" for row in range(len(splits))],
    }
    features = {"image": PICTURE, "caption": [TEXT], "sentids": [TEXT], "split": TEXT, "img_id": TEXT, "filename": TEXT}
    write(root / "nlphuji/flickr30k", "test", values, features, "TEST/test/0000.parquet")


def nycc(root: Path) -> None:
    folder = root / "jmhessel/newyorker_caption_contest"
    for split, count in (("train", 8), ("validation", 3), ("test", 4)):
        values = {
            "image": [picture("L") for _ in range(count)],
            "contest_number": [300 + row for row in range(count)],
            "caption_choices": [[f"joke {row} {number}" for number in range(5)] for row in range(count)],
            "label": ["ABCDE"[row % 5] for row in range(count)],
        }
        features = {"image": PICTURE, "contest_number": INTEGER, "caption_choices": [TEXT], "label": TEXT}
        write(folder, split, values, features, f"matching/{split}-00000-of-00001.parquet")
    listed = "".join(f"  - split: {split}\n    path: matching/{split}-*\n" for split in ("train", "validation", "test"))
    other = "- config_name: ranking\n  data_files:\n  - split: train\n    path: ranking/*\n"
    front = f"---\nconfigs:\n- config_name: matching\n  data_files:\n{listed}{other}---\n"
    (folder / "README.md").write_text(front)


def winoground(root: Path) -> None:
    values = {
        "id": [0, 1, 2],
        "image_0": [picture() for _ in range(3)],
        "image_1": [picture("RGBA") for _ in range(3)],
        "caption_0": ["a b", "c d", "e f"],
        "caption_1": ["b a", "d c", "f e"],
        "tag": ["Adjective"] * 3,
        "secondary_tag": [""] * 3,
        "num_main_preds": [1, 1, 2],
        "collapsed_tag": ["Object", "Relation", "Object"],
    }
    features = {"id": INTEGER, "image_0": PICTURE, "image_1": PICTURE, "caption_0": TEXT, "caption_1": TEXT}
    features |= {"tag": TEXT, "secondary_tag": TEXT, "num_main_preds": INTEGER, "collapsed_tag": TEXT}
    write(root / "facebook/winoground", "test", values, features)
