"""The grid of micro/icinw: what it shares, chooses, skips, keeps, and how it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.cli import main
from gate_runner.encoders import load_encoder
from gate_runner.errors import DataError, UsageError
from gate_runner.icinw import Axes, Cell, Record, make_grid_request, read_cells, run_grid
from gate_runner.icinw import filling as filling_module
from gate_runner.icinw.cells import FULL
from gate_runner.icinw.choosing import choose
from gate_runner.icinw.record import cell_file, save
from gate_runner.icinw.request import GridRequest
from gate_runner.icinw.sets import is_grid, resolve_sets
from gate_runner.icinw.tables import short_classes
from gate_runner.icinw.texts import Embedder, class_texts
from gate_runner.micro.icinw_texts import TEXTS
from gate_runner.settings import Settings

SETS = ("icinw-makers", "icinw-shapes")
AXES = Axes(
    shots=(0, 2, 500, FULL),
    knowledge=("none", "gpt3", "auto"),
    seeds=(0, 1),
)
QUICK = Settings(limit=48, recipe_fields={"steps": "1"})


def request_in(folder: Path, **changes: object) -> GridRequest:
    said = {"axes": AXES, "settings": QUICK, "keep_predictions": True, **changes}
    return make_grid_request(SETS, output=folder, **said)  # type: ignore[arg-type]  # as given


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid") / "run"
    run_grid(request_in(folder))
    return folder


def by_name(folder: Path, dataset: str) -> dict[str, Record]:
    return {one.cell.name: one for one in read_cells(folder) if one.cell.dataset == dataset}


def test_micro_sets_have_their_names_texts_and_images() -> None:
    for name in PACKS["micro/icinw"]:
        benchmark = BENCHMARKS[name]
        data = benchmark.load(next(iter(benchmark.sources)), DataRequest(limit=24))
        assert data.classes == tuple(TEXTS[name].classes)
        for said in TEXTS[name].knowledge.values():
            assert set(said) <= set(data.classes)
        if name != "digits":
            assert data.digest() == benchmark.load("micro", DataRequest(limit=24)).digest()


def test_axes_say_which_cells_there_are() -> None:
    counted = Counter((cell.shots, cell.tune, cell.init, cell.knowledge) for cell in AXES.cells("a"))
    assert counted[0, "frozen", "language", "gpt3"] == 1  # zero-shot has neither seeds nor projections
    assert counted[2, "frozen", "random", "none"] == 2  # two seeds
    assert counted[FULL, "frozen", "language", "auto"] == 1  # all images are the same for each seed
    assert counted[2, "frozen", "language", "random-words"] == 2
    both = Axes(tune=("frozen", "full"), projection=("1p", "2p"), knowledge=("gpt3",), shots=(5,))
    counted = Counter((cell.tune, cell.knowledge) for cell in both.cells("a") if cell.init == "language")
    assert counted == {("frozen", one): 6 for one in ("gpt3", "random-words", "other-classes")} | {("full", "gpt3"): 6}
    assert counted[2, "frozen", "random", "gpt3"] == 0
    assert Axes.of(shots="0,5,full", knowledge="auto").candidates() == ("none",)
    for said, message in (
        ({"shots": "5,many"}, "'many' is no number"),
        ({"init": "langauge"}, "nearest: language"),
        ({"projection": ""}, "--projection is empty"),
        ({"tune": "frozen,lora"}, "unknown value of --tune 'lora'"),
    ):
        with pytest.raises(UsageError, match=message):
            Axes.of(**said)


def test_a_grid_is_filled_and_each_picture_is_encoded_once(filled: Path) -> None:
    cells = read_cells(filled)
    assert len(cells) == 2 * len(list(AXES.cells("a")))
    assert {one.status for one in cells if one.cell.shots != 0} == {"ok"}
    manifest = json.loads((filled / "manifest.json").read_text())
    assert manifest["runs"][-1]["features"] == {"images": 4 * 48, "encoded": 4 * 48}
    assert all(0 <= one.low <= one.high <= 1 for one in cells if one.value is not None)  # type: ignore[operator]  # given


def test_classes_with_fewer_images_than_shots_give_all_or_skip_the_cell(tmp_path: Path) -> None:
    """ELEVATER's toolkit takes what there is, so that its means at 20 and 50 shots are over all data sets."""
    axes = Axes(shots=(4, 20), init=("language",), seeds=(0,))
    request = make_grid_request("icinw-shapes", output=tmp_path / "take", axes=axes, settings=QUICK)
    labels = request.sets()[0].load(None, QUICK.limit, 32).train.targets
    counts = labels.sum(0) if labels.ndim == 2 else torch.bincount(labels)
    assert 4 <= int(counts.min()) < 20
    cells = {one.cell.shots: one for one in run_grid(request)}
    assert [cells[shots].status for shots in (4, 20)] == ["ok", "ok"]
    assert [cells[shots].short for shots in (4, 20)] == [0, int((counts < 20).sum())]
    rows = short_classes(list(cells.values())).rows
    assert rows == (("icinw-shapes", "20-shot", str(int((counts < 20).sum()))),)
    request = make_grid_request(
        "icinw-shapes", output=tmp_path / "skip", axes=axes, settings=QUICK, short_classes="skip"
    )
    assert GridRequest.from_mapping(request.to_mapping()).short_classes == "skip"
    cells = {one.cell.shots: one for one in run_grid(request)}
    assert [cells[shots].status for shots in (4, 20)] == ["ok", "skipped"]
    assert "20 shots: class" in cells[20].reason
    assert "samples, expected at least 20" in cells[20].reason
    with pytest.raises(UsageError, match="unknown --short-classes 'drop'"):
        make_grid_request("icinw-shapes", output=tmp_path, short_classes="drop")  # type: ignore[arg-type]


def test_a_choice_is_one_of_its_candidates_and_draws_differ(filled: Path) -> None:
    shapes = by_name(filled, "icinw-shapes")
    makers = by_name(filled, "icinw-makers")
    first, second = (makers[f"2-shot.frozen.language-2p.{one}.seed0"] for one in ("none", "gpt3"))
    assert first.texts != second.texts
    plain, known = (makers[f"0-shot.frozen.language-2p.{one}.seed0"] for one in ("none", "gpt3"))
    assert plain.value != known.value
    # the choice is one of its candidates, and another draw is another draw
    auto = makers["2-shot.frozen.language-2p.auto.seed0"]
    chosen = makers[f"2-shot.frozen.language-2p.{auto.chosen['knowledge']}.seed0"]
    assert (auto.value, auto.shared) == (chosen.value, True)
    assert first.draw != makers["2-shot.frozen.language-2p.none.seed1"].draw
    assert shapes["0-shot.frozen.language-2p.auto.seed0"].status == "skipped"


def test_names_that_say_nothing_need_real_knowledge(filled: Path) -> None:
    makers = by_name(filled, "icinw-makers")
    values = {
        one: makers[f"0-shot.frozen.language-2p.{one}.seed0"].value
        for one in ("none", "gpt3", "random-words", "other-classes")
    }
    assert values["gpt3"] is not None
    assert values["gpt3"] > 0.9
    assert max(float(value or 0) for name, value in values.items() if name != "gpt3") < 0.4


def test_one_projection_starts_where_two_do(filled: Path) -> None:
    """At zero steps, the merged head ranks classes as the texts do: the features were only turned."""
    from gate_runner.icinw.features import Features

    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(40, 9, generator=generator), torch.randn(9, 5, generator=generator)
    texts = torch.nn.functional.normalize(torch.randn(3, 5, generator=generator), dim=1)
    features = Features(x, x[:10], torch.zeros(40), torch.zeros(10), w, ("a", "b", "c"))
    turned, _ = features.seen("1p", anchored=True)
    projected, _ = features.seen("2p", anchored=True)
    assert turned.shape == (40, 9)
    ours = (turned @ features.texts(texts, "1p").T).argmax(1)
    assert torch.equal(ours, (projected @ texts.T).argmax(1))
    assert torch.linalg.matrix_rank(turned) == 9  # nothing of the backbone's features is lost


def test_whole_encoders_are_trained_from_every_start_and_put_back(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip", device="cpu")
    before = encoder.fingerprint()
    axes = Axes(shots=(2,), tune=("full",), projection=("1p", "2p"), seeds=(0,))
    settings = Settings(limit=16, recipe_fields={"steps": "2", "batch_size": "8"})
    request = make_grid_request("icinw-textures", encoder, output=tmp_path, axes=axes, settings=settings)
    found = {one.cell.start: one for one in run_grid(request)}
    assert [one.status for one in found.values()] == ["ok"] * 4
    assert encoder.fingerprint() == before
    heads = {"Random-1P": 4 * 192, "Random-2P": 4 * 128, "Language-1P": 4 * 192, "Language-2P": 4 * 128}
    trained = {start: one.trained - heads[start] for start, one in found.items()}
    assert len(set(trained.values())) == 1  # the same image side
    assert trained["Language-2P"] > 1_000_000
    assert all(one.chosen["steps"] == 2 for one in found.values())


def test_the_same_request_again_computes_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(filling_module, "fill_frozen", never)
    before = {path: path.stat().st_mtime_ns for path in (filled / "cells").glob("*/*2-shot*.json")}
    run_grid(request_in(filled))
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert json.loads((filled / "manifest.json").read_text())["runs"][-1]["features"]["encoded"] == 4 * 48


def test_a_cell_with_another_metric_is_computed_again(filled: Path) -> None:
    """A folder of before, in which VOC 2007 was scored by another formula, would mix the two in one row."""
    request = request_in(filled)
    record = next(one for one in read_cells(filled) if one.status == "ok")
    assert not filling_module.missing(request, record.cell, record.metric)
    assert filling_module.missing(request, record.cell, "map_11point_elevater")


def test_a_killed_run_continues_and_a_failed_cell_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold_cache: Callable[[], Path]
) -> None:
    real, calls = filling_module.fill_frozen, []

    def dying(cell: Cell, *rest: object) -> object:
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(cell, *rest)  # type: ignore[arg-type]  # as it was called

    axes = Axes(shots=(0, 2), knowledge=("none", "gpt3"), seeds=(0,), controls=False)
    monkeypatch.setattr(filling_module, "fill_frozen", dying)
    with pytest.raises(KeyboardInterrupt):
        run_grid(request_in(tmp_path, axes=axes))
    assert len(read_cells(tmp_path)) == 2

    def failing(cell: Cell, *rest: object) -> object:
        if cell.dataset == "icinw-shapes" and cell.shots == 2 and cell.init == "random":
            raise RuntimeError("no memory left")
        return real(cell, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(filling_module, "fill_frozen", failing)
    found = run_grid(request_in(tmp_path, axes=axes))
    failed = [one for one in found if one.status == "failed"]
    assert [one.reason for one in failed] == ["RuntimeError: no memory left"]
    assert len(found) == 2 * len(list(axes.cells("a")))
    monkeypatch.setattr(filling_module, "fill_frozen", real)
    assert {one.status for one in run_grid(request_in(tmp_path, axes=axes))} == {"ok"}
    counts = json.loads((tmp_path / "encoded.json").read_text())
    assert counts["images"] == counts["encoded"] == 4 * 48


def test_another_probe_or_limit_needs_another_folder(filled: Path) -> None:
    with pytest.raises(UsageError, match="probe 'anchored', not 'clap'"):
        run_grid(request_in(filled, probe="clap"))
    with pytest.raises(UsageError, match="limit 48, not 24"):
        run_grid(request_in(filled, settings=QUICK.changed(limit=24)))


def test_an_encoder_of_images_alone_fills_what_applies(tmp_path: Path, own: str) -> None:
    axes = Axes(shots=(0, 2), projection=("1p", "2p"), seeds=(0,))
    request = make_grid_request(
        ["icinw-shapes"], f"{own}:grid", output=tmp_path / "run", axes=axes, settings=Settings(limit=48)
    )
    found = {one.cell.name: one for one in run_grid(request)}
    assert found["2-shot.frozen.random-1p.none.seed0"].status == "ok"
    assert "no text side" in found["0-shot.frozen.language-2p.none.seed0"].reason
    assert "no second projection" in found["2-shot.frozen.random-2p.none.seed0"].reason


def test_a_choice_needs_to_be_better_and_nothing_is_chosen_without_validation(tmp_path: Path) -> None:
    cell = Cell("a", 5, "frozen", "language", "2p", "auto", 0)

    def put(knowledge: str, value: float, validation: float | None) -> None:
        save(tmp_path, Record(cell._replace(knowledge=knowledge), "ok", value=value, validation=validation))

    put("none", 0.5, 0.6)
    put("gpt3", 0.7, 0.6)
    assert choose(tmp_path, cell, ("none", "gpt3")).chosen == {"knowledge": "none"}
    put("gpt3", 0.7, 0.61)
    assert choose(tmp_path, cell, ("none", "gpt3")).value == 0.7
    put("none", 0.5, None)
    put("gpt3", 0.7, None)
    assert choose(tmp_path, cell, ("none", "gpt3")).chosen["knowledge"] == "none"
    cell_file(tmp_path, cell._replace(knowledge="none")).unlink()
    assert choose(tmp_path, cell, ("none", "gpt3")).status == "skipped"


def test_class_names_that_do_not_match_are_shown_side_by_side() -> None:
    embed = Embedder(lambda texts: torch.ones(len(texts), 2))
    with pytest.raises(DataError, match="'stripy' / 'striped'"):
        class_texts("icinw-textures", ["plain", "stripy", "dotted", "shiny"], "none", embed)
    assert class_texts("cifar-10", ["airplane"] * 0 + _CIFAR, "gpt3", embed).reason.startswith("no folder of knowledge")


_CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def test_texts_are_encoded_once() -> None:
    embed = Embedder(load_encoder("micro-clip", device="cpu").encode_text)
    class_texts("icinw-textures", TEXTS["icinw-textures"].classes, "none", embed)
    first = embed.encoded
    class_texts("icinw-textures", TEXTS["icinw-textures"].classes, "none", embed)
    assert first == embed.encoded == 8


def test_names_of_the_grid_and_what_they_need(tmp_path: Path) -> None:
    assert [one.id for one in resolve_sets(["micro/icinw"], None, None)] == list(PACKS["micro/icinw"])
    with pytest.raises(UsageError, match="unknown data set of the grid 'mini'"):
        is_grid(["mini", "digits"], asked=True)
    with pytest.raises(UsageError, match="reads original files: give --data-root"):
        make_grid_request("icinw")
    with pytest.raises(DataError, match="holds neither external/ nor gpt3/"):
        make_grid_request("micro/icinw", knowledge_folder=tmp_path)
    with pytest.raises(UsageError, match="unknown --probe 'lpp'"):
        make_grid_request("micro/icinw", probe="lpp")


WORDS = """
import torch
from torch import nn


class Words(nn.Module):
    image_size = 16

    def encode_image(self, images):
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)

    def encode_text(self, texts):
        return torch.tensor([[text.count(chr(ord("a") + at % 26)) for at in range(48)] for text in texts]).float()


def make():
    return Words()
"""


def test_the_command_line_fills_a_grid_with_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"words_{abs(hash(str(tmp_path)))}"  # imports torch alone, which each worker does anew
    (tmp_path / f"{name}.py").write_text(WORDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["run", "icinw-textures", "icinw-colours", "--shots", "0,2", "--limit", "24", "--workers", "2"]
    command += ["--encoder", f"{name}:make"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--knowledge", "none,auto", "--output", str(tmp_path / "run")])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "10 cells, 10 to fill (2 zero-shot, 4 fits; 4 chosen among others); 2 data sets to encode" in said
    assert "| LP | Language-2P |" in said
    assert {one.status for one in read_cells(tmp_path / "run")} == {"ok", "skipped"}
    assert json.loads((tmp_path / "run" / "encoded.json").read_text())["encoded"] == 96
