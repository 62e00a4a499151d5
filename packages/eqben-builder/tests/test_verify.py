from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import build, verify
from eqben_builder.building.evidence import pixel_change
from eqben_builder.building.folder import file_digest, final_hash
from eqben_builder.kubric import KubricBuilder
from eqben_builder.micro.builder import MicroBuilder


@pytest.fixture(scope="module", params=["micro", "kubric"])
def built(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "build"
    builder = MicroBuilder(size=48) if request.param == "micro" else KubricBuilder(engine="raster", size=64)
    build(builder, folder, pairs=8)
    return folder


@pytest.fixture
def copy(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def sign_again(folder):
    """Hashes made to fit the files, as somebody who tampers would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    manifest["hash"] = final_hash(manifest["files"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change_row(folder, number, change):
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    change(rows[number])
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    sign_again(folder)


def checks(folder):
    return {(failure.where, failure.check) for failure in verify(folder).failures}


def test_a_whole_build_has_no_failures(built):
    reports = []
    verification = verify(built, progress=lambda phase, done, total: reports.append((done, total)))
    assert verification.failures == ()
    assert verification.pairs == verification.certified == 24
    assert reports[-1] == (24, 24)


def test_a_changed_byte_a_missing_file_and_one_too_many_are_found(copy):
    (copy / "images" / "000" / "000001_0.png").unlink()
    (copy / "note.txt").write_text("extra")
    with (copy / "images" / "000" / "000002_1.png").open("ab") as file:
        file.write(b"x")
    name = json.loads((copy / "manifest.json").read_text())["subset"]
    assert {
        ("images/000/000001_0.png", "files"),
        ("note.txt", "files"),
        ("images/000/000002_1.png", "hash"),
        (f"{name}-000001", "pictures"),
    } == checks(copy)


def test_a_picture_that_is_missing_is_a_failure_beside_pairs_made_again(copy):
    for path in (copy / "images").rglob("*_1.png"):
        path.unlink()
    assert "pictures" in {failure.check for failure in verify(copy, render=4, seed=0).failures}


def test_a_pipe_in_the_place_of_a_picture_is_not_waited_for(copy):
    picture = next((copy / "images").rglob("*.png"))
    picture.unlink()
    os.mkfifo(picture)
    assert any("no file that holds data" in failure.found for failure in verify(copy, render=1, seed=0).failures)


def test_a_manifest_that_was_edited_is_found(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"hash": "0" * 64, "counts": {"attribute": 9}}))
    assert checks(copy) == {("manifest.json", "hash"), ("manifest.json", "counts")}
    (copy / "manifest.json").write_text(json.dumps(manifest | {"complete": False}))
    assert ("manifest.json", "complete") in checks(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(caption1=row["caption0"] + " "),
        lambda row: row.pop("licence"),
        lambda row: row.update(image0="../x.png"),
    ],
)
def test_a_row_that_is_no_record_is_found(copy, change):
    change_row(copy, 3, change)
    assert ("pairs.jsonl, line 4", "record") in checks(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(caption0=row["caption1"], caption1=row["caption0"]),
        lambda row: row.update(aspect="location" if row["aspect"] == "attribute" else "attribute"),
        lambda row: row["source"].update(scene1=row["source"]["scene0"]),
        lambda row: row["source"].pop("scene0"),
        lambda row: row["certificate"]["pixels"].update(changed=0.5),
        lambda row: row["certificate"].update(token_edits=[]),
        lambda row: row["certificate"]["difference"].update(field="mood"),
    ],
)
def test_a_certificate_that_does_not_hold_is_found(copy, change):
    name = json.loads((copy / "pairs.jsonl").read_text().splitlines()[0])["id"]
    change_row(copy, 0, change)
    assert (name, "certificate") in checks(copy)


def test_pictures_that_were_exchanged_are_found(copy):
    name = json.loads((copy / "pairs.jsonl").read_text().splitlines()[0])["id"]
    change_row(copy, 0, lambda row: row.update(image0=row["image1"], image1=row["image0"]))
    assert (name, "record") in checks(copy)


def test_without_its_mask_the_rest_of_a_certificate_is_made_again(copy):
    def without_mask(row):
        row["certificate"].pop("mask", None)
        row["certificate"]["pixels"]["moved"] += 0.001

    name = json.loads((copy / "pairs.jsonl").read_text().splitlines()[0])["id"]
    change_row(copy, 0, without_mask)
    assert checks(copy) == {(name, "certificate")}
    change_row(
        copy,
        0,
        lambda row: row["certificate"]["pixels"].update(moved=round(row["certificate"]["pixels"]["moved"] - 0.001, 6)),
    )
    assert checks(copy) == set()


def test_pictures_that_were_painted_over_are_found(copy):
    path = copy / "images" / "000" / "000004_1.png"
    pixels = np.array(Image.open(path))
    pixels[:20] = 255
    Image.fromarray(pixels).save(path)
    sign_again(copy)
    assert {check for _, check in checks(copy)} == {"certificate"}


def test_a_pair_given_twice_is_found(copy):
    lines = (copy / "pairs.jsonl").read_text().splitlines(keepends=True)
    row = json.loads(lines[0])
    again = row | {"id": row["id"].replace("000000", "777777")}
    (copy / "pairs.jsonl").write_text("".join([*lines, f"{json.dumps(again)}\n"]))
    sign_again(copy)
    assert {(again["id"], "duplicates"), ("manifest.json", "counts")} == checks(copy)
    (copy / "pairs.jsonl").write_text("".join([*lines, lines[0]]))
    sign_again(copy)
    assert (row["id"], "record") in checks(copy)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no manifest\.json"):
        verify(tmp_path)


def change_parameters(folder, **changes):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parameters"] |= changes
    path.write_text(json.dumps(manifest))


def test_pairs_made_anew_tell_pictures_that_were_exchanged(tmp_path):
    """One pixel outside of the mask: no certificate speaks of it, and all hashes are made to fit."""
    folder = tmp_path / "kubric"
    build(KubricBuilder(engine="raster", size=64, aspects=["counting"]), folder, pairs=3)
    assert verify(folder, render=3).failures == ()

    def spot(row):
        path = folder / row["image0"]
        picture = np.array(Image.open(path))
        picture[0, 0] ^= 1
        Image.fromarray(picture).save(path)
        mask = np.array(Image.open(folder / row["certificate"]["mask"]).convert("L")) > 127
        other = np.array(Image.open(folder / row["image1"]))
        row["certificate"]["pixels"] |= pixel_change(picture, other, mask)

    change_row(folder, 1, spot)
    sign_again(folder)
    assert verify(folder).failures == ()
    (failure,) = verify(folder, render=3).failures
    assert (failure.where, failure.check) == ("kubric-000001", "render")
    assert "image 0 is not that of its scene" in failure.found


def test_edited_licences_and_parameters_are_found(copy):
    change_row(copy, 0, lambda row: row.update(licence="all rights reserved"))
    sign_again(copy)
    assert [failure.check for failure in verify(copy).failures] == ["licence"]
    change_row(copy, 0, lambda row: row.update(licence="CC0-1.0"))
    sign_again(copy)
    assert verify(copy, render=2, seed=1).failures == ()
    change_parameters(copy, seed=7)
    assert verify(copy).failures == ()
    assert {failure.check for failure in verify(copy, render=2, seed=1).failures} == {"render"}
    change_parameters(copy, mood="grim")
    with pytest.raises(ValueError, match="the manifest's parameters are not those of"):
        verify(copy, render=1)


def test_what_cannot_be_made_again_is_said(copy):
    with pytest.raises(ValueError, match="render = -1"):
        verify(copy, render=-1)
    path = copy / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"subset": "ag"}))
    with pytest.raises(ValueError, match="pairs of the subset 'ag' are not made from parameters alone"):
        verify(copy, render=1)


@pytest.mark.parametrize("other", [None, 1.5, "\ud800", {"a": 1}])
@pytest.mark.parametrize(
    "builder", [MicroBuilder(aspects=["count"], size=32), KubricBuilder(aspects=["counting"], engine="raster", size=64)]
)
def test_whatever_stands_in_a_row_or_manifest_is_a_failure_or_one_line(tmp_path, builder, other):
    """Values of any type in place of a certificate's, a source's and the manifest's: no traceback."""
    build(builder, tmp_path, pairs=1)
    line = (tmp_path / "pairs.jsonl").read_text()
    row = json.loads(line)
    changed = [row | {kind: row[kind] | {name: other}} for kind in ("source", "certificate") for name in row[kind]]
    for another in changed:
        (tmp_path / "pairs.jsonl").write_text(f"{json.dumps(another)}\n")
        assert checks(tmp_path)
    (tmp_path / "pairs.jsonl").write_text(line)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    changed = [manifest | {name: other} for name in manifest]
    changed += [manifest | {"parameters": manifest["parameters"] | {name: other}} for name in manifest["parameters"]]
    for another in changed:
        (tmp_path / "manifest.json").write_text(json.dumps(another))
        try:
            verify(tmp_path, render=1)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017 - others pass: what is written may be the builder's own
