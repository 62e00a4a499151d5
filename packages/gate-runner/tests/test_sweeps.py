"""Sweeps over image classification: what units share, choose and skip, and how a sweep goes on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import gate_runner
from gate_runner.benchmarks import BENCHMARKS, PACKS, DataRequest
from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.executors import run
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.settings.axes import FULL, Axes, Variant
from gate_runner.tasks.elevater import run as task
from gate_runner.tasks.elevater.shipped_texts import TEXTS
from gate_runner.tasks.elevater.tables import averages, records_of
from gate_runner.tasks.elevater.texts import class_texts
from gate_runner.tasks.features import Embedder
from vision_features.encoders import load_encoder

SETS = ("icinw-makers", "icinw-shapes")
AXES = {"shots": "0,2,full", "init": "random,language", "knowledge": "none,gpt3,auto", "seeds": (0, 1)}
FEWER = {**AXES, "shots": "0,2", "controls": False}
"""Of the second data set: whole axes and controls are those of the first."""
QUICK = Settings(limit=48, recipe_fields={"steps": "1"}, tune="frozen")


def swept(folder: Path, names: Any = SETS, encoder: Any = "micro-dense", **options: Any) -> dict[str, Result]:
    """Results by benchmark, variant and seed."""
    settings = QUICK.changed(**{**AXES, **options})
    results = run(make_request(names, encoder, output=folder, settings=settings), Observer())
    return {f"{result.benchmark}.seed{result.seed}": result for result in results}


def value_of(result: Result) -> float:
    assert result.headline is not None, result.reason
    return result.headline.value


def swept_both(folder: Path) -> dict[str, Result]:
    """All units of the first data set, and fewer of the second."""
    return {**swept(folder, SETS[0]), **swept(folder, SETS[1], **FEWER)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All units, computed where no image had been encoded."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATE_RUNNER_CACHE", str(folder / "cache"))
        swept_both(folder / "run")
    return folder / "run"


def of_set(folder: Path, name: str) -> dict[str, Result]:
    return {
        f"{result.benchmark.partition('@')[2]}.seed{result.seed}": result
        for result in read_run(folder).results
        if result.benchmark.startswith(f"{name}@")
    }


def test_micro_sets_have_their_names_texts_and_images() -> None:
    for name in PACKS["micro/icinw"]:
        benchmark = BENCHMARKS[name]
        data = benchmark.load(next(iter(benchmark.sources)), DataRequest(limit=24))
        assert data.classes == tuple(TEXTS[name].classes)
        for sentences in TEXTS[name].knowledge.values():
            assert set(sentences) <= set(data.classes)
        if name != "digits":
            assert data.digest() == benchmark.load("micro", DataRequest(limit=24)).digest()


def test_axes_say_which_units_there_are() -> None:
    axes = Settings().changed(**AXES).axes()  # type: ignore[arg-type]  # as the command line says them
    assert axes is not None
    counted = Counter((point.shots, point.tune, point.init, point.knowledge) for point, _ in axes.units())
    assert counted[0, "frozen", "language", "gpt3"] == 1  # zero-shot has neither seeds nor projections
    assert counted[2, "frozen", "random", "none"] == 2  # two seeds
    assert counted[FULL, "frozen", "language", "auto"] == 1  # all images are the same for each seed
    assert counted[2, "frozen", "language", "random-words"] == 2
    assert counted[2, "frozen", "random", "gpt3"] == 0
    both = Axes(tune=("frozen", "full"), projection=("1p", "2p"), knowledge=("gpt3",), shots=(5,), seeds=(0, 1, 2))
    counted = Counter((point.tune, point.knowledge) for point, _ in both.units() if point.init == "language")
    assert counted == {("frozen", text): 6 for text in ("gpt3", "random-words", "other-classes")} | {
        ("full", "gpt3"): 6
    }
    assert Axes(knowledge=("auto",)).candidates() == ("none", "wiktionary", "gpt3-5", "wiktionary+gpt3-5")
    assert Axes(knowledge=("auto", "gpt3:2")).candidates() == ("none", "gpt3-2")
    for options, message in (
        ({"shots": "5,many"}, "not 'many'"),
        ({"init": "langauge"}, "nearest: language"),
        ({"knowledge": "gpt:3"}, "unknown value of --knowledge 'gpt:3'; nearest: gpt3"),
        ({"knowledge": "gpt3:0"}, "unknown value of --knowledge 'gpt3:0'"),
        ({"knowledge": "gpt3+gpt3:2"}, "a source is named twice"),
        (
            {"tune": "frozen,lora"},
            "--tune lora does not go with several values of --tune: a sweep of image .* frozen, full",
        ),
        ({"tune": "lora", "shots": "5"}, "--tune lora does not go with --shots: a sweep of image classification has"),
        ({"tune": "norm", "probe": "gda", "init": "language"}, "--tune norm does not go with --init, setting probe: a"),
    ):
        with pytest.raises(UsageError, match=message):
            Settings().changed(**options).axes()  # type: ignore[arg-type]


def test_every_unit_is_computed_and_each_picture_is_encoded_once(filled: Path) -> None:
    results = read_run(filled).results
    counts = []
    for fields in (AXES, FEWER):
        axes = Settings().changed(**fields).axes()  # type: ignore[arg-type]
        assert axes is not None
        counts.append(len(list(axes.units())))
    assert counts[0] > counts[1]
    assert len(results) == sum(counts)
    reasons = {result.reason for result in results if result.status != "ok"}
    assert reasons == {"zero-shot has no labels to choose knowledge by"}
    assert sum(result.memory.get("encoded", 0) for result in results) == 4 * 48
    for result in results:
        if result.headline is not None:
            assert 0 <= result.headline.low <= result.headline.high <= 1
            assert result.headline.chance < 0.6


def test_units_compare_like_any_other_results(filled: Path, tmp_path: Path) -> None:
    swept(tmp_path, "icinw-shapes", "micro-dense/random", shots="2", init="random", knowledge="")
    comparison = gate_runner.compare(filled, tmp_path, only=["micro/icinw-shapes@2-shot.frozen.random-2p.none"])
    assert len(comparison.contrasts) == 1


def test_classes_with_fewer_images_than_shots_give_all(tmp_path: Path) -> None:
    """ELEVATER's toolkit takes what there is, so that its means at 20 and 50 shots are over all data sets."""
    few: dict[str, Any] = {"names": "icinw-shapes", "shots": "4,20", "init": "language", "knowledge": "", "seeds": (0,)}
    labels = BENCHMARKS["icinw-shapes"].load_undivided("micro", DataRequest(None, QUICK.limit, 32)).train.targets
    counts = labels.sum(0)
    assert 4 <= int(counts.min()) < 20
    short = int((counts < 20).sum())
    results = list(swept(tmp_path / "take", **few).values())
    assert [result.training["short_classes"] for result in results] == [0, short]
    assert f"give all that they have: {short} of icinw-shapes (20-shot)." in averages(records_of(results)).note
    results = list(swept(tmp_path / "skip", **few, short_classes="skip").values())
    assert [result.status for result in results] == ["ok", "skipped"]
    assert re.search("20 shots: class .* samples, expected at least 20", results[1].reason)


def test_a_choice_is_one_of_its_candidates_and_draws_differ(filled: Path) -> None:
    shapes, makers = of_set(filled, "icinw-shapes"), of_set(filled, "icinw-makers")
    plain, with_knowledge = (makers[f"2-shot.frozen.language-2p.{text}.seed0"] for text in ("none", "gpt3"))
    assert plain.training["texts"] != with_knowledge.training["texts"]
    without, with_it = (makers[f"0-shot.frozen.language-2p.{text}.seed0"] for text in ("none", "gpt3"))
    assert value_of(without) != value_of(with_it)
    auto = makers["2-shot.frozen.language-2p.auto.seed0"]
    chosen = makers[f"2-shot.frozen.language-2p.{auto.training['chosen']['knowledge']}.seed0"]
    assert (value_of(auto), auto.training["shared"]) == (value_of(chosen), True)
    assert plain.training["draw"] != makers["2-shot.frozen.language-2p.none.seed1"].training["draw"]
    assert shapes["0-shot.frozen.language-2p.auto.seed0"].status == "skipped"


def test_a_choice_alone_is_the_same_as_beside_its_candidates(filled: Path, tmp_path: Path) -> None:
    alone = swept(tmp_path, "icinw-makers", shots="2", init="language", knowledge="gpt3,auto", seeds=(0,))
    name = "2-shot.frozen.language-2p.auto.seed0"
    assert value_of(alone[f"icinw-makers@{name}"]) == value_of(of_set(filled, "icinw-makers")[name])


def test_names_that_say_nothing_need_real_knowledge(tmp_path: Path) -> None:
    few: dict[str, Any] = {"shots": "0", "init": "language", "knowledge": "none,gpt3", "controls": False}
    makers = swept(tmp_path, "icinw-makers", "micro-clip", **few)
    values = {
        knowledge: value_of(makers[f"icinw-makers@0-shot.frozen.language-2p.{knowledge}.seed0"])
        for knowledge in ("none", "gpt3")
    }
    assert values["none"] < 0.4 < 0.9 < values["gpt3"]


def test_whole_encoders_are_trained_from_every_start_and_put_back(tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip", device="cpu")
    before = encoder.fingerprint()
    fields = {"steps": "2", "batch_size": "8"}
    results = swept(
        tmp_path, "icinw-textures", encoder, shots="2", tune="full", projection="1p,2p", knowledge="", seeds=(0,),
        limit=16, recipe_fields=fields,
    )  # fmt: skip
    starts = {
        f"{record.cell.init.capitalize()}-{record.cell.projection.upper()}": record
        for record in records_of(results.values())
    }
    assert [record.status for record in starts.values()] == ["ok"] * 4
    assert encoder.fingerprint() == before
    heads = {"Random-1P": 4 * 192, "Random-2P": 4 * 128, "Language-1P": 4 * 192, "Language-2P": 4 * 128}
    trained = {start: record.trained - heads[start] for start, record in starts.items()}
    assert len(set(trained.values())) == 1  # the same image side
    assert trained["Language-2P"] > 1_000_000
    assert all(result.training["chosen"]["steps"] == 2 for result in results.values())


def test_the_same_request_again_computes_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(task, "fit_frozen", never)
    results = swept_both(filled)
    assert {result.status for result in results.values()} == {"ok", "skipped"}


def test_a_killed_sweep_goes_on_and_a_failed_unit_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold_cache: Callable[[], Path]
) -> None:
    real, calls = task.fit_frozen, []
    few: dict[str, Any] = {"shots": "0,2", "knowledge": "none,gpt3", "seeds": (0,), "controls": False}

    def dying(*rest: Any) -> object:
        calls.append(rest)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*rest)

    monkeypatch.setattr(task, "fit_frozen", dying)
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, **few)
    assert len(list((tmp_path / "results").iterdir())) == 2

    def failing(job: Any, variant: Variant, *rest: Any) -> object:
        if job.benchmark.id.startswith("icinw-shapes") and variant.shots == 2 and variant.init == "random":
            raise RuntimeError("no memory left")
        return real(job, variant, *rest)

    monkeypatch.setattr(task, "fit_frozen", failing)
    results = swept(tmp_path, **few)
    assert [r.reason for r in results.values() if r.status == "failed"] == ["RuntimeError: no memory left"]
    monkeypatch.setattr(task, "fit_frozen", real)
    again = swept(tmp_path, **few)
    assert {result.status for result in again.values()} == {"ok"}
    assert sum(result.memory.get("encoded", 0) for result in again.values()) == 4 * 48


def test_another_probe_or_limit_needs_another_folder(filled: Path) -> None:
    with pytest.raises(UsageError, match="without probe, not with probe 'clap'"):
        swept(filled, probe="clap")
    with pytest.raises(UsageError, match="limit 48, not 24"):
        swept(filled, limit=24)


def test_more_axes_go_into_the_same_folder(tmp_path: Path) -> None:
    few: dict[str, Any] = {"names": "icinw-textures", "init": "language", "knowledge": "", "limit": 16}
    swept(tmp_path, **few, shots="0")
    swept(tmp_path, **few, shots="2", tune="full")
    assert len(list((tmp_path / "results").iterdir())) == 3


def test_an_encoder_of_images_alone_computes_what_applies(tmp_path: Path, own: str) -> None:
    results = swept(tmp_path / "run", "icinw-shapes", f"{own}:grid", shots="0,2", projection="1p,2p", knowledge="")
    assert results["icinw-shapes@2-shot.frozen.random-1p.none.seed0"].status == "ok"
    assert "no text side" in results["icinw-shapes@0-shot.frozen.language-2p.none.seed0"].reason
    backbone, output = (
        results[f"icinw-shapes@2-shot.frozen.random-{projection}.none.seed0"] for projection in ("1p", "2p")
    )
    assert output.status == "ok"
    assert output.scores == backbone.scores  # its output is the only one


def test_the_default_sweep_of_an_encoder_of_images_alone_has_scores(tmp_path: Path, own: str) -> None:
    results = swept(tmp_path / "run", "digits", f"{own}:grid", shots="2", limit=40)
    assert results["digits@2-shot.frozen.random-2p.none.seed0"].status == "ok"


def test_any_image_classification_is_swept_and_nothing_else(tmp_path: Path) -> None:
    """The data set's own names in CLIP's template where no prompts are shipped for it."""
    results = swept(tmp_path, "faces", shots="0,1", init="language", knowledge="none,gpt3", controls=False, seeds=(0,))
    assert results["faces@1-shot.frozen.language-2p.none.seed0"].status == "ok"
    assert "no knowledge is stored" in results["faces@0-shot.frozen.language-2p.gpt3.seed0"].reason
    with pytest.raises(UsageError, match=r"'ade20k' cannot be swept .* its task type is 'segmentation'"):
        eval_units_of(make_request(["digits", "ade20k"], settings=Settings(init="random")))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="setting save_encoders is for single trainings"):
        eval_units_of(make_request("digits", settings=Settings(tune="full", save_encoders=True, shots="5")))  # type: ignore[arg-type]


def test_class_names_that_do_not_match_are_shown_side_by_side() -> None:
    embed = Embedder(lambda texts: torch.ones(len(texts), 2))
    with pytest.raises(DataError, match="'stripy' / 'striped'"):
        class_texts("icinw-textures", ["plain", "stripy", "dotted", "shiny"], "none", embed)
    assert class_texts("cifar-10", ["airplane"] * 0 + _CIFAR, "gpt3", embed).reason.startswith("no folder of knowledge")


_CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def test_texts_are_encoded_once() -> None:
    encoder, encoded = load_encoder("micro-clip", device="cpu"), []

    def counted(texts: Sequence[str]) -> torch.Tensor:
        encoded.extend(texts)
        return encoder.encode_text(texts)

    embed = Embedder(counted)
    for _ in range(2):
        class_texts("icinw-textures", TEXTS["icinw-textures"].classes, "none", embed)
    assert len(encoded) == len(set(encoded)) == 8


def test_packs_of_elevater_are_swept_and_what_they_need(tmp_path: Path) -> None:
    request = make_request("micro/icinw")
    assert (request.settings.shots, request.settings.init) == (("0", "5", "20", "50", "full"), ("random", "language"))
    assert make_request("micro/icinw", settings=Settings(shots="5")).settings.shots == ("5",)  # type: ignore[arg-type]
    assert {part.benchmark.id.partition("@")[0] for part in eval_units_of(request)} == set(PACKS["micro/icinw"])
    with pytest.raises(DataError, match="reads original files: give --data-root"):
        eval_units_of(make_request("icinw"))
    with pytest.raises(DataError, match="holds neither external/ nor gpt3/"):
        eval_units_of(make_request("micro/icinw", settings=Settings(knowledge_folder=tmp_path)))
    with pytest.raises(UsageError, match="unknown value of setting probe 'lpp'"):
        Settings(probe="lpp")
    with pytest.raises(UsageError, match="is no point of a sweep, such as"):
        make_request("digits@5")


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


def test_the_command_line_sweeps_with_workers(
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
    out = capsys.readouterr().out
    assert "10 to run" in out
    assert "| LP | Language-2P |" in out
    results = [json.loads(path.read_text()) for path in (tmp_path / "run" / "results").iterdir()]
    assert Counter(result["status"] for result in results) == {"ok": 8, "skipped": 2}


def test_a_limit_that_leaves_a_class_without_an_image_is_named(tmp_path: Path) -> None:
    results = swept(tmp_path / "few", ["digits"], shots=(0,), limit=20)
    assert {result.status for result in results.values()} == {"skipped"}
    assert any(result.reason.endswith("; a larger --limit than 20 may have one") for result in results.values())
