"""The models that GATE compares, by one command, and ELEVATER's tables of data sets."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path

import pytest

from gate_runner.commands import paper_models as of_papers
from gate_runner.commands.paper_models import GATE_MODELS, PaperModel, models_named
from gate_runner.errors import UsageError
from vision_features.encoders.spec import parse_spec

from ._command import call_here


def test_the_models_are_the_columns_of_gates_table() -> None:
    table = files("eevee").joinpath("tables", "data", "gate_full.csv")
    columns = next(csv.reader(table.read_text(encoding="utf-8").splitlines()))
    assert [name for name in columns if name in GATE_MODELS] == list(GATE_MODELS)
    assert len(GATE_MODELS) == 21
    assert sum(parse_spec(model.spec).random_seed is not None for model in GATE_MODELS.values()) == 4


@pytest.mark.parametrize("name", sorted(GATE_MODELS))
def test_every_spec_names_a_model_with_weights(name: str) -> None:
    spec = parse_spec(GATE_MODELS[name].spec)
    if spec.source == "timm":
        timm = pytest.importorskip("timm")
        assert timm.is_model(spec.name.partition(".")[0])
        assert spec.random_seed is not None or spec.name in timm.list_models(pretrained=True)
    elif spec.source == "open_clip":
        open_clip = pytest.importorskip("open_clip")
        assert spec.weights in open_clip.list_pretrained_tags_by_model(spec.name)
    else:
        assert spec.source in ("hf-text", "hf-audio")


def test_one_command_runs_them_all_and_names_those_that_do_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {
        "vit": PaperModel("micro-clip/random:1"), "gone": PaperModel("timm:test_vit/nowhere.pth"),
        "svit": PaperModel("micro-clip/random:2"),
    }  # fmt: skip
    monkeypatch.setattr(of_papers, "GATE_MODELS", tiny)
    how = ["--limit", "30", "--isolate", "none", "--output", "all", "--json"]
    done = call_here("run", "digits", "--models", "gate", *how, cwd=tmp_path)
    assert done.returncode == 1
    rows = json.loads(done.stdout)
    assert [row["model"] for row in rows] == ["vit", "gone", "svit"]
    assert [len(row["results"]) for row in rows] == [1, 0, 1]
    assert "nowhere.pth" in rows[1]["reason"]
    assert "1 of 3 models did not load: gone" in done.stderr.decode()
    assert (tmp_path / "all" / "svit" / "manifest.json").is_file()
    compared = call_here("compare", "all/vit", "all/svit", cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr


def test_names_that_no_model_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nearest: dino"):
        models_named("vit,dinno")
    with pytest.raises(UsageError, match="names none"):
        models_named(" , ")
    done = call_here("run", "digits", "--models", "gate", "--encoder", "micro-clip", "--output", "a", cwd=tmp_path)
    assert (done.returncode, b"leave --encoder out" in done.stderr) == (2, True)


def test_they_are_listed(tmp_path: Path) -> None:
    listed = json.loads(call_here("ls", "models", "--json", cwd=tmp_path).stdout)
    assert [row["model"] for row in listed] == list(GATE_MODELS)


def test_elevaters_tables_of_data_sets_are_printed(tmp_path: Path) -> None:
    printed = call_here("ls", "statistics", cwd=tmp_path).stdout.decode()
    assert "638,429" in printed
    assert "192,677" in printed
    compared = call_here("ls", "statistics", "compared", cwd=tmp_path).stdout.decode()
    assert "ELEVATER (ODinW)" in compared
    assert json.loads(call_here("ls", "statistics", "odinw", "--json", cwd=tmp_path).stdout)[-1]["test"] == 20_070
    wrong = call_here("ls", "statistics", "voc", cwd=tmp_path)
    assert (wrong.returncode, b"expected compared, icinw, odinw" in wrong.stderr) == (2, True)
