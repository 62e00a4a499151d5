"""``gate-runner eqben score``, ``convert``, ``review`` and ``apply-votes``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import build, read_records
from eqben_builder.formats import read_any
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.pages.review import source_of
from gate_runner.cli import main
from gate_runner.commands.libraries import Cropping
from vision_features.encoders import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eqben") / "pairs"
    build(MicroBuilder(size=64), folder, pairs=4)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["eqben", *map(str, arguments)])
    shown = capsys.readouterr()
    assert not stopped.value.code, shown.err
    return shown.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["eqben", *map(str, arguments)])
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    return shown


def test_every_form_gives_the_same_scores(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, page = tmp_path / "s.npz", tmp_path / "page.html"
    shown = run(capsys, "score", folder, "--save", saved, "--page", page, "--blind")
    lines = shown.splitlines()
    assert [line.split()[0] for line in lines[2:8]] == ["micro", "attribute", "count", "relation", "macro", "all"]
    assert "blind: caption 0 likelier" in shown
    assert "median equivariance score" in page.read_text()
    for form in ("parquet", "eqben-flat"):
        run(capsys, "convert", folder, tmp_path / form, "--format", form)
        again = run(capsys, "score", tmp_path / form)
        assert again.splitlines()[:9] == lines[:9]
    own = run(capsys, "score", folder, "--scores", saved)
    assert own.splitlines()[1:9] == lines[1:9]
    both = run(capsys, "score", folder, "--scores", saved, "--encoder", "micro-clip/random", "--limit", 12)
    assert [line for line in both.splitlines() if line in ("s", "micro-clip/random")] == ["s", "micro-clip/random"]


def test_similarities_are_the_encoders_cosines(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    saved = tmp_path / "s.npz"
    run(capsys, "score", folder, "--save", saved, "--batch-size", 5)
    encoder, row = load_encoder("micro-clip"), next(iter(read_any(folder)))
    images = torch.stack([torch.from_numpy(picture.load()).permute(2, 0, 1) for picture in row.pictures()])
    v = torch.nn.functional.normalize(encoder.encode_image(images).double(), dim=-1)
    t = torch.nn.functional.normalize(encoder.encode_text([row.caption0, row.caption1]).double(), dim=-1)
    assert np.allclose(np.load(saved)["scores"][0], (t @ v.T).numpy(), atol=1e-5)


def test_pictures_of_any_size_are_cropped_to_squares() -> None:
    encoder = Cropping(load_encoder("micro-clip"))
    square = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    wide = np.concatenate([np.zeros((40, 9, 3), np.uint8), square, np.zeros((40, 9, 3), np.uint8)], axis=1)
    assert np.array_equal(encoder.encode_image([square]), encoder.encode_image([wide]))
    mixed = encoder.encode_image([square, np.zeros((20, 30, 3), np.uint8)])
    assert mixed.shape[0] == 2
    assert np.isfinite(mixed).all()


def test_valse_is_asked_what_its_scores_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (32, 24), "red").save(tmp_path / "v.png")
    rows = {
        f"r{k}": {"image_file": "v.png", "caption": f"a red square {k}", "foil": f"a blue square {k}",
                  "linguistic_phenomena": "x", "mturk": {"caption": 3}}
        for k in range(12)
    }  # fmt: skip
    source = tmp_path / "existence.json"
    source.write_text(json.dumps(rows))
    shown = run(capsys, "score", source)
    assert "pairwise" in shown
    assert "need a threshold: give --scale" in shown
    assert "min(p_c, p_f)" in run(capsys, "score", source, "--scale", "calibrated")
    assert "neither 'probability' nor 'calibrated'" in refused(capsys, "score", source, "--scale", "cosine")
    cosines = tmp_path / "c.csv"
    cosines.write_text("c0_i0,c1_i0\n" + "0.3,0.2\n" * 12)
    assert "look like cosines" in refused(capsys, "score", source, "--scores", cosines, "--scale", "probability")
    assert "rows of one image" in refused(capsys, "score", source, "--page", tmp_path / "p.html")


def test_own_fusion_models(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_pair_models.py").write_text(
        "def fusion():\n"
        "    return lambda images, captions: [i.mean() + len(c) for i, c in zip(images, captions, strict=True)]\n"
        "number = 3\n"
        "def nothing():\n"
        "    return None\n"
    )
    shown = run(capsys, "score", folder, "--fusion", "own_pair_models:fusion", "--save", tmp_path / "f.npz")
    assert shown.startswith("own_pair_models:fusion")
    row = next(iter(read_any(folder)))
    expected = row.image1.load().mean() + len(row.caption0) if row.image1 else None
    assert np.load(tmp_path / "f.npz")["scores"][0, 0, 1] == pytest.approx(expected)
    assert "has no 'absent'" in refused(capsys, "score", folder, "--fusion", "own_pair_models:absent")
    assert "expected MODULE:FUNCTION" in refused(capsys, "score", folder, "--fusion", "talker")
    assert "cannot be called" in refused(capsys, "score", folder, "--fusion", "own_pair_models:nothing")


def test_broken_scores_are_one_line(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = np.zeros((12, 2, 2))
    scores[3, 0, 0] = np.nan
    np.savez(tmp_path / "nan.npz", scores=scores)
    assert "no finite number: rows 3" in refused(capsys, "score", folder, "--scores", tmp_path / "nan.npz")
    np.savez(tmp_path / "short.npz", scores=np.zeros((5, 2, 2)))
    assert "5 rows of scores for 12 pairs" in refused(capsys, "score", folder, "--scores", tmp_path / "short.npz")
    assert "nearest: parquet" in refused(capsys, "convert", folder, tmp_path / "x", "--format", "parquett")
    assert "does not exist" in refused(capsys, "score", tmp_path / "absent")


def test_a_review_is_written_and_its_votes_applied(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "review.html"
    assert "12 pairs in" in run(capsys, "review", folder, page)
    assert "5 pairs in" in run(capsys, "review", folder, tmp_path / "part.html", "--sample", 5)
    records = list(read_records(folder))
    shown = source_of((record.id, record.caption0, record.caption1) for record in records)
    assert shown in page.read_text()
    votes = tmp_path / "votes.json"
    cast = {records[2].id: {"vote": "reject", "note": "too small"}}
    votes.write_text(json.dumps({"schema": "eqben-votes/1", "source": shown, "reviewer": "R", "votes": cast}))
    output = run(capsys, "apply-votes", folder, tmp_path / "kept", "--votes", votes)
    assert output.startswith("11 pairs in")
    assert records[2].id not in {record.id for record in read_records(tmp_path / "kept")}
    assert "exists already" in refused(capsys, "apply-votes", folder, tmp_path / "kept", "--votes", votes)


def test_a_model_whose_function_fails_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_model.py").write_text("def make():\n    raise KeyError('weights')\n")
    monkeypatch.chdir(tmp_path)
    shown = refused(capsys, "score", folder, "--fusion", "failing_model:make")
    assert "make() raised KeyError: 'weights'" in shown
