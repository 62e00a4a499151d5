"""CoOp's protocol from the data's own files to its tables: what is trained on what, and what is scored among what."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import gate_runner
from gate_data.coop import COOP, DOMAINS, ELEVEN, load_few_shot, write_made_up
from gate_data.ragged import Ragged
from gate_data.request import DataRequest
from gate_runner.benchmarks import PACKS, find_benchmark
from gate_runner.errors import DataError, NotApplicableError, UsageError
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings
from gate_runner.tasks.coop import run as coop_run
from gate_runner.tasks.coop import towers
from gate_runner.tasks.coop.heads import Classes, Seen, Shots, fit
from gate_runner.tasks.coop.points import METHODS, Point, units
from gate_runner.tasks.coop.published import SEEN, backbone_of, base_to_new_table, few_shot_table, published
from gate_runner.tasks.coop.run import harmonic
from gate_runner.tasks.coop.tables import overview, tables, units_of
from gate_runner.tasks.coop.views import features_of, random_crop
from gate_runner.tasks.job import Job
from paired_scores.metrics import wilson
from vision_adapters.training import fit_context
from vision_adapters.tuning import METHODS as HEADS
from vision_adapters.tuning import tune, tuning_data
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder

from ._command import call_here

SETS = ("coop-imagenet", "coop-dtd", "coop-fgvc-aircraft")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_made_up(tmp_path_factory.mktemp("coop") / "data", classes=5, images=4, sets=[*SETS, *DOMAINS])


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder("micro-clip", device="cpu")


def scored(root: Path, folder: Path, encoder: Encoder, names: Any = "coop", **options: Any) -> dict[str, Result]:
    """Results by benchmark, unit and seed."""
    done = gate_runner.run(names, encoder=encoder, output=folder, data_root=root, show=False, **options)
    return {f"{result.benchmark} {result.seed}": result for result in done}


def value_of(result: Result, metric: str = "") -> float:
    assert result.headline is not None, result.reason
    return next(score.value for score in result.scores if metric in ("", score.metric))


@pytest.fixture(scope="module")
def few_shot(root: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few-shot") / "run"
    scored(root, folder, encoder, shots="1,2", methods="zero_shot,tip_adapter,anchored", seeds=(1, 2))
    return folder


def by_hand(encoder: Encoder, name: str, root: Path, **how: Any) -> tuple[Any, Tensor, Tensor]:
    """The data of a unit, and unit features of its test images and of its tested classes' texts."""
    data = load_few_shot(name, root, request=DataRequest(size=encoder.image_size), **how)
    images = F.normalize(encoder.encode_image(data.test.images[:]).float(), dim=1)
    prompts = [COOP[name].template.format(words) for words in data.classes]
    return data, images, F.normalize(encoder.encode_text(prompts).float(), dim=1)


def test_the_packs_have_the_sets_of_the_published_tables() -> None:
    assert PACKS["coop"] == ELEVEN
    assert PACKS["coop-domain"] == ("coop-imagenet", *DOMAINS)
    assert set(METHODS) == {
        *HEADS,
        "prolip",
        "coop",
        "coop_csc",
        "clip_lora",
        "two_stage",
    }  # every head on features comes in by its name


def test_units_are_texts_once_and_each_method_by_shots_and_seed() -> None:
    assert units(Settings(shots="1,2", methods="zero_shot,gda")) == [  # type: ignore[arg-type]  # as a user says it
        ("0-shot.few-shot.zero_shot", 1),
        *((f"{shots}-shot.few-shot.gda", seed) for shots in (1, 2) for seed in (1, 2, 3)),
    ]
    assert [seed for _, seed in units(Settings(methods=("gda",), shots=("1",), seeds=(0, 5)))] == [0, 5]
    assert [name for name, _ in units(Settings(protocol="cross"))] == [
        "0-shot.cross.zero_shot", *["16-shot.cross.prolip"] * 3
    ]  # fmt: skip
    assert {Point.parse(name).shots for name, _ in units(Settings())} == {0, 1, 2, 4, 8, 16}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("tip_adaptor",)}, "unknown value of setting methods: 'tip_adaptor'; nearest: tip_adapter"),
        (
            {"methods": ("gda",), "protocol": "cross"},
            "--protocol cross takes zero_shot, prolip, coop, clip_lora, two_stage",
        ),
        ({"shots": ("full",)}, "--shots full is not of CoOp's protocol"),
        ({"tune": "full"}, "--tune full: CoOp's protocol has heads on frozen encoders"),
        ({"protocol": "few"}, "unknown value of --protocol 'few'"),
        ({"views": 0}, "views must be at least 1"),
    ],
)
def test_what_the_protocol_does_not_have_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        units(Settings(**options))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("coop-dtd@16-shot.few.gda", "is not a unit of CoOp's protocol, such as"),
        ("coop-dtd@16-shot.few-shot.gds", "unknown method 'gds'; nearest: gda"),
        ("coop-dtd@0-shot.few-shot.gda", "zero_shot has 0 shots, every other method at least 1"),
        ("coop-dtd@1-shot.domain.gda", "coop-dtd is not a set of the protocol 'domain'"),
        ("coop-imagenet-a@1-shot.few-shot.gda", "--protocol domain"),
    ],
)
def test_names_that_are_no_units_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_benchmark(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("clip_lora",), "views": 10}, "clip_lora trains on the images themselves"),
        ({"methods": ("coop",), "choose_on": "validation"}, "coop has fixed settings"),
    ],
)
def test_settings_that_a_method_does_not_read_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        units(Settings(**options))


@pytest.mark.parametrize(
    "options", [{"methods": ("gda",)}, {"protocol": "cross"}, {"views": 2}, {"choose_on": "validation"}]
)
def test_settings_of_the_protocol_do_nothing_silently_elsewhere(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not apply to 'digits'.* it is for the pack coop"):
        eval_units_of(make_request("digits", output=tmp_path, settings=Settings(**options)))


def test_the_pack_runs_what_the_data_root_holds(few_shot: Path) -> None:
    results = read_run(few_shot).results
    assert {result.benchmark.partition("@")[0] for result in results} == set(SETS)
    assert len(results) == 3 * (1 + 2 * 2 * 2)
    assert {result.status for result in results} == {"ok"}
    assert all("synthetic stand-in" in result.note for result in results)


def test_zero_shot_is_the_cosine_with_one_template(root: Path, encoder: Encoder, few_shot: Path) -> None:
    for result in read_run(few_shot).results:
        if result.benchmark.endswith("zero_shot"):
            name = result.benchmark.partition("@")[0]
            data, images, texts = by_hand(encoder, name, root, shots=0)
            hits = (images @ texts.T).argmax(1) == data.test.targets
            assert value_of(result) == pytest.approx(float(hits.float().mean()))
            assert result.training["templates"] == [COOP[name].template]
            assert result.training["chosen_with"] == "nothing"
            assert result.scores[0].chance == pytest.approx(0.2)


def test_a_head_is_fitted_on_the_drawn_images(root: Path, encoder: Encoder, few_shot: Path) -> None:
    results = {f"{result.benchmark} {result.seed}": result for result in read_run(few_shot).results}
    for seed in (1, 2):
        result = results[f"coop-dtd@2-shot.few-shot.tip_adapter {seed}"]
        data, images, texts = by_hand(encoder, "coop-dtd", root, shots=2, seed=seed)
        tuned = tune(
            tuning_data(
                encoder.encode_image(data.train.images[:]),
                data.train.targets,
                classes=5,
                class_embeddings=texts,
                logit_scale=encoder.logit_scale or 100.0,
                seed=seed,
            ),
            "tip_adapter",
        )
        hits = tuned.scores(images).argmax(1) == data.test.targets
        assert value_of(result) == pytest.approx(float(hits.float().mean()))
        assert result.training["draw"] == data.drawn_digest()
        assert result.training["chosen_with"] == "its own shots"
        assert result.data["train"] == 10
        assert result.data["sha256"] == data.digest()
    draws = {results[f"coop-dtd@2-shot.few-shot.tip_adapter {seed}"].training["draw"] for seed in (1, 2)}
    assert len(draws) == 2


def test_the_same_command_computes_nothing_twice(root: Path, encoder: Encoder, few_shot: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (few_shot / "results").rglob("*") if path.is_file()}
    assert before
    again = scored(root, few_shot, encoder, shots="1,2", methods="zero_shot,tip_adapter,anchored", seeds=(1, 2))
    assert len(again) == len(read_run(few_shot).results)
    assert {path: path.stat().st_mtime_ns for path in (few_shot / "results").rglob("*") if path.is_file()} == before


def test_a_changed_list_of_images_is_noticed(root: Path, encoder: Encoder, few_shot: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(root, tmp_path / "data")
    path = moved / "dtd" / "split_zhou_DescribableTextures.json"
    content = json.loads(path.read_text())
    content["train"].reverse()
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="on other data"):
        scored(moved, few_shot, encoder, "coop-dtd", shots="1", methods="tip_adapter", seeds=(1,))


def test_both_halves_are_scored_among_their_own_classes(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    results = scored(
        root, tmp_path / "run", encoder, "coop-dtd", protocol="base-to-new", shots="2", seeds=(1,),
        methods="zero_shot,anchored,prolip",
    )  # fmt: skip
    data, images, texts = by_hand(encoder, "coop-dtd", root, shots=2, protocol="base-to-new")
    targets = data.test.targets
    zero = results["coop-dtd@0-shot.base-to-new.zero_shot 1"]
    for half, rows, columns in (("base", targets < 3, slice(3)), ("new", targets >= 3, slice(3, 5))):
        first = columns.start or 0
        hits = (images[rows] @ texts[columns].T).argmax(1) == targets[rows] - first
        assert value_of(zero, half) == pytest.approx(float(hits.float().mean()))
    head = results["coop-dtd@2-shot.base-to-new.anchored 1"]
    assert value_of(head, "new") == value_of(zero, "new")
    assert head.training["new_classes_by"] == "texts alone"
    assert results["coop-dtd@2-shot.base-to-new.prolip 1"].training["new_classes_by"] == "what was learned"
    for result in results.values():
        base, new = value_of(result, "base"), value_of(result, "new")
        assert value_of(result) == pytest.approx(2 * base * new / (base + new))
        assert [score.metric for score in result.scores] == ["harmonic", "base", "new"]
        assert result.scores[0].low <= value_of(result) <= result.scores[0].high
        assert result.scores[0].chance == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few steps in place of the published numbers."""
    monkeypatch.setattr("vision_adapters.training.context.EPOCHS", ((16, 25),))
    monkeypatch.setattr("vision_adapters.training.few_shot_recipes.CLIP_LORA_STEPS", 4)
    monkeypatch.setattr("vision_adapters.training.few_shot_recipes.TWO_STAGE_STEPS", 8)


@pytest.mark.long
@pytest.mark.usefixtures("short")
def test_prompts_and_towers_are_trained_and_put_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    encoder = load_encoder("micro-clip", device="cpu")
    before = encoder.fingerprint()
    learned = ("coop", "coop_csc", "clip_lora", "two_stage")
    how = {"shots": "2", "seeds": (1,), "methods": ("zero_shot", *learned)}
    results = scored(root, tmp_path / "few", encoder, "coop-dtd", **how)
    assert encoder.fingerprint() == before
    scores = {name.split(".")[-1].split()[0]: result for name, result in results.items()}
    zero = value_of(scores["zero_shot"])
    for method in learned:
        about = scores[method].training
        assert (about["chosen_with"], about["chosen"]["method"]) == ("nothing", method)
        assert value_of(scores[method]) >= zero
    assert value_of(scores["coop"]) > zero + 0.1
    assert [scores[m].training["trained_parameters"] for m in ("coop", "coop_csc")] == [16 * 128, 5 * 16 * 128]
    monkeypatch.setattr("vision_adapters.training.context.EPOCHS", ((16, 1),))  # how well they learn is seen above
    monkeypatch.setattr("vision_adapters.training.few_shot_recipes.CLIP_LORA_STEPS", 1)
    monkeypatch.setattr("vision_adapters.training.few_shot_recipes.TWO_STAGE_STEPS", 2)
    halves = scored(root, tmp_path / "halves", encoder, "coop-dtd", protocol="base-to-new", **how)
    by = {name.split(".")[-1].split()[0]: result.training["new_classes_by"] for name, result in halves.items()}
    assert by == {"coop_csc": "texts alone"} | dict.fromkeys(
        ("zero_shot", "coop", "clip_lora", "two_stage"), "what was learned"
    )
    shown = "\n".join(table.as_markdown() for table in tables(units_of("mine", halves.values()))).replace("\\", "")
    assert all(f"| {method}, 2 images" in shown for method in learned)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("method", ["clip_lora", "two_stage"])
def test_trained_towers_are_what_scores(method: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features and texts are of the towers as trained, stage by stage; loss on unseen images falls with each stage."""
    pytest.importorskip("peft")
    encoder, stages = load_encoder("micro-clip", device="cpu"), []
    data, images, texts = by_hand(encoder, "coop-dtd", root, shots=2, seed=1)
    real = towers._fit

    def fitted_by(module: torch.nn.Module, inputs: Tensor, *others: Any) -> None:
        real(module, inputs, *others)
        if isinstance(module, towers.Towers):
            with torch.no_grad():
                stages.append((module.images(data.test.images[:]), module.texts(module.prompts)))

    monkeypatch.setattr(towers, "_fit", fitted_by)
    template, scale = COOP["coop-dtd"].template, encoder.logit_scale or 100.0
    job = SimpleNamespace(
        encoder=encoder, seed=1, training={"templates": (template,)}, settings=SimpleNamespace(batch_size=3)
    )
    fitted = towers.fit_towers(method, job, data, 2, "few-shot")  # type: ignore[arg-type]  # what it reads of a job
    ((trained_images, trained_texts),) = stages
    assert fitted.seen is not None
    torch.testing.assert_close(fitted.seen.features, trained_images, rtol=1e-4, atol=1e-5)
    assert float((trained_images - images).norm(dim=1).min()) > 1e-4
    assert float((trained_texts - texts).norm(dim=1).min()) > 1e-4
    classes = Classes(data.classes, texts)
    by_texts = scale * trained_images @ trained_texts.T
    torch.testing.assert_close(fitted.others(fitted.seen, classes), by_texts, rtol=1e-3, atol=1e-2)
    scores = fitted.trained(fitted.seen).detach()
    losses = [float(F.cross_entropy(rows, data.test.targets)) for rows in (scale * images @ texts.T, by_texts, scores)]
    assert losses[0] > losses[1]
    if method == "clip_lora":
        torch.testing.assert_close(scores, by_texts, rtol=1e-3, atol=1e-2)
    else:
        assert losses[1] > losses[2]  # the class weights, on the features that came out
    torch.testing.assert_close(F.normalize(encoder.encode_image(data.test.images[:]).float(), dim=1), images)


@pytest.mark.usefixtures("short")
def test_a_learned_context_is_what_scores(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    """By hand: the same vectors through the text tower, on both halves."""
    how = {"protocol": "base-to-new", "shots": "2", "seeds": (1,), "methods": ("coop",)}
    (result,) = scored(root, tmp_path / "run", encoder, "coop-dtd", **how).values()
    data, images, _ = by_hand(encoder, "coop-dtd", root, shots=2, seed=1, protocol="base-to-new")
    assert encoder.contexts is not None
    of, names = encoder.contexts.of, data.classes
    head = fit_context(
        encoder.encode_image(data.train.images[:]), data.train.targets, of(names[:3], 16), encoder.contexts.width,
        classes=3, logit_scale=encoder.logit_scale or 100.0, shots=2, seed=1,
    )  # fmt: skip
    targets, seen = data.test.targets, Seen(images)
    shots = Shots(
        Seen(encoder.encode_image(data.train.images[:])), data.train.targets, None, encoder.logit_scale or 100.0, 3,
        number=2, seed=1, names=names[:3], contexts=encoder.contexts,
    )  # fmt: skip
    fitted, own = fit("coop", shots), fit("coop_csc", shots)
    given = F.normalize(torch.randn(2, images.shape[1], generator=torch.Generator().manual_seed(0)), dim=1)
    for half, rows, chosen, first in (("base", targets < 3, names[:3], 0), ("new", targets >= 3, names[3:], 3)):
        with torch.no_grad():
            texts = F.normalize(of(chosen, 16)(head.context), dim=1)
        scores = shots.scale * images @ texts.T
        ours = fitted.trained(seen) if half == "base" else fitted.others(seen, Classes(chosen, given))
        torch.testing.assert_close(ours, scores, rtol=1e-4, atol=1e-3)
        hits = scores[rows].argmax(1) == targets[rows] - first
        assert value_of(result, half) == pytest.approx(float(hits.float().mean()))
    assert (fitted.carries, own.carries) == (True, False)
    torch.testing.assert_close(own.others(seen, Classes(names[3:], given)), shots.scale * images @ given.T)


def test_what_prompt_learning_needs_of_a_text_tower_is_said(
    encoder: Encoder, own: str, root: Path, tmp_path: Path
) -> None:
    done = gate_runner.run(
        "coop-dtd", encoder=f"{own}:grid", output=tmp_path, data_root=root, show=False, shots="2", seeds=(1,),
        methods="coop,clip_lora",
    )  # fmt: skip
    reasons = [result.reason for result in done]
    assert "method coop learns what a text tower reads, and the encoder does not show that" in reasons[0]
    assert "method clip_lora trains both towers" in reasons[1]
    assert encoder.contexts is not None
    with pytest.raises(NotApplicableError, match="a context of 30 tokens leaves no room for names in 32"):
        encoder.contexts.of(["a"], 30)


def test_harmonic_means_of_weighted_outcomes() -> None:
    outcomes = Ragged(
        {"right": np.array([1.0, 0.0, 1.0, 1.0]), "new": np.array([False, False, True, True])}, np.ones(4)
    )
    weights = np.array([[1, 1, 1, 1], [0, 2, 1, 1], [3, 0, 0, 1]])
    assert harmonic(outcomes, weights).tolist() == pytest.approx([2 / 3, 0.0, 1.0])
    assert np.isnan(harmonic(outcomes, np.array([[1, 1, 0, 0]]))).all()


def test_a_harmonic_mean_of_nothing_right_has_an_interval() -> None:
    """Every resample was 0, and so was the interval's upper end."""
    targets = torch.arange(40) % 4
    logits = torch.eye(2)[1 - targets % 2]  # each the other class of its half
    data: Any = SimpleNamespace(test=SimpleNamespace(targets=targets), base=2, classes=tuple("abcd"))
    job: Any = SimpleNamespace(
        seed=0,
        training={"templates": ()},
        benchmark=SimpleNamespace(id="toy", metrics=("harmonic", "base", "new")),
    )
    fitted: Any = SimpleNamespace(trained=lambda seen: seen, others=lambda seen, _: seen, carries=True, about={})
    seen: Any = SimpleNamespace(where=lambda rows: logits[rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coop_run, "_texts", lambda *_: torch.eye(2))
        scores = {score.metric: score for score in coop_run._halves(job, data, seen, fitted, {}).scores}
    assert scores["harmonic"].value == scores["harmonic"].low == 0
    assert scores["harmonic"].high == pytest.approx(wilson(0.0, 20)[1])


def test_shifted_sets_are_scored_among_the_columns_of_their_classes(
    root: Path, encoder: Encoder, tmp_path: Path
) -> None:
    results = scored(root, tmp_path / "run", encoder, protocol="domain", shots="2", seeds=(1,), methods="zero_shot,gda")
    assert len(results) == 5 * 2
    data, images, texts = by_hand(encoder, "coop-imagenet-a", root, shots=2, seed=1, protocol="domain")
    *_, every = by_hand(encoder, "coop-imagenet", root, shots=2, seed=1, protocol="domain")
    tuned = tune(
        tuning_data(
            encoder.encode_image(data.train.images[:]), data.train.targets, classes=5, class_embeddings=every,
            logit_scale=encoder.logit_scale or 100.0, seed=1,
        ),
        "gda",
    )  # fmt: skip
    hits = tuned.scores(images)[:, list(data.columns)].argmax(1) == data.test.targets
    head = results["coop-imagenet-a@2-shot.domain.gda 1"]
    assert value_of(head) == pytest.approx(float(hits.float().mean()))
    zero = (images @ texts.T).argmax(1) == data.test.targets
    assert value_of(results["coop-imagenet-a@0-shot.domain.zero_shot 1"]) == pytest.approx(float(zero.float().mean()))
    assert head.scores[0].chance == pytest.approx(1 / 3)


def test_cross_scores_other_sets_by_their_own_texts(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    results = scored(root, tmp_path / "run", encoder, protocol="cross", shots="2", seeds=(1,))
    assert len(results) == 3 * 2
    data, images, texts = by_hand(encoder, "coop-dtd", root, shots=0, protocol="cross")
    hits = (images @ texts.T).argmax(1) == data.test.targets
    assert value_of(results["coop-dtd@0-shot.cross.zero_shot 1"]) == pytest.approx(float(hits.float().mean()))
    fitted = results["coop-dtd@2-shot.cross.prolip 1"]
    assert fitted.training["trained_parameters"] > 0
    assert 0 < fitted.training["chosen"]["moved"] < 1
    shown = tables(units_of("mine", results.values()))
    assert [table.id for table in shown] == ["coop-cross"]
    assert "prolip (2 of 10 sets)" in shown[0].as_markdown()


def test_cross_needs_imagenet_before_anything_is_computed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    shutil.copytree(root / "dtd", tmp_path / "data" / "dtd")
    request = make_request(
        "coop-dtd", output=tmp_path, settings=Settings(protocol="cross", data_root=tmp_path / "data")
    )
    with pytest.raises(DataError, match=r"does not hold its files \(imagenet/ with classnames.txt"):
        eval_units_of(request)


def test_labels_that_choose_are_said(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    how = {"shots": "2", "seeds": (1,), "methods": "tip_adapter", "choose_on": "validation"}
    results = scored(root, tmp_path / "run", encoder, ["coop-dtd", "coop-imagenet"], **how)
    assert results["coop-dtd@2-shot.few-shot.tip_adapter 1"].training["chosen_with"] == "10 further labels"
    lacking = results["coop-imagenet@2-shot.few-shot.tip_adapter 1"]
    assert (lacking.status, lacking.reason) == (
        "skipped", "choose_on=validation: the set has no list of validation images"
    )  # fmt: skip


def test_an_encoder_without_texts_has_heads_that_need_none(root: Path, own: str, tmp_path: Path) -> None:
    done = gate_runner.run(
        "coop-dtd", encoder=f"{own}:grid", output=tmp_path, data_root=root, show=False, shots="2", seeds=(1,),
        methods="zero_shot,logistic,tip_adapter,prolip",
    )  # fmt: skip
    assert {result.benchmark.rpartition(".")[2]: result.status for result in done} == {
        "zero_shot": "skipped", "logistic": "ok", "tip_adapter": "skipped", "prolip": "skipped"
    }  # fmt: skip
    assert "no text side" in next(result.reason for result in done if "zero_shot" in result.benchmark)


def test_several_views_are_averaged_and_the_same_each_time(root: Path, encoder: Encoder) -> None:
    benchmark = find_benchmark("coop-dtd@2-shot.few-shot.logistic")
    data: Any = load_few_shot("coop-dtd", root, shots=2, seed=1, request=DataRequest(size=encoder.image_size))
    job = Job(encoder, benchmark, data, seed=1)
    single, three, again = (features_of(job, data.train, "pooled", "train", views) for views in (1, 3, 3))
    assert torch.equal(three, again)
    assert not torch.allclose(single, three)
    parts = []
    for view in range(3):
        crop = random_crop(encoder.image_size, view, 1)
        pixels = [crop(data.train.images.decoded(row)[0]) for row in range(len(data.train))]
        parts.append(encoder.encode_image(torch.from_numpy(np.stack(pixels))).float())
    assert torch.allclose(three, torch.stack(parts).mean(0), atol=1e-5)
    assert torch.equal(features_of(job, data.train, "pooled", "train", 1), single)


def test_crops_are_of_half_the_area_or_more() -> None:
    from gate_runner.tasks.coop.views import _box

    rng = np.random.default_rng(0)
    shares, shapes = [], []
    for _ in range(400):
        left, top, right, bottom = _box(300, 200, rng)
        assert 0 <= left < right <= 300
        assert 0 <= top < bottom <= 200
        shares.append((right - left) * (bottom - top) / 60_000)
        shapes.append((right - left) / (bottom - top))
    assert min(shares) > 0.49
    assert max(shares) > 0.9
    assert 0.74 < min(shapes) < 0.85
    assert 1.2 < max(shape for shape in shapes if shape != 1.5) < 1.35  # 1.5 is the whole image
    assert _box(100, 1, rng) == (0.0, 0.0, 100.0, 1.0)  # no such shape fits


def made(name: str, method: str, seed: int, shots: int = 16, **values: float) -> Result:
    """A finished result of a unit, its scores in percent."""
    from gate_runner.tasks.job import Score

    protocol = "base-to-new" if "base" in values else "few-shot"
    scores = tuple(Score(metric, "higher", value / 100, 0, 1, 0.1) for metric, value in values.items())
    point = f"{shots}-shot.{protocol}.{method}"
    training = {"chosen_with": "nothing"}
    return Result(f"{name}@{point}", f"{name}@{point}", "coop", "local", seed, "ok", scores=scores, training=training)


def test_means_are_over_sets_and_deviations_over_seeds() -> None:
    values = {("coop-dtd", 1): 40.0, ("coop-dtd", 2): 50.0, ("coop-eurosat", 1): 60.0, ("coop-eurosat", 2): 80.0}
    results = [made(name, "gda", seed, **{"acc@1": value}) for (name, seed), value in values.items()]
    results.append(made("coop-dtd", "gda", 3, **{"acc@1": 99.0}))  # a seed that another set lacks
    table = tables(units_of("mine", results))[0]
    assert table.rows[0][:2] == ("gda (2 of 11 sets)", "mine")
    assert table.rows[0][table.heads.index("16")] == "57.50 ± 10.61"
    assert table.rows[0][-2:] == ("nothing", "this run")


def test_both_harmonic_means_are_printed() -> None:
    halves = {"coop-dtd": (80.0, 20.0), "coop-eurosat": (60.0, 60.0)}
    results = [
        made(name, "prolip", seed, harmonic=0.0, base=base + seed, new=new - seed)
        for name, (base, new) in halves.items()
        for seed in (-1, 1)
    ]
    table = tables(units_of("mine", [*results]))[0]
    row = dict(zip(table.heads, table.rows[0], strict=True))
    assert (row["Base"], row["New"]) == ("70.00", "40.00")
    assert row["Harmonic of means"] == f"{2 * 70 * 40 / 110:.2f}"
    assert row["Mean of harmonics"] == f"{(2 * 80 * 20 / 100 + 60) / 2:.2f}"


def test_published_rows_say_where_they_are_from_and_what_chose() -> None:
    few, halves = published()["few-shot"], published()["base-to-new"]
    assert {row["backbone"] for row in few} == {"RN50", "ViT-B/16"}
    allowed = {"nothing", "its own shots", "extra labels", "the test set", "not known",
               "extra labels; on ImageNet the test set"}  # fmt: skip
    for row in (*few, *halves):
        assert row["source"]
        assert row["chosen_with"] in allowed
    for row in halves:
        of_means = 2 * row["base"] * row["new"] / (row["base"] + row["new"])
        assert (abs(of_means - row["harmonic"]) < 0.02) == (row["harmonic_is"] == "of means"), row["method"]
    assert [row["method"] for row in few if row["shots"].get("16") == 82.97] == ["CLIP-SVD"]


def test_rows_of_the_runs_own_backbone_are_shown_beside_it() -> None:
    assert backbone_of("open_clip:ViT-B-16/openai") == "ViT-B/16"
    assert backbone_of("open_clip:RN50/openai") == "RN50"
    assert backbone_of("micro-clip") == ""
    assert len(few_shot_table().rows) > len(few_shot_table(backbone="RN50").rows) > 5
    assert {row[1] for row in base_to_new_table(backbone="ViT-B/16").rows} == {"CLIP ViT-B/16"}
    with pytest.raises(UsageError, match="unknown backbone 'ViT-B/6'; nearest: ViT-B/16"):
        few_shot_table(backbone="ViT-B/6")


def test_a_report_has_the_tables_with_the_finding_above(few_shot: Path, root: Path, tmp_path: Path) -> None:
    run = read_run(few_shot)
    shown = overview([run])
    assert [table.id for table in shown] == ["coop-few-shot", "coop-each-set"]
    assert shown[0].note.startswith(SEEN)
    assert shown[0].rows[0][-1] == "this run, synthetic stand-ins"
    page = gate_runner.report(few_shot, output=tmp_path / "page.html", data_root=root)
    assert page.index("Kravets et al.") < page.index("CLIP-LoRA")
    assert "data:image" in page  # test images are drawn again from their files


def test_two_encoders_are_compared_unit_by_unit(root: Path, encoder: Encoder, few_shot: Path, tmp_path: Path) -> None:
    other = load_encoder("micro-clip/random", device="cpu")
    how = {"shots": "2", "methods": "tip_adapter", "seeds": (1, 2)}
    scored(root, tmp_path / "other", other, **how)
    only = [f"{name}@2-shot.few-shot.tip_adapter" for name in SETS]
    comparison = gate_runner.compare(few_shot, tmp_path / "other", only=only, permutations=99)
    assert [contrast.name for contrast in comparison.contrasts] == sorted(only)
    assert all(contrast.seeds == (1, 2) for contrast in comparison.contrasts)


def test_the_command_prints_the_table_under_the_finding(
    root: Path, tmp_path: Path, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = call_here(
        "run", "coop", "--shots", "1", "--setting", "methods=logistic", "--seed", "1", "--data-root", str(root),
        "--encoder", f"{own}:grid", "--output", str(tmp_path / "run"), "--isolate", "none", cwd=tmp_path,
    )  # fmt: skip
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert text.index("Kravets et al.") < text.index("CoOp's few-shot table")
    assert "logistic (3 of 11 sets)" in text
    assert "not scored: coop-caltech101, coop-oxford-pets" in caplog.text


def test_published_rows_are_listed(tmp_path: Path) -> None:
    text = call_here("ls", "published", "--backbone", "RN50", cwd=tmp_path).stdout.decode()
    assert text.index("Kravets et al.") < text.index("Tip-Adapter-F")
    assert "exp.log (gaopengcuhk/Tip-Adapter, d0e2d6f)" in text.replace("\\", "")
    rows = json.loads(call_here("ls", "published", "--json", cwd=tmp_path).stdout)
    assert rows["base-to-new"][1]["method"] == "CoOp"


def test_a_limit_is_of_test_images_and_said(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    results = scored(root, tmp_path / "run", encoder, "coop-dtd", shots="2", methods="logistic", seeds=(1,), limit=5)
    (result,) = results.values()
    assert (result.data["train"], result.data["test"]) == (10, 5)
    assert tables(units_of("mine", results.values()))[0].rows[0][-1] == "this run, limit 5, synthetic stand-ins"


def test_several_views_of_a_run_are_said(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    how = {"shots": "1", "methods": "logistic,prolip", "seeds": (1,)}
    several = scored(root, tmp_path / "two", encoder, "coop-dtd", views=2, **how)
    table = tables(units_of("mine", several.values()))[0]
    assert [row[-1] for row in table.rows[:2]] == ["this run, 2 views, synthetic stand-ins"] * 2
    single = scored(root, tmp_path / "one", encoder, "coop-dtd", **how)
    moved = [results["coop-dtd@1-shot.few-shot.prolip 1"].training["chosen"]["moved"] for results in (several, single)]
    assert moved[0] != moved[1]


@pytest.mark.parametrize("change", [lambda folder: (folder / "images" / "red" / "train_0000.jpg").unlink()])
def test_missing_images_are_said_before_anything_is_computed(
    change: Callable[[Path], None], root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "dtd", tmp_path / "data" / "dtd")
    change(tmp_path / "data" / "dtd")
    with pytest.raises(DataError, match=r"1 of 50 images are not in .*red/train_0000.jpg"):
        eval_units_of(make_request("coop-dtd", output=tmp_path, settings=Settings(data_root=tmp_path / "data")))


@pytest.mark.parametrize("protocol", ["few-shot", "base-to-new", "cross"])
def test_a_plan_says_what_a_run_takes(protocol: str, root: Path, encoder: Encoder, tmp_path: Path) -> None:
    planned = gate_runner.plan(
        "coop-dtd", encoder=encoder, output=tmp_path, data_root=root, shots="1", seeds=(1,), protocol=protocol
    )
    assert len(planned.parts) > 1
    assert [part.reason for part in planned.parts] == [""] * len(planned.parts)


def test_a_class_without_training_images_is_named(root: Path, encoder: Encoder, tmp_path: Path) -> None:
    shutil.copytree(root / "dtd", tmp_path / "data" / "dtd")
    path = tmp_path / "data" / "dtd" / "split_zhou_DescribableTextures.json"
    content = json.loads(path.read_text())
    content["train"] = [row for row in content["train"] if row[2] != "blue"]
    path.write_text(json.dumps(content))
    how = {"shots": "1", "methods": "zero_shot,gda,prolip", "seeds": (1,)}
    results = scored(tmp_path / "data", tmp_path / "run", encoder, "coop-dtd", **how)
    assert [result.status for result in results.values()] == ["ok", "skipped", "ok"]
    assert results["coop-dtd@1-shot.few-shot.gda 1"].reason == (
        "1 of 5 classes have no training image, such as 'blue': method gda needs one of each; "
        "zero_shot, prolip, coop, clip_lora, two_stage do without"
    )
    assert results["coop-dtd@1-shot.few-shot.prolip 1"].training["short_classes"] == 1
