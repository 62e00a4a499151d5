"""Two writers, kills at every system call, hostile files, and images as cameras make them."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from eqben_builder import writing
from eqben_builder.building import build, read_records, verification, verify
from eqben_builder.formats import PairRow, Picture, encode_png, read_any, write_as
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.pictures import AnimatedPictureWarning, decode, decode_array
from eqben_builder.scoring import read_scores
from eqben_builder.untrusted import json_lines
from eqben_builder.writing import LOCK, FolderBusyError, sole_writer
from wary_files import pickles
from wary_files.json_files import read_json


def small(**options):
    return MicroBuilder(size=16, duplicate_bits=None, **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trust") / "pairs"
    build(small(), folder, pairs=2)
    return folder


def row(name="a", mask=None, **extra):
    image = Picture(content=encode_png(np.zeros((4, 4, 3), np.uint8)))
    other = Picture(content=encode_png(np.full((4, 4, 3), 9, np.uint8)))
    return PairRow(name, "micro", "count", image, other, "one", "two", extra, mask)


def hold(folder, ready, done):
    with sole_writer(Path(folder) / LOCK, Path(folder)):
        ready.set()
        done.wait(60)


def test_a_second_build_of_a_folder_is_refused_and_names_the_first(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(str(tmp_path), ready, done))
    process.start()
    assert ready.wait(60)
    try:
        with pytest.raises(FolderBusyError, match=rf"is being written by process {process.pid} on "):
            build(small(), tmp_path, pairs=1)
    finally:
        done.set()
        process.join()
    assert build(small(), tmp_path, pairs=1)["complete"]
    assert not (tmp_path / LOCK).exists()


def test_a_second_writer_of_an_export_is_refused(tmp_path):
    target = tmp_path / "out"

    def rows():
        yield row("a")
        with pytest.raises(FolderBusyError, match="out is being written by process"):
            write_as([row("b")], target, "eqben-flat")

    write_as(rows(), target, "eqben-flat")
    assert [pair.id for pair in read_any(target)] == ["a"]
    with pytest.raises(FileExistsError, match="exists already"):
        write_as([row("b")], target, "eqben-flat")


def test_what_a_killed_writer_left_is_cleared(tmp_path):
    (tmp_path / ".out.partial" / "images").mkdir(parents=True)
    (tmp_path / ".out.partial" / "images" / "old.png").write_bytes(b"x")
    (tmp_path / ".out.lock").write_text("{}")
    write_as([row()], tmp_path / "out", "eqben-flat")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.png")) == ["000000_0.png", "000000_1.png"]


def test_two_pairs_of_one_id_are_refused(tmp_path, built):
    twice = tmp_path / "twice"
    write_as(read_any(built), twice, "eqben-flat")
    pairs = json.loads((twice / "pairs.json").read_text())
    (twice / "pairs.json").write_text(json.dumps([*pairs, pairs[1]]))
    with pytest.raises(ValueError, match=r"twice: pairs 1 and 6 share the id 'micro-000001'"):
        list(read_any(twice))


KILLS = """
    import os, sys
    from pathlib import Path
    from eqben_builder.building import build
    from eqben_builder.micro.builder import MicroBuilder

    root = Path(sys.argv[1])
    EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"}

    def child(work):
        pid = os.fork()
        if not pid:
            work()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def make(target):
        build(MicroBuilder(size=16, aspects=["count"], duplicate_bits=None), target, pairs=2)

    def killed(target, at):
        count = 0
        def hook(event, arguments):
            nonlocal count
            if event in EVENTS and arguments and str(target) in str(arguments[0]):
                count += 1
                if count == at:
                    os._exit(9)
        sys.addaudithook(hook)
        make(target)

    def tree(folder):
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    make(root / "whole")
    at = 0
    while True:
        at += 1
        target = root / f"at{at}"
        status = child(lambda: killed(target, at))
        assert status in (0, 9), status
        assert child(lambda: make(target)) == 0, at
        assert tree(target) == tree(root / "whole"), at
        if status == 0:
            break
    print(at - 1)
"""


@pytest.mark.long
def test_a_build_killed_at_every_system_call_ends_with_the_same_bytes(tmp_path):
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_pictures_lost_after_the_journal_are_made_again(tmp_path, built):
    """What a power cut leaves: a journal line, and images that never reached the disk."""

    class CutError(Exception):
        pass

    def cut(phase, done, total):
        if done == 3:
            raise CutError

    with pytest.raises(CutError):
        build(small(), tmp_path / "a", pairs=2, progress=cut)
    victims = sorted((tmp_path / "a" / "images").rglob("*.png"))
    victims[-1].write_bytes(b"")
    build(small(), tmp_path / "a", pairs=2)
    assert verify(tmp_path / "a").failures == ()
    assert [r.id for r in read_records(tmp_path / "a")] == [r.id for r in read_records(built)]


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"job": 1e999, "end": 0, "files": {}, "hashes": [], "kept": {}, "dropped": {}}',
        '{"job": 0, "end": 0, "files": [], "hashes": [], "kept": {}, "dropped": {}}',
        '{"job": 0, "end": 0, "files": {"a": [[]]}, "hashes": [], "kept": {}, "dropped": {}}',
        '{"job": 0, "end": -1, "files": {}, "hashes": [], "kept": {}, "dropped": {}}',
        f'{{"job": 0, "end": 0, "files": {{"{"1" * 400}": ["a", 1]}}, "hashes": [], "kept": {{}}, "dropped": {{}}}}',
    ],
)
def test_a_journal_that_holds_no_jobs_is_begun_again(tmp_path, line):
    from eqben_builder.building.folder import Ledger

    (tmp_path / "journal.jsonl").write_text(line + "\n")
    (tmp_path / "pairs.jsonl").write_text("")
    ledger = Ledger(tmp_path)
    ledger.close()
    assert ledger.entries == []
    assert (tmp_path / "journal.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["pairs.jsonl", "journal.jsonl", "manifest.json.partial", "README.md.partial"])
def test_a_folder_of_a_stranger_has_no_other_file_written(tmp_path, name):
    (tmp_path / "mine").write_text("precious")
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "mine")
    with suppress(ValueError):
        build(small(), folder, pairs=1)
    assert (tmp_path / "mine").read_text() == "precious"


# Hostile files


def test_limits_are_named_and_can_be_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "99")
    with pytest.raises(ValueError, match=r"big has 100 pixels, more than 99; WARY_FILES_MAX_PIXELS sets another limit"):
        decode(encode_png(np.zeros((10, 10, 3), np.uint8)), "big")
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "100")
    assert decode(encode_png(np.zeros((10, 10, 3), np.uint8))).shape == (10, 10, 3)
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "many")
    with pytest.raises(ValueError, match="WARY_FILES_MAX_PIXELS is 'many', expected a positive whole number"):
        decode(encode_png(np.zeros((1, 1, 3), np.uint8)))
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "1000")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(5000))
    with pytest.raises(ValueError, match=r"bomb.zip:a.png has 5,000 bytes, more than 1,000"):
        Picture(tmp_path / "bomb.zip", "a.png").load()
    np.savez_compressed(tmp_path / "s.npz", scores=np.zeros((500, 2, 2)))
    with pytest.raises(ValueError, match=r"s.npz, array 'scores.npy' has 16,128 bytes"):
        read_scores(tmp_path / "s.npz")
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "10")
    (tmp_path / "a.json").write_text('{"a": "0123456789"}')
    with pytest.raises(ValueError, match=r"a.json: the file has 19 bytes, more than 10"):
        read_json(tmp_path / "a.json")


def test_a_picture_of_a_claimed_size_is_refused_before_it_is_decoded():
    # A PNG header of 40,000 x 40,000 grey pixels, and hardly any content.
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 40_000, 40_000, 8, 0, 0, 0, 0))
    with pytest.raises(ValueError, match="1,600,000,000 pixels"):
        decode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b""), "x")


def test_json_too_deep_and_numbers_too_long_have_a_file_and_a_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + "[" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"a.jsonl, line 2: nested too deeply"):
        list(json_lines(path))
    path.write_text('{"a": 1}\n{"a": ' + "9" * 5000 + "}\n")
    with pytest.raises(ValueError, match=r"a.jsonl, line 2: Exceeds the limit"):
        list(json_lines(path))
    (tmp_path / "a.json").write_text("[" * 200_000)
    with pytest.raises(ValueError, match=r"a.json: nested too deeply"):
        read_json(tmp_path / "a.json")
    scores = tmp_path / "s.csv"
    scores.write_text("c0_i0,c0_i1,c1_i0,c1_i1\n1" + "0" * 400 + ",0,0,0\n")
    with pytest.raises(ValueError, match=r"s.csv: 1 rows hold a score that is no finite number: rows 0"):
        read_scores(scores)


def test_an_array_whose_header_lies_is_refused():
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (9000, 9000, 3)})
    with pytest.raises(ValueError, match="0 bytes for the shape"):
        decode_array(file.getvalue(), "x.npy")
    file = io.BytesIO()
    np.save(file, np.array([[["a"] * 3]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x.npy is object \(1, 1, 3\)"):
        decode_array(file.getvalue(), "x.npy")


def test_mutated_pickles_never_do_more_than_raise_a_value_error():
    import pickle

    whole = pickle.dumps({"v.mp4/1.png": {"bbox": np.arange(4, dtype=np.float32), "size": (480, 270)}}, protocol=2)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        broken = bytearray(whole)
        for position in rng.integers(0, len(whole), rng.integers(1, 6)):
            broken[position] = rng.integers(256)
        try:
            pickles.load(bytes(broken), "fuzz")
        except ValueError:
            refused += 1
    assert refused > 1000
    for evil in (b"cos\nsystem\n(S'echo'\ntR.", b"cnumpy\nndarray\n((I4\ntVO\ntR."):
        with pytest.raises(ValueError, match="is no"):
            pickles.load(evil, "evil.pkl")


# Images as cameras and programs make them


def stored(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_a_photo_is_turned_as_its_camera_was_held():
    image = Image.new("RGB", (6, 4), (10, 20, 30))
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(stored(image, "JPEG", exif=exif)).shape == (6, 4, 3)


def test_deep_pictures_are_scaled_and_unknown_scales_refused():
    deep = Image.fromarray(np.array([[0, 257 * 100, 65535]], np.uint16))
    assert decode(stored(deep))[0, :, 0].tolist() == [0, 100, 255]
    assert decode(stored(deep, "TIFF"))[0, :, 0].tolist() == [0, 100, 255]
    light = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    assert decode(stored(light, "TIFF"))[0, :, 0].tolist() == [0, 128, 255]
    with pytest.raises(ValueError, match="x has values from -1 to 2, expected 0 to 1 or 0 to 255"):
        decode(stored(Image.fromarray(np.array([[-1.0, 2.0]], np.float32)), "TIFF"), "x")
    with pytest.raises(ValueError, match="nan"):
        decode(stored(Image.fromarray(np.array([[np.nan, 1.0]], np.float32)), "TIFF"), "x")


def test_every_sixteen_bit_value_is_the_nearest_of_eight(tmp_path):
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    Image.fromarray(values).save(tmp_path / "all.png")
    expected = np.rint(values / 257)
    assert np.array_equal(decode(tmp_path / "all.png")[..., 0], expected)


def deep_tiff(values, together=True):
    """An unpacked TIFF of 16-bit colours, pixel by pixel or each colour by itself."""
    height, width, _ = values.shape
    planes = [values] if together else [values[..., colour] for colour in range(3)]
    strips = [np.ascontiguousarray(plane).astype("<u2").tobytes() for plane in planes]
    tags = [(256, width), (257, height), (258, (16, 16, 16)), (259, 1), (262, 2), (273, None), (277, 3), (278, height),
            (279, tuple(map(len, strips))), (284, 1 if together else 2)]  # fmt: skip
    after = 10 + 12 * len(tags) + 4
    pool, entries = b"", b""
    start = after + 6 + (8 * len(strips) if len(strips) > 1 else 0)
    for tag, value in tags:
        if tag == 273:
            value = tuple(start + sum(map(len, strips[:at])) for at in range(len(strips)))
        listed = value if isinstance(value, tuple) else (value,)
        kind = "I" if tag in (273, 279) else "H"
        packed = struct.pack(f"<{len(listed)}{kind}", *listed)
        entries += struct.pack("<HHI", tag, 4 if kind == "I" else 3, len(listed))
        if len(packed) > 4:
            entries += struct.pack("<I", after + len(pool))
            pool += packed
        else:
            entries += packed.ljust(4, b"\0")
    start_of_file = b"II" + struct.pack("<HIH", 42, 8, len(tags))
    return start_of_file + entries + bytes(4) + pool + b"".join(strips)


def test_deep_colours_are_read_or_refused():
    values = 1000 * np.arange(60, dtype=np.uint16).reshape(4, 5, 3)
    assert decode(deep_tiff(values))[2, 3].tolist() == (values[2, 3] // 256).tolist()
    with pytest.raises(ValueError, match="x is a TIFF of 16 bits that holds each colour by itself"):
        decode(deep_tiff(values, together=False), "x")


def test_transparency_lies_over_white():
    assert decode(stored(Image.new("RGBA", (1, 1), (0, 0, 0, 0))))[0, 0].tolist() == [255] * 3
    assert decode(stored(Image.new("LA", (1, 1), (0, 128))))[0, 0, 0] == pytest.approx(127, abs=1)
    palette = Image.new("P", (1, 1), 0)
    palette.putpalette([200, 10, 10])
    assert decode(stored(palette))[0, 0].tolist() == [200, 10, 10]
    assert decode(stored(palette, transparency=0))[0, 0].tolist() == [255] * 3


def ink_profile(inks):
    """A colour profile of CMYK by a table of its 16 corners: each is white but those said, as Lab in bytes."""
    corners = b"".join(bytes(inks.get(corner, (255, 128, 128))) for corner in range(16))
    straight = bytes(range(256))
    table = struct.pack(
        ">4s4xBBBx9i", b"mft1", 4, 3, 2, *(65536 * (row == column) for row in range(3) for column in range(3))
    )
    table += straight * 4 + corners + straight * 3
    white = struct.pack(">4s4x3i", b"XYZ ", 63190, 65536, 54061)
    about = struct.pack(">4s4xI5s", b"desc", 5, b"inks\0") + bytes(4 + 4 + 2 + 1 + 67)
    parts = {b"desc": about, b"cprt": struct.pack(">4s4x5s", b"text", b"none\0"), b"wtpt": white, b"A2B0": table}
    offset, head, body = 132 + 12 * len(parts), struct.pack(">I", len(parts)), b""
    for name, part in parts.items():
        part += bytes(-len(part) % 4)
        head += struct.pack(">4sII", name, offset + len(body), len(part))
        body += part
    size = 128 + len(head) + len(body)
    start = struct.pack(">I4sI4s4s4s12x4s", size, bytes(4), 0x02400000, b"prtr", b"CMYK", b"Lab ", b"acsp")
    return start.ljust(68, b"\0") + struct.pack(">3i", 63190, 65536, 54061) + bytes(48) + head + body


def test_cmyk_goes_through_its_profile_where_it_has_one_that_fits(caplog):
    ink = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    red = decode(stored(ink, "JPEG", quality=100))[4, 4]
    assert red[0] > 240
    assert max(red[1:]) < 15
    # Magenta and yellow together are a middle grey in this printer's view: Lab (50, 0, 0), which is 119 in sRGB.
    profile = ink_profile({6: (128, 128, 128), 9: (0, 128, 128)})
    for form, options in (("JPEG", {"quality": 100}), ("TIFF", {})):
        grey = decode(stored(ink, form, icc_profile=profile, **options))[4, 4]
        assert grey.tolist() == pytest.approx([119] * 3, abs=3)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for profile in (srgb, b"no profile"):
        assert decode(stored(ink, "TIFF", icc_profile=profile), "wrong")[4, 4].tolist() == [255, 0, 0]
    assert caplog.text.count("wrong has a colour profile that does not fit its pixels") == 2


def test_of_an_animation_the_first_frame_is_taken_and_said():
    frames = [Image.new("RGB", (2, 2), (value, 0, 0)) for value in (0, 255)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    with pytest.warns(AnimatedPictureWarning, match="x has several frames: the first is used"):
        assert decode(file.getvalue(), "x")[0, 0, 0] == 0


def test_postscript_starts_no_program(tmp_path, monkeypatch):
    """Pillow would give it to `gs`; one stands on the path that leaves a mark where it is started."""
    mark = tmp_path / "started"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    image = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "a.jpg").write_bytes(image)
    for source in (image, tmp_path / "a.jpg"):
        with pytest.raises(ValueError, match="cannot be decoded: cannot identify image file"):
            decode(source)
    assert not mark.exists()


def tiff_of_directories(count):
    """A grey pixel, and as many more directories that each name the next."""
    entries = [(256, 4, 1), (257, 4, 1), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 4, 1), (279, 4, 1)]
    content = bytearray(b"II*\0" + struct.pack("<I", 12) + b"\x7f\0\0\0")
    directory = struct.pack("<H", len(entries)) + b"".join(
        struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries
    )
    size = 2 + 12 * len(entries) + 4
    for number in range(count):
        following = 12 + (number + 1) * size if number + 1 < count else 0
        content += directory + struct.pack("<I", following)
    return bytes(content)


def test_a_tiffs_directories_are_not_walked():
    assert decode(tiff_of_directories(1)).shape == (1, 1, 3)
    with pytest.warns(AnimatedPictureWarning, match="several frames"):
        assert decode(tiff_of_directories(2))[0, 0, 0] == 127
    many = tiff_of_directories(20_000)  # 2 MB
    begun = time.process_time()
    with pytest.warns(AnimatedPictureWarning, match="several frames"):
        decode(many)
    assert time.process_time() - begun < 0.5  # walked by Pillow: several seconds


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_pipe_is_no_picture(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match="it is no file that holds data"):
        decode(tmp_path / "a.jpg")


# Forms without room


def test_eqbens_form_keeps_ids_masks_and_certificates(tmp_path):
    mask = Picture(content=encode_png(np.full((4, 4, 3), 255, np.uint8)))
    rows = [row("micro-7", mask, source={"video": "v"}, certificate={"a": 1}), row("micro-3", source={"video": "w"})]
    target = write_as(rows, tmp_path / "out", "eqben-flat")
    again = {pair.id: pair for pair in read_any(target)}
    assert sorted(again) == ["micro-3", "micro-7"]
    assert again["micro-7"].aspect == "count"
    assert again["micro-7"].extra["certificate"] == {"a": 1}
    assert again["micro-7"].mask is not None
    assert again["micro-7"].mask.load().min() == 255
    assert again["micro-3"].mask is None
    content = json.loads((target / "pairs.json").read_text())
    for change, message in (({"extra": 3}, "row 0: expected an object"), ({"mask": "../x.png"}, "leads out of")):
        (target / "pairs.json").write_text(json.dumps([content[0] | change]))
        with pytest.raises(ValueError, match=message):
            list(read_any(target))


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    columns = {"image_0": [b"x" * 1_000_000], "image_1": [b"x"], "caption_0": ["a"], "caption_1": ["b"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "100000")
    with pytest.raises(ValueError, match=r"a.parquet, row group 0 has [\d,]+ bytes, more than 100,000"):
        list(read_any(tmp_path / "a.parquet"))


@pytest.mark.parametrize("name", ["z" * 5000, "a\0b"])
def test_a_name_that_no_file_system_takes_names_no_picture(tmp_path, name):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps([{"image0": name, "image1": "b.png", "caption0": "a", "caption1": "b"}]))
    with pytest.raises(FileNotFoundError, match=r"pairs.json, row 0: field 'image0' names no image"):
        list(read_any(path))


def test_a_whole_build_is_known_again_by_other_versions(tmp_path, monkeypatch):
    build(small(), tmp_path / "pairs", pairs=1)
    monkeypatch.setattr(MicroBuilder, "versions", lambda self: {"numpy": "99.0", "pillow": "99.0"})
    before = (tmp_path / "pairs" / "manifest.json").read_bytes()
    assert build(small(), tmp_path / "pairs", pairs=1)["complete"]
    assert (tmp_path / "pairs" / "manifest.json").read_bytes() == before
    with pytest.raises(ValueError, match="holds another build: its pairs_of_each_aspect is 1, asked for is 2"):
        build(small(), tmp_path / "pairs", pairs=2)
    manifest = json.loads(before) | {"complete": False}
    (tmp_path / "pairs" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"its versions\.\w+ is .*; give a new folder"):
        build(small(), tmp_path / "pairs", pairs=1)


def test_folders_are_written_where_a_folder_is_no_file_to_open(tmp_path, monkeypatch):
    opened = os.open

    def as_windows(path, flags, *rest, **options):
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *rest, **options)

    monkeypatch.setattr(writing.os, "open", as_windows)
    monkeypatch.setattr(writing, "_FOLDERS_OPEN", False)
    assert build(small(), tmp_path / "pairs", pairs=1)["complete"]
    assert len(list(read_any(write_as(read_any(tmp_path / "pairs"), tmp_path / "flat", "eqben-flat")))) == 3


def test_verify_hashes_pictures_only_where_near_repeats_are_refused(built, monkeypatch):
    def never(picture):
        raise AssertionError("hashed")

    monkeypatch.setattr(verification, "perceptual_hash", never)
    assert verify(built).failures == ()


def test_workers_import_nothing_of_the_working_folder(tmp_path):
    """A file beside the user that is called like a library is first on the path of a new interpreter."""
    for name in ("multiprocessing", "pickle", "signal", "socket", "numpy", "PIL"):
        (tmp_path / f"{name}.py").write_text("open('RAN', 'w').close()")
    words = ["build", "micro", "pairs", "--pairs", "2", "--workers", "2"]
    script = f"from eqben_builder.cli import console; import sys; sys.argv[1:] = {words!r}; console()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    program = tmp_path.parent / "eqben.py"
    program.write_text("if __name__ == '__main__':\n    " + script)
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "RAN").exists()


def grey_tiff(path: Path, values: np.ndarray, photometric: int) -> None:
    """Write an unpacked TIFF of one row of 16-bit or float values; 0 is white where `photometric` is 0."""
    kind = {"u": 1, "i": 2, "f": 3}[values.dtype.kind]
    tags = {256: values.size, 257: 1, 258: values.itemsize * 8, 259: 1, 262: photometric, 273: 8, 277: 1, 278: 1,
            279: values.nbytes, 339: kind}  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = struct.pack("<2sHI", b"II", 42, 8 + values.nbytes)
    path.write_bytes(head + values.tobytes() + struct.pack("<H", len(tags)) + entries + struct.pack("<I", 0))


@pytest.mark.parametrize("dtype", ["<u2", "<f4"])
def test_values_that_grow_darker_are_turned_round(tmp_path: Path, dtype: str) -> None:
    """Films are scanned so; Pillow turns round 1 and 8 bits alone, and the others came out as negatives."""
    path, grey = tmp_path / "a.tif", np.arange(256)
    for photometric in (0, 1):
        grey_tiff(path, (grey * (257 if dtype == "<u2" else 1)).astype(dtype), photometric)
        expected = 255 - grey if photometric == 0 else grey
        assert (decode(path)[0, :, 1] == expected).all()


def test_signed_values_of_8_bits_are_refused(tmp_path: Path) -> None:
    """Pillow takes their bytes for unsigned ones: -1 came out as white, and 127 as grey."""
    grey_tiff(tmp_path / "a.tif", np.array([-128, -1, 0, 127], np.int8), 1)
    with pytest.raises(ValueError, match="TIFF of signed values of 8 bits"):
        decode(tmp_path / "a.tif")
