"""Boxes and class maps of images that EXIF turns, and of images that were resized after they were annotated."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from gate_data.checking import check_data
from gate_data.errors import DataError
from gate_data.originals.segmentation import ade20k
from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from
from gate_data.readers import Cut
from gate_data.readers.decode import decode
from gate_data.readers.upright import Frame, frame_of, of_one_shape, turned_map
from gate_data.request import DataRequest

RED, BLUE, GREY = (230, 20, 20), (20, 20, 230), (128, 128, 128)
SIZE = (40, 100)
BOXES = ((5, 10, 20, 30), (15, 60, 20, 30))
"""Left, top, width and height of what is red and of what is blue, in the upright image."""
_BACK = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""From the upright image to what is stored under an orientation."""


def stored(image: Image.Image, orientation: int) -> Image.Image:
    method = _BACK[orientation]
    return image if method is None else image.transpose(method)


def photo(path: Path, orientation: int = 6, size: tuple[int, int] = SIZE) -> None:
    """Gray, with a red box and a blue one, scaled to a size, stored under an orientation."""
    pixels = np.full((SIZE[1], SIZE[0], 3), GREY, np.uint8)
    for (left, top, wide, high), colour in zip(BOXES, (RED, BLUE), strict=True):
        pixels[top : top + high, left : left + wide] = colour
    image = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    stored(image, orientation).save(path, quality=97, subsampling=0, **({"exif": exif} if orientation != 1 else {}))


def stored_box(box: Sequence[float], orientation: int) -> list[float]:
    """The box in the stored image, by its pixels."""
    mark = np.zeros((SIZE[1], SIZE[0]), np.uint8)
    left, top, wide, high = map(int, box)
    mark[top : top + high, left : left + wide] = 1
    rows, columns = np.nonzero(np.asarray(stored(Image.fromarray(mark), orientation)))
    return [
        float(columns.min()), float(rows.min()), float(np.ptp(columns) + 1), float(np.ptp(rows) + 1),
    ]  # fmt: skip


def coco(
    root: Path, orientations: Sequence[int], boxes: str, size: str | tuple[int, int], suffix: str = "jpg",
    pictures: tuple[int, int] = SIZE,
) -> None:  # fmt: skip
    images, annotations = [], []
    for number, orientation in enumerate(orientations):
        photo(root / "images" / f"{number}.{suffix}", orientation, pictures)
        sides = {"upright": SIZE, "stored": SIZE[::-1] if orientation > 4 else SIZE}.get(str(size), size)
        named = {} if size == "none" else {"width": int(sides[0]), "height": int(sides[1])}
        images.append({"id": number, "file_name": f"{number}.{suffix}", **named})
        for label, box in enumerate(BOXES):
            shown = list(box) if boxes == "upright" else stored_box(box, orientation)
            annotations.append(
                {"id": len(annotations) + 1, "image_id": number, "category_id": label + 1, "bbox": shown,
                 "area": shown[2] * shown[3], "iscrowd": 0}
            )  # fmt: skip
    kinds = [{"id": 1, "name": "red"}, {"id": 2, "name": "blue"}]
    content = {"images": images, "annotations": annotations, "categories": kinds}
    (root / "annotations.json").write_text(json.dumps(content))


def voc(root: Path, orientation: int, boxes: str, size: tuple[int, int] | None) -> None:
    for number in range(5):
        photo(root / f"{number}.jpg", orientation)
        objects = ""
        for name, box in zip(("red", "blue"), BOXES, strict=True):
            left, top, wide, high = box if boxes == "upright" else stored_box(box, orientation)
            corners = (
                f"<xmin>{left + 1}</xmin><ymin>{top + 1}</ymin><xmax>{left + wide}</xmax><ymax>{top + high}</ymax>"
            )
            objects += f"<object><name>{name}</name><bndbox>{corners}</bndbox></object>"
        sides = f"<size><width>{size[0]}</width><height>{size[1]}</height></size>" if size else ""
        (root / f"{number}.xml").write_text(f"<annotation><filename>a</filename>{sides}{objects}</annotation>")


def loaded(root: Path, task: str) -> Any:
    values = guess(root).values
    own = OwnBenchmark.model_validate({**values, "benchmark": {**values["benchmark"], "task": task}})
    return originals_from(own, root / "benchmark.toml").load(root, DataRequest(size=100))


def colour_of(pixels: np.ndarray) -> str:
    mean = pixels.reshape(3, -1).mean(axis=1)
    distances = {name: float(np.abs(mean - colour).max()) for name, colour in (("red", RED), ("blue", BLUE))}
    name = min(distances, key=lambda name: distances[name])
    return name if distances[name] < 30 else f"neither: {mean}"


def shown(root: Path) -> tuple[set[tuple[str, str]], set[tuple[str, str]], str]:
    """(class, colour) of what detection has in its boxes, and of what is cut out; and what was reported."""
    boxes = loaded(root, "detection")
    pairs = set()
    for split in (boxes.train, boxes.validation, boxes.test):
        for row in range(len(split)):
            image, (size,) = np.asarray(split.images[row]), split.targets.take([row]).sizes.tolist()
            assert size == list(size)
            for label, across, down, wide, high in split.targets.collate([row])[0].tolist():
                left, right = (round(100 * (across + side * wide / 4)) for side in (-1, 1))
                top, bottom = (round(100 * (down + side * high / 4)) for side in (-1, 1))
                assert min(right - left, bottom - top) >= 10
                pairs.add((boxes.classes[int(label)], colour_of(image[:, top:bottom, left:right])))
    cuts = loaded(root, "image-classification")
    cut = {
        (cuts.classes[int(label)], colour_of(np.asarray(image)))
        for split in (cuts.train, cuts.validation, cuts.test)
        for image, label in zip((split.images[row] for row in range(len(split))), split.targets, strict=True)
    }
    assert sum(map(len, (cuts.train, cuts.validation, cuts.test))) == 2 * sum(
        map(len, (boxes.train, boxes.validation, boxes.test))
    )
    return pairs, cut, f"{boxes.note} | {cuts.note}"


RIGHT = {("red", "red"), ("blue", "blue")}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_and_maps_turn_as_pictures_do(orientation: int) -> None:
    frame = Frame(stored(Image.new("L", SIZE), orientation).size, orientation)
    assert frame.upright == SIZE
    for box in BOXES:
        left, top, wide, high = stored_box(box, orientation)
        assert frame.turned((left, top, wide, high)) == box
    values = np.random.default_rng(orientation).integers(0, 9, (5, 3), np.uint8)
    lying = np.asarray(stored(Image.fromarray(values), orientation))
    np.testing.assert_array_equal(turned_map(lying, orientation), values)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_a_frame_is_that_of_the_decoded_picture(tmp_path: Path, suffix: str, orientation: int) -> None:
    photo(tmp_path / f"a.{suffix}", orientation)
    with Image.open(tmp_path / f"a.{suffix}") as opened:
        assert frame_of(str(tmp_path / f"a.{suffix}")).upright == ImageOps.exif_transpose(opened).size


def test_a_cut_of_a_tiff_file_is_of_the_upright_picture(tmp_path: Path) -> None:
    photo(tmp_path / "a.tiff", 6)
    for (left, top, wide, high), name in zip(BOXES, ("red", "blue"), strict=True):
        cut = decode(Cut(str(tmp_path / "a.tiff"), (left, top, left + wide, top + high)))
        assert colour_of(np.asarray(cut).transpose(2, 0, 1)) == name
        assert cut.size == (wide, high)


@pytest.mark.parametrize("mode", ["L", "RGB", "I;16"])
@pytest.mark.parametrize("orientation", [3, 6, 7])
def test_unpacked_tiff_files_are_turned_whole(tmp_path: Path, mode: str, orientation: int) -> None:
    values = np.random.default_rng(0).integers(0, 255, (9, 5, *([3] if mode == "RGB" else [])))
    upright = Image.fromarray(values.astype(np.uint8) if mode != "I;16" else (values * 257).astype(np.uint16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored(upright, orientation).save(tmp_path / "a.tif", exif=exif)
    expected = values if mode == "RGB" else np.repeat(values[..., None], 3, axis=2)
    np.testing.assert_array_equal(np.asarray(decode(str(tmp_path / "a.tif"))), expected)


def test_a_png_file_says_so_behind_its_pixels_too_and_is_not_decoded(tmp_path: Path) -> None:
    photo(tmp_path / "a.png", 1)
    exif = Image.Exif()
    exif[0x0112] = 6
    held, body = (tmp_path / "a.png").read_bytes(), exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
    (tmp_path / "b.png").write_bytes(held[:-12] + chunk + held[-12:])
    assert frame_of(str(tmp_path / "b.png")) == Frame(SIZE, 6)
    (tmp_path / "c.png").write_bytes(held[:60])  # pixels are cut off
    assert frame_of(str(tmp_path / "c.png")) == Frame(SIZE, 1)


@pytest.mark.parametrize(
    ("orientation", "boxes", "size", "remark"),
    [
        (1, "upright", "upright", " | "),
        (6, "upright", "upright", " | "),
        (6, "upright", "none", " | "),
        (8, "stored", "stored", "turned"),
        (6, "stored", "stored", "turned"),
        (5, "stored", "stored", "turned"),
        (7, "stored", "stored", "turned"),
        (3, "upright", "stored", "taken as the images are seen"),
        (6, "upright", (80, 200), "scaled"),
    ],
)
def test_boxes_of_coco_lie_on_their_objects(
    tmp_path: Path, orientation: int, boxes: str, size: Any, remark: str
) -> None:
    pictures = (20, 50) if size == (80, 200) else SIZE
    if size == (80, 200):
        size = SIZE
    coco(tmp_path, [orientation] * 5, boxes, size, pictures=pictures)
    pairs, cut, note = shown(tmp_path)
    assert pairs == RIGHT
    assert cut == RIGHT
    assert remark in note


def test_what_is_lying_says_how_the_others_are_meant(tmp_path: Path) -> None:
    coco(tmp_path, [6, 3, 2, 1, 8, 4], "stored", "stored")
    pairs, cut, note = shown(tmp_path)
    assert pairs == cut == RIGHT
    assert "boxes of 5 images turned" in note


@pytest.mark.parametrize("size", [(80, 200), (200, 80), (100, 100)])
def test_boxes_of_resized_pictures_are_scaled_or_refused(tmp_path: Path, size: tuple[int, int]) -> None:
    coco(tmp_path, [1] * 5, "upright", SIZE, "png", (20, 50))
    assert shown(tmp_path)[:2] == (RIGHT, RIGHT)
    assert "boxes of 5 images scaled" in shown(tmp_path)[2]
    content = json.loads((tmp_path / "annotations.json").read_text())
    for image in content["images"]:
        image.update(width=size[0], height=size[1])
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    if size == (80, 200):
        return
    for task in ("detection", "image-classification"):
        with pytest.raises(DataError, match=r"5 of 5 images have another shape .* it is 20 x 50, not"):
            loaded(tmp_path, task)


@pytest.mark.parametrize(("boxes", "size"), [("upright", "stored"), ("stored", "upright"), ("stored", "none")])
def test_boxes_of_one_way_beside_a_size_of_the_other_are_refused(tmp_path: Path, boxes: str, size: str) -> None:
    coco(tmp_path, [1, 6, 1, 6, 1], boxes, size)
    for task in ("detection", "image-classification"):
        with pytest.raises(DataError, match=r"EXIF turns .*1\.jpg, and the box from"):
            loaded(tmp_path, task)


def test_what_nothing_tells_is_refused_beside_both_ways(tmp_path: Path) -> None:
    coco(tmp_path, [6, 8, 3, 1, 1], "upright", "upright")
    content = json.loads((tmp_path / "annotations.json").read_text())
    content["images"][0].update(width=100, height=40)
    content["annotations"] = content["annotations"][2:]
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="nothing tells how 1 are meant"):
        loaded(tmp_path, "detection")


@pytest.mark.parametrize(
    ("boxes", "size"), [("upright", SIZE), ("upright", None), ("stored", SIZE[::-1]), ("upright", (80, 200))]
)
def test_boxes_of_voc_lie_on_their_objects(tmp_path: Path, boxes: str, size: Any) -> None:
    voc(tmp_path, 6, boxes, size)
    if size == (80, 200):  # of images twice as large
        for file in tmp_path.glob("*.jpg"):
            photo(file, 6, (20, 50))
        for file in tmp_path.glob("*.xml"):
            file.write_text(
                file.read_text().replace("<width>80<", "<width>40<").replace("<height>200<", "<height>100<")
            )
    assert shown(tmp_path)[:2] == (RIGHT, RIGHT)


def test_boxes_of_yolo_are_shares_of_what_is_seen(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    for number, orientation in enumerate((1, 6, 3, 8, 5)):
        photo(tmp_path / "images" / f"{number}.jpg", orientation)
        lines = [
            f"{label} {(left + wide / 2) / 40} {(top + high / 2) / 100} {wide / 40} {high / 100}\n"
            for label, (left, top, wide, high) in enumerate(BOXES)
        ]
        (tmp_path / "labels" / f"{number}.txt").write_text("".join(lines))
    (tmp_path / "classes.txt").write_text("red\nblue\n")
    assert shown(tmp_path)[:2] == (RIGHT, RIGHT)


def maps(root: Path, orientations: Sequence[int], lying: Sequence[bool]) -> None:
    for number, (orientation, is_lying) in enumerate(zip(orientations, lying, strict=True)):
        photo(root / "images" / f"{number}.jpg", orientation)
        values = np.zeros((SIZE[1], SIZE[0]), np.uint8)
        for label, (left, top, wide, high) in enumerate(BOXES):
            values[top : top + high, left : left + wide] = label + 1
        drawn = stored(Image.fromarray(values), orientation if is_lying else 1)
        (root / "masks").mkdir(exist_ok=True)
        drawn.save(root / "masks" / f"{number}.png")


def colours_of_maps(root: Path) -> tuple[set[tuple[int, str]], str]:
    data = loaded(root, "segmentation")
    pairs = set()
    for split in (data.train, data.validation, data.test):
        for row in range(len(split)):
            image, classes = np.asarray(split.images[row]), np.asarray(split.targets[row])
            across = np.linspace(0, 99, classes.shape[0]).round().astype(int)
            pixels = image[:, across][:, :, across]
            pairs |= {(label, colour_of(pixels[:, classes == label])) for label in (1, 2)}
    return pairs, data.note


@pytest.mark.parametrize(
    ("orientations", "lying", "remark"),
    [
        ([6] * 6, [False] * 6, ""),
        ([6, 6, 8, 5, 7, 6], [True] * 6, "6 class maps turned"),
        ([6] * 6, [True, False] * 3, "3 class maps turned"),
        ([6, 3, 2, 4, 1, 1], [True] * 6, "4 class maps turned"),
        ([3, 2, 4, 1, 1, 1], [False] * 6, "EXIF turns 3 images"),
    ],
)
def test_class_maps_lie_on_their_objects(
    tmp_path: Path, orientations: list[int], lying: list[bool], remark: str
) -> None:
    maps(tmp_path, orientations, lying)
    pairs, note = colours_of_maps(tmp_path)
    assert pairs == {(1, "red"), (2, "blue")}
    assert remark in note
    assert bool(remark) == bool(note)


def test_class_maps_of_another_shape_are_refused(tmp_path: Path) -> None:
    maps(tmp_path, [1] * 5, [False] * 5)
    Image.new("L", (20, 50)).save(tmp_path / "masks" / "3.png")  # half as large
    assert "1 class map has other sides" in loaded(tmp_path, "segmentation").note
    Image.new("L", (100, 40)).save(tmp_path / "masks" / "3.png")
    with pytest.raises(DataError, match=r"1 of 5 class maps have another shape .*3\.png: 100 x 40 for 40 x 100"):
        colours_of_maps(tmp_path)
    maps(tmp_path, [6, 8, 3, 3, 3], [True, False] + [False] * 3)
    with pytest.raises(DataError, match="nothing tells how 3 are meant"):
        colours_of_maps(tmp_path)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_class_map_is_turned_by_its_own_exif(tmp_path: Path, suffix: str) -> None:
    maps(tmp_path, [6] * 5, [True] * 5)
    exif = Image.Exif()
    exif[0x0112] = 6
    for file in list((tmp_path / "masks").iterdir()):
        with Image.open(file) as drawn:
            drawn.load()
            file.unlink()
            drawn.save(file.with_suffix(f".{suffix}"), exif=exif)
    assert colours_of_maps(tmp_path) == ({(1, "red"), (2, "blue")}, "")


def test_one_shape_is_one_scale_for_both_sides() -> None:
    assert of_one_shape((500, 375), (500, 374))
    assert of_one_shape((4000, 3000), (640, 480))
    assert not of_one_shape((640, 480), (480, 640))
    assert not of_one_shape((640, 480), (640, 640))


def scenes(root: Path) -> Path:
    """ADE20K's own files: half of each image is of the class 1, which is red, the other of 2."""
    for split in ("training", "validation"):
        for number in range(6):
            values = np.zeros((SIZE[1], SIZE[0]), np.uint8)
            for label, (left, top, wide, high) in enumerate(BOXES):
                values[top : top + high, left : left + wide] = label + 1
            photo(root / "images" / split / f"{number}.jpg", 1)
            path = root / "annotations" / split / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(values).save(path)
    return root


def test_class_maps_of_a_published_set_lie_on_turned_pictures(tmp_path: Path) -> None:
    root = scenes(tmp_path / "ADEChallengeData2016")
    photo(root / "images" / "validation" / "3.jpg", 6)
    file = root / "annotations" / "validation" / "3.png"
    with Image.open(file) as drawn:
        stored(drawn, 6).save(file)
    data = ade20k.load(root, DataRequest(size=100))
    for row in range(6):
        pixels, classes = np.asarray(data.test.images[row]), np.asarray(data.test.targets[row])
        across = np.linspace(0, pixels.shape[1] - 1, classes.shape[0]).round().astype(int)
        seen = pixels[:, across][:, :, across]
        assert [colour_of(seen[:, classes == label]) for label in (0, 1)] == ["red", "blue"], row


def test_class_maps_of_another_shape_than_a_published_picture_are_refused(tmp_path: Path) -> None:
    root = scenes(tmp_path / "ADEChallengeData2016")
    Image.new("L", (80, 40)).save(root / "annotations" / "validation" / "3.png")
    data = ade20k.load(root, DataRequest(size=100))
    expected = r"validation/3\.png is a class map of 80 x 40 for 40 x 100 of .*validation/3\.jpg; expected one shape"
    for look in (
        lambda: data.test.targets[3],
        lambda: data.test.targets[2:4],
        lambda: data.test.targets.take([1, 3])[1],
    ):
        with pytest.raises(DataError, match=expected):
            look()
    (checked,) = check_data({"ade20k": ade20k}, tmp_path, deep=True)
    assert [problem for problem in checked.problems if "is a class map of 80 x 40 for 40 x 100" in problem]
