from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from vision_adapters.folder import list_images, load_split
from vision_adapters.pictures import read_rgb

if TYPE_CHECKING:
    from pathlib import Path

Image = pytest.importorskip("PIL.Image")


def write(path: Path, colour: int, size: tuple[int, int] = (10, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), colour, dtype=np.uint8)).save(path)


def test_a_folder_of_classes(tmp_path: Path) -> None:
    for index in range(10):
        write(tmp_path / "dog" / f"{index}.png", 10 + index)
        write(tmp_path / "cat" / f"{index}.PNG", 100 + index)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    listing = list_images(tmp_path)
    assert listing.names == ["cat", "dog"]
    assert listing.splits.count("test") == 4
    assert list_images(tmp_path) == listing
    assert list_images(tmp_path, seed=1).splits != listing.splits
    train, test = (load_split(listing, split, 4) for split in ("train", "test"))
    assert train.images.shape == (16, 3, 4, 4)
    assert train.images.dtype == torch.uint8
    assert torch.equal((train.images[:, 0, 0, 0] < 50).long(), train.labels)
    seen = sorted(torch.cat([train.images, test.images])[:, 0, 0, 0].tolist())
    assert seen == [*range(10, 20), *range(100, 110)]


def test_given_splits_and_a_table(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for name, colour in (("a", 0), ("b", 200)):
            write(tmp_path / split / name / "x.png", colour)
    assert list_images(tmp_path).splits == ["train", "train", "test", "test"]
    table = tmp_path / "list.csv"
    table.write_text("path,label,split\ntrain/a/x.png,no,train\ntrain/b/x.png,yes,train\ntest/b/x.png,yes,test\n")
    listing = list_images(table)
    assert (listing.names, listing.labels, listing.splits) == (["no", "yes"], [0, 1, 1], ["train", "train", "test"])


@pytest.mark.parametrize(("text", "message"), [
    ("file,label\nx,y\n", "line 1: no column 'path', found file, label"),
    ("path,label\nx.png,\n", "line 2: label is empty"),
    ("path,label\nx.png,a\nz.png,b\n", "line 3: path 'z.png' is no file"),
    (f"path,label\nx.png,a\n{'z' * 5000},b\n", "line 3: path 'zzz"),
    ("path,label,split\nx.png,a,dev\n", "line 2: split is 'dev'"),
    ("path,label,split\nx.png,a,train\nx.png,b,test\n", "class 'b' has no training image"),
    ("path,label\nx.png,a\n", "the one class 'a'"),
    ("path,label\n", "holds no images"),
    ("", "line 1: no column 'path', found nothing"),
])  # fmt: skip
def test_bad_tables_are_named_by_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "x.png", 1)
    table = tmp_path / "t.csv"
    table.write_text(text)
    with pytest.raises(ValueError, match=message):
        list_images(table)


def test_unreadable_images_are_named_and_skipped_only_on_request(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for index in range(4):
            write(tmp_path / "train" / name / f"{index}.png", 50)
        write(tmp_path / "test" / name / "x.png", 50)
    content = (tmp_path / "train" / "a" / "0.png").read_bytes()
    (tmp_path / "train" / "a" / "1.png").write_bytes(b"not an image")
    (tmp_path / "train" / "b" / "2.png").write_bytes(content[: len(content) // 2])
    listing = list_images(tmp_path)
    with pytest.raises(ValueError, match=r"1\.png cannot be read as an image"):
        load_split(listing, "train", 4)
    train = load_split(listing, "train", 4, skip_unreadable=True)
    assert [path.name for path in train.skipped] == ["1.png", "2.png"]
    assert len(train.images) == len(train.labels) == 6
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list_images(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="'val'"):
        load_split(listing, "val", 4)


def written(path, image, **options):
    image.save(path, **options)
    return path


def test_pictures_are_read_as_cameras_and_programs_make_them(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    assert read_rgb(written(tmp_path / "a.jpg", Image.new("RGB", (6, 4)), exif=turned)).size == (4, 6)
    for mode, colour in (("RGBA", (0, 0, 0, 0)), ("LA", (0, 0))):
        assert read_rgb(written(tmp_path / "b.png", Image.new(mode, (1, 1), colour))).getpixel((0, 0)) == (255,) * 3
    deep = Image.fromarray(np.array([[0, 25700, 65535]], np.uint16))
    light = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    for name, image, middle in (("c.png", deep, 100), ("d.tif", deep, 100), ("e.tif", light, 128)):
        assert np.asarray(read_rgb(written(tmp_path / name, image)))[0, :, 0].tolist() == [0, middle, 255]
    with pytest.raises(ValueError, match="values from -1 to 2, expected 0 to 1 or 0 to 255"):
        read_rgb(written(tmp_path / "f.tif", Image.fromarray(np.array([[-1.0, 2.0]], np.float32))))
    frames = [Image.new("RGB", (2, 2), (value, 0, 0)) for value in (250, 10)]
    path = written(tmp_path / "g.gif", frames[0], save_all=True, append_images=frames[1:])
    assert read_rgb(path).getpixel((0, 0))[0] == 250
    with pytest.raises(ValueError, match="more than 89,478,485"):
        read_rgb(written(tmp_path / "h.png", Image.new("1", (16_000, 16_000))))


def test_a_picture_that_asks_for_too_much_memory_is_an_error_of_that_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")

    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr("PIL.ImageOps.exif_transpose", greedy)
    with pytest.raises(ValueError, match="more memory than there is"):
        read_rgb(tmp_path / "a.png")


def test_a_picture_whose_header_confuses_pillow_is_an_error_of_that_picture(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 4)).save(tmp_path / "a.tif")
    content = (tmp_path / "a.tif").read_bytes()
    strips = b"\x11\x01\x04\x00"  # where they begin, as a whole number: as a fraction, Pillow trips over it
    assert strips in content
    (tmp_path / "a.tif").write_bytes(content.replace(strips, b"\x11\x01\x05\x00"))
    with pytest.raises(ValueError, match="it is damaged"):
        read_rgb(tmp_path / "a.tif")


def test_every_sixteen_bit_value_is_the_nearest_of_eight(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    image.fromarray(values).save(tmp_path / "all.png")
    expected = np.rint(values / 257)
    assert np.array_equal(np.asarray(read_rgb(tmp_path / "all.png"))[..., 0], expected)
