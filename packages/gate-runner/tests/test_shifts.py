"""Shifted test images: corruptions against slow definitions, one head for all of them, and what is refused."""

from __future__ import annotations

import colorsys
import math
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.pictures import Pictures
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.shifts import Shift, named_shifts
from gate_runner.shifts.corruptions import CORRUPTIONS, grey, resolution
from gate_runner.shifts.filters import defocused, disk, motion_blurred, plasma
from vision_features.features import encoding

from ._command import call_here

SIDE = 40
IMAGE = np.random.default_rng(0).random((SIDE, SIDE, 3))


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


def mirrored(place: int, side: int) -> int:
    while not 0 <= place < side:
        place = -place if place < 0 else 2 * (side - 1) - place
    return place


@pytest.mark.parametrize("strength", range(5))
def test_noises_are_their_definitions(strength: int) -> None:
    normal = IMAGE + generator().normal(size=IMAGE.shape, scale=[0.08, 0.12, 0.18, 0.26, 0.38][strength])
    np.testing.assert_allclose(CORRUPTIONS["gaussian_noise"](IMAGE, strength, generator()), normal)
    photons = [60, 25, 12, 5, 3][strength]
    shot = generator().poisson(IMAGE * photons) / photons
    np.testing.assert_array_equal(CORRUPTIONS["shot_noise"](IMAGE, strength, generator()), shot)
    amount = [0.03, 0.06, 0.09, 0.17, 0.27][strength]
    hit = CORRUPTIONS["impulse_noise"](np.full((200, 200, 3), 0.5), strength, generator())
    assert np.mean(hit != 0.5) == pytest.approx(amount, rel=0.1)
    assert np.mean(hit[hit != 0.5]) == pytest.approx(0.5, abs=0.05)
    noise = pytest.importorskip("skimage.util").random_noise(IMAGE, mode="s&p", amount=amount, rng=generator())
    np.testing.assert_array_equal(CORRUPTIONS["impulse_noise"](IMAGE, strength, generator()), noise)


@pytest.mark.parametrize("strength", range(5))
def test_frost_is_the_published_sum_over_one_drawn_texture(strength: int) -> None:
    keep, ice = [(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)][strength]
    texture = CORRUPTIONS["frost"](np.zeros_like(IMAGE), 0, generator()) / 0.4
    assert texture.min() >= 0
    assert texture.max() <= 1
    assert texture.std() > 0.1
    np.testing.assert_allclose(CORRUPTIONS["frost"](IMAGE, strength, generator()), keep * IMAGE + ice * texture)


@pytest.mark.parametrize(("radius", "blur"), [(3, 0.1), (10, 0.5)])
def test_defocus_is_a_correlation_with_a_disk(radius: int, blur: float) -> None:
    kernel = disk(radius, blur)
    assert kernel.sum() == pytest.approx(1, rel=0.02)  # at radius 10 the published disk touches its mirrored border
    reach = len(kernel) // 2
    assert reach == max(8, radius)
    fast = defocused(IMAGE, radius, blur)
    for row, column in ((0, 0), (3, 39), (20, 11)):
        slow = sum(
            kernel[i, j] * IMAGE[mirrored(row + i - reach, SIDE), mirrored(column + j - reach, SIDE)]
            for i in range(len(kernel))
            for j in range(len(kernel))
        )
        np.testing.assert_allclose(fast[row, column], slow)


@pytest.mark.parametrize("angle", [-45.0, -7.0, 0.0, 30.0])
def test_motion_blur_follows_a_line(angle: float) -> None:
    fast = motion_blurred(IMAGE, 10, 3, angle)
    weights = [math.exp(-(tap**2) / 18) for tap in range(21)]
    for row, column in ((0, 0), (39, 2), (20, 20)):
        slow = np.zeros(3)
        for tap, weight in enumerate(weights):
            below = math.ceil(tap * math.sin(math.radians(angle)) - 0.5)
            right = math.ceil(tap * math.cos(math.radians(angle)) - 0.5)
            slow += weight / sum(weights) * IMAGE[min(max(row + below, 0), 39), min(max(column + right, 0), 39)]
        np.testing.assert_allclose(fast[row, column], slow)


def test_a_fractal_is_the_diamond_square_algorithm() -> None:
    size, decay, rng = 8, 2.0, generator()
    field, step, amplitude = np.zeros((size, size)), size, 100.0

    def filled(places: list[tuple[int, int]], near: list[tuple[int, int]]) -> None:
        draws = rng.uniform(-amplitude, amplitude, len(places))
        means = [sum(field[(r + i) % size, (c + j) % size] for i, j in near) / 4 for r, c in places]
        for place, mean, draw in zip(places, means, draws, strict=True):
            field[place] = mean + amplitude * draw

    while step >= 2:
        half = step // 2
        corners = [(i, j) for i in (-half, half) for j in (-half, half)]
        cross = [(-half, 0), (half, 0), (0, -half), (0, half)]
        every, between = range(0, size, step), range(half, size, step)
        filled([(r, c) for r in between for c in between], corners)
        filled([(r, c) for r in every for c in between], cross)
        filled([(r, c) for r in between for c in every], cross)
        step, amplitude = half, amplitude / decay
    field -= field.min()
    np.testing.assert_allclose(plasma(size, decay, generator()), field / field.max())


@pytest.mark.parametrize("strength", range(5))
def test_colours_and_scales_are_their_definitions(strength: int) -> None:
    more = [0.1, 0.2, 0.3, 0.4, 0.5][strength]
    bright = CORRUPTIONS["brightness"](IMAGE, strength, generator())
    for row, column in ((0, 0), (17, 30)):
        hue, saturation, value = colorsys.rgb_to_hsv(*IMAGE[row, column])
        np.testing.assert_allclose(bright[row, column], colorsys.hsv_to_rgb(hue, saturation, min(1, value + more)))
    assert CORRUPTIONS["brightness"](np.zeros((16, 16, 3)), strength, generator())[0, 0, 0] == more
    share = [0.4, 0.3, 0.2, 0.1, 0.05][strength]
    flat = CORRUPTIONS["contrast"](IMAGE, strength, generator())
    mean = IMAGE[..., 1].mean()
    assert flat[3, 4, 1] == pytest.approx(mean + share * (IMAGE[3, 4, 1] - mean))
    whole = Image.fromarray(np.rint(IMAGE * 255).astype(np.uint8))
    small = whole.resize((int(SIDE * [0.6, 0.5, 0.4, 0.3, 0.25][strength]),) * 2, Image.Resampling.BOX)
    boxes = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BOX))
    np.testing.assert_allclose(CORRUPTIONS["pixelate"](IMAGE, strength, generator()) * 255, boxes)
    assert len(np.unique(grey(IMAGE, 0, generator())[5, 5])) == 1
    assert resolution(IMAGE, strength, generator()).std() < IMAGE.std()


def test_glass_leaves_the_border_and_moves_pixels_by_its_reach() -> None:
    lines = np.repeat(np.arange(SIDE)[:, None, None] / SIDE, SIDE, 1).repeat(3, 2)
    glass = CORRUPTIONS["glass_blur"](lines, 0, generator())
    assert np.abs(glass - lines).max() < 5 / SIDE  # two rounds of one pixel, and two blurs
    assert np.abs(glass - lines)[4:-4].max() > 0.5 / SIDE
    assert np.ptp(glass[0]) < 2 / 255


@pytest.mark.parametrize("shift", named_shifts(["corruptions", "resolution", "grey"]), ids=str)
def test_every_shift_is_the_same_each_time_and_changes_the_image(shift: Shift) -> None:
    pixels = np.rint(IMAGE * 255).astype(np.uint8).transpose(2, 0, 1)[:, :33].copy()  # not square
    first, again = shift(pixels), shift(pixels)
    assert (first.shape, first.dtype) == (pixels.shape, np.uint8)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, pixels)


@pytest.mark.parametrize("name", sorted({*CORRUPTIONS} - {"elastic_transform", "frost"}))  # theirs differ in kind
def test_strength_five_is_further_away_than_one(name: str) -> None:
    smooth = np.rint(np.outer(np.sin(np.linspace(0, 3, 96)), np.ones(96)) * 200).astype(np.uint8)
    pixels = np.stack([smooth, smooth.T, 255 - smooth])
    distances = [np.abs(Shift(name, strength)(pixels).astype(float) - pixels).mean() for strength in (1, 5)]
    assert distances[0] < distances[1]


@pytest.mark.parametrize("side", [2, 15])
def test_a_tiny_image_is_refused(side: int) -> None:
    with pytest.raises(DataError, match=f"an image of {side} x {side} pixels cannot be shifted: expected at least 16"):
        Shift("fog", 1)(np.zeros((3, side, side), np.uint8))


def run_digits(folder: Path, shift: tuple[str, ...]) -> Result:
    gate_runner.run("digits", encoder="micro-dense", output=folder, limit=60, show=False, isolate="none", shift=shift)
    return read_run(folder).results[0]


def test_a_run_scores_shifts_by_one_head_and_keeps_what_was_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run_digits(tmp_path / "a", ())
    result = run_digits(tmp_path / "a", ("contrast", "grey"))  # the finished result has no shifts: computed again
    assert (result.scores, result.samples_sha256) == (plain.scores, plain.samples_sha256)
    rows = result.training["shifts"]
    assert [(row["shift"], row["strength"]) for row in rows] == [*(("contrast", n) for n in range(1, 6)), ("grey", 1)]
    for row in rows:
        change, low, high = row["change"]
        assert change == pytest.approx(row["value"] - plain.scores[0].value)
        assert low <= change <= high
        assert row["low"] <= row["value"] <= row["high"]
    assert rows[4]["value"] < plain.scores[0].value
    page = gate_runner.report(tmp_path / "a")
    assert "Under shifts" in page
    assert "relative drop" in page
    monkeypatch.setattr(encoding, "features_of_kind", None)  # whoever encodes again fails
    again = run_digits(tmp_path / "b", ("contrast", "grey"))
    assert again.training["shifts"] == rows


def test_class_prompts_are_scored_under_shifts(tmp_path: Path) -> None:
    gate_runner.run(
        "icinw-things", encoder="micro-dense", output=tmp_path, limit=40, show=False, isolate="none", shots=("0",),
        shift=("contrast",),
    )  # fmt: skip
    (result,) = read_run(tmp_path).results
    assert result.status == "ok", result.reason
    rows = result.training["shifts"]
    assert len(rows) == 5
    for row in rows:
        assert row["change"][0] == pytest.approx(row["value"] - result.scores[0].value, abs=1e-6)
    assert "Under shifts" in gate_runner.report(tmp_path)


def test_pictures_in_files_are_shifted_and_a_tiny_one_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind in ("dark", "light"):
        (tmp_path / "own" / kind).mkdir(parents=True)
        for number in range(12):
            values = rng.integers(0, 90, (40, 40, 3)) + (150 if kind == "light" else 0)
            Image.fromarray(values.astype(np.uint8)).save(tmp_path / "own" / kind / f"{number}.png")
    command = ("run", "--data", "own", "--setting", "shift=brightness", "--isolate", "none", "--output")
    done = call_here(*command, "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = read_run(tmp_path / "out").results
    assert [row["strength"] for row in result.training["shifts"]] == [1, 2, 3, 4, 5]
    assert result.memory["encoded"] == 24 + 5 * result.data["test"]
    Image.new("RGB", (2, 2)).save(tmp_path / "own" / "dark" / "0.png")
    for kind in ("dark", "light"):
        for number in range(12):
            Image.new("RGB", (2, 2), (number, 9 * number, 0)).save(tmp_path / "own" / kind / f"{number}.png")
    call_here(*command, "tiny", cwd=tmp_path)
    (result,) = read_run(tmp_path / "tiny").results
    assert result.status == "failed"
    assert "has 2 x 2 pixels and cannot be shifted" in result.reason


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        ("digits", {"shift": ("fogg",)}, "unknown shift 'fogg'; nearest: fog"),
        ("digits", {"shift": ("fog",), "tune": "full"}, "for frozen encoders"),
        ("digits", {"shift": ("fog",), "folds": 5}, "and folds"),
        ("micro/ade20k", {"shift": ("fog",)}, "ade20k is segmentation; expected image classification"),
    ],
)
def test_what_cannot_be_shifted_is_refused_before_anything_runs(
    tmp_path: Path, names: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        gate_runner.run(names, encoder="micro-dense", output=tmp_path / "out", show=False, **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_images_of_every_kind_that_is_read_are_looked_at_before_they_are_shifted(tmp_path: Path) -> None:
    """DICOM files ended the run, for Pillow alone was asked how large they are; a pipe was waited for."""
    pydicom = pytest.importorskip("pydicom")
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    from gate_runner.tasks.shifted import _check

    content = pydicom.Dataset()
    content.file_meta = pydicom.dataset.FileMetaDataset()
    content.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    content.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    content.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    content.PhotometricInterpretation, content.SamplesPerPixel, content.PixelRepresentation = "MONOCHROME2", 1, 0
    content.BitsAllocated = content.BitsStored = 8
    content.HighBit = 7
    for side in (16, 8):
        content.Rows = content.Columns = side
        content.PixelData = bytes(side * side)
        pydicom.dcmwrite(tmp_path / f"{side}.dcm", content, enforce_file_format=True)
    _check(Pictures.of([str(tmp_path / "16.dcm")], 32))
    with pytest.raises(DataError, match=r"8\.dcm has 8 x 8 pixels and cannot be shifted"):
        _check(Pictures.of([str(tmp_path / "8.dcm")], 32))
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match="is no file that holds data"):
        _check(Pictures.of([str(tmp_path / "a.png")], 32))
