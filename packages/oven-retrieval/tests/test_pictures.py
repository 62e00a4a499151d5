"""Images of strangers: none starts a program or holds the process."""

from __future__ import annotations

import os
import struct
import time

import pytest

Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

from oven_retrieval.pictures import read_rgb  # noqa: E402  # Pillow may be absent


def test_postscript_starts_no_program(tmp_path, monkeypatch):
    """Pillow would give it to `gs`; one stands on the path that leaves a mark where it is started."""
    mark = tmp_path / "started"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    (tmp_path / "a.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with pytest.raises(OSError, match="cannot identify image file"):
        read_rgb(tmp_path / "a.jpg")
    assert not mark.exists()


def test_a_tiffs_directories_are_not_walked(tmp_path):
    """One grey pixel, and 20,000 directories that each name the next: 2 MB."""
    tags = [(256, 4, 1), (257, 4, 1), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 4, 1), (279, 4, 1)]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", t, kind, 1, v) for t, kind, v in tags)
    content = [b"II*\0" + struct.pack("<I", 12) + b"\x7f\0\0\0"]
    for number in range(1, 20_001):
        content += directory, struct.pack("<I", 12 + number * (len(directory) + 4) if number < 20_000 else 0)
    (tmp_path / "a.tif").write_bytes(b"".join(content))
    start = time.process_time()
    assert read_rgb(tmp_path / "a.tif").getpixel((0, 0)) == (127, 127, 127)
    assert time.process_time() - start < 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="no file that holds data"):
        read_rgb(tmp_path / "a.png")


def test_cmyk_whose_profile_does_not_fit_is_read_without_it(tmp_path, caplog):
    """An image that was converted may carry the profile of what it was."""
    of_screens = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name, profile in (("other", of_screens), ("broken", b"no profile")):
        path = tmp_path / f"{name}.tif"
        Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(path, icc_profile=profile)
        assert read_rgb(path).getpixel((0, 0)) == (255, 0, 0)
        assert f"{path} has a colour profile that does not fit its pixels" in caplog.text
