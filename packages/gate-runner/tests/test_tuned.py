"""Encoders that are trained with their heads: what learns, what a result says, and that nothing stays behind."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gate_runner
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from gate_runner.comparison import compare
from gate_runner.errors import EncoderError, UsageError
from gate_runner.executors import run
from gate_runner.planning.probe import probe
from gate_runner.runs import RunRequest
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import eval_units_of, make_request
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_runs
from gate_runner.settings import Settings
from gate_runner.tasks import Job
from gate_runner.tasks.augmentation import Augmented
from gate_runner.tasks.backbone import choose_weights, preserved_encoder
from gate_runner.tasks.head_initialisation import solved_probe
from gate_runner.tasks.recipes import checked, recipe_for
from vision_adapters.finetune import interpolate
from vision_adapters.low_rank import add_lora, merge_lora
from vision_adapters.rows import sample_generator
from vision_adapters.training import Scale, family_of, gate_recipe
from vision_adapters.training.outcome import Kept
from vision_adapters.training.predictions import averaged
from vision_adapters.training.wise_ft import mixed
from vision_adapters.tuning import tuning_data
from vision_adapters.tuning.anchored import tune_anchored
from vision_features.encoders import load_encoder
from vision_features.encoders.own import adopt
from vision_features.encoders.tuned import load_tuned, save_tuned

IMAGES = torch.randint(0, 256, (2, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(self.norm(x)).relu()


class Tiny(nn.Module):
    """Sixteen places of eight channels, and a tower for texts that no image reaches."""

    image_size, mean, std = 16, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 8, 4, stride=4), nn.Sequential(Block(), Block())
        self.end = nn.BatchNorm1d(8)
        self.texts = nn.Sequential(Block(), Block(), Block())

    def places(self, images: Tensor) -> Tensor:
        blocks: Tensor = self.blocks(self.stem(images).flatten(2).transpose(1, 2))
        return blocks

    def encode_image(self, images: Tensor) -> Tensor:
        features: Tensor = self.end(self.places(images).mean(1))
        return features

    def encode_patches(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        return self.places(images), (4, 4)


def tiny() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return adopt(Tiny(), "tiny")


FIELDS = {"steps": 6, "batch_size": 8, "validate_every": 3}
DENSE = ("segmentation", "medical-segmentation", "depth")
"""Tasks whose every sample is a map, and takes as long as dozens of others."""


def tuned(name: str, output: Path, encoder: Any = None, observers: Any = (), **options: Any) -> Result:
    benchmark = BENCHMARKS[name]
    limit = 130 if benchmark.task.startswith("few-shot") else 8 if benchmark.task in DENSE else 24
    few = 4 if benchmark.task in DENSE else 8
    settings = Settings(limit=limit, device="cpu", recipe_fields={**FIELDS, "batch_size": few})
    short = {"episodes": 10, "steps": 4, "validate_every": 2, "rates": (1.0, 3.0)}  # of the head before the encoder
    if benchmark.task in DENSE:
        short["batch_size"] = few
    training = {**benchmark.training, **{key: value for key, value in short.items() if key in benchmark.training}}
    training.pop("head", None)  # a trained encoder's head begins as a transformer, so the frozen one's is one, too
    request = RunRequest(
        [replace(benchmark, training=training)], encoder or tiny(), output, settings.changed(**options)
    )
    (result,) = run(request, Observer(), observers)
    return result


def needs(mode: str) -> None:
    """Skip where a mode's library is not installed."""
    if mode == "lora":
        pytest.importorskip("peft")


def named(pattern: str, *parts: str) -> set[str]:
    return {pattern.format(part, kind) for part in parts for kind in ("weight", "bias")}


MODES = {
    "bias": {f"{part}.bias" for part in ("stem", "end", *(f"blocks.{n}.{p}" for n in (0, 1) for p in ("norm", "mix")))},
    "norm": named("{}.{}", "end", "blocks.0.norm", "blocks.1.norm"),
    "last-block": named("{}.{}", "end", "blocks.1.norm", "blocks.1.mix"),
    "lora": {f"blocks.{number}.mix.lora_{side}.default.weight" for number in (0, 1) for side in "AB"},
}  # fmt: skip


@pytest.mark.parametrize(("mode", "expected"), MODES.items())
def test_each_mode_trains_its_weights_and_no_texts(mode: str, expected: set[str]) -> None:
    needs(mode)
    encoder = tiny()
    mark = encoder.fingerprint()
    with preserved_encoder(encoder):
        assert set(choose_weights(encoder, "pooled", mode, IMAGES)) == expected
    assert encoder.fingerprint() == mark
    assert not any(weight.requires_grad for weight in encoder.module.parameters())
    assert type(encoder.module.blocks[0].mix) is nn.Linear


def test_low_rank_updates_reach_attentions_of_the_images_tower_only() -> None:
    needs("lora")
    encoder = load_encoder("micro-clip/random")
    assert encoder.module is not None
    order, mark = [name for name, _ in encoder.module.named_parameters()], encoder.fingerprint()
    with preserved_encoder(encoder):
        names = choose_weights(encoder, "pooled", "lora", torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
        block = "visual.transformer.resblocks.0"
        assert {name.partition(".lora_")[0] for name in names if name.startswith(f"{block}.")} == {
            f"{block}.attn.parametrizations.in_proj_weight.0", f"{block}.attn.out_proj.parametrizations.weight.0",
            f"{block}.mlp.c_fc", f"{block}.mlp.c_proj",
        }  # fmt: skip
        assert all(name.startswith("visual.") for name in names)
    assert [name for name, _ in encoder.module.named_parameters()] == order
    assert encoder.fingerprint() == mark


def test_a_mix_of_low_rank_updates_is_the_mix_of_the_weights() -> None:
    needs("lora")
    start, module = tiny().module, tiny().module
    for model in (start, module):
        model.attention = nn.MultiheadAttention(8, 2)
    start.load_state_dict(module.state_dict())
    trained = add_lora(module)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad():
        for number, name in enumerate(trained):
            weight = module.get_parameter(name)
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
    after = {name: value.clone() for name, value in module.state_dict().items()}
    ends = []
    for share in (0.3, 1.0):
        module.load_state_dict(mixed(before, after, share, whole=True))
        merge_lora(module)
        ends.append({name: value.clone() for name, value in module.state_dict().items()})
        module.load_state_dict(start.state_dict())
        add_lora(module)
    between = interpolate(start.state_dict(), ends[1], 0.3)
    for name, value in ends[0].items():
        torch.testing.assert_close(value, between[name], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(ends[0]["attention.in_proj_weight"], start.attention.in_proj_weight, atol=0.01)


def test_layers_that_are_read_and_not_called_get_updates_too() -> None:
    needs("lora")
    resnet = pytest.importorskip("open_clip.modified_resnet").ModifiedResNet

    class Towers(nn.Module):
        image_size, mean, std = 32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

        def __init__(self) -> None:
            super().__init__()
            self.visual = resnet((1, 1, 1, 1), 8, 2, image_size=32, width=8)
            self.texts = nn.Sequential(*(Block() for _ in range(6)))

        def encode_image(self, images: Tensor) -> Tensor:
            visual: Tensor = self.visual(images)
            return visual

    encoder = adopt(Towers(), "towers")
    images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    with preserved_encoder(encoder):
        names = choose_weights(encoder, "pooled", "lora", images)
        assert {name.split(".")[2] for name in names} == {"q_proj", "k_proj", "v_proj", "c_proj"}
        encoder.image(encoder.prepare(images)).square().sum().backward()
        weights = dict(encoder.module.named_parameters())
        assert all(bool(weights[name].grad.any()) for name in names if "lora_B" in name)
    with preserved_encoder(encoder):
        (part,) = {name.split(".")[0] for name in choose_weights(encoder, "pooled", "last-block", images)}
        assert part == "visual"  # the texts' tower has more blocks


def test_everything_that_an_image_reaches_is_trained_in_full() -> None:
    encoder = load_encoder("micro-clip/random")
    names = choose_weights(encoder, "patches", "full", torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
    assert all(name.startswith("visual.") for name in names)
    assert "visual.proj" not in names  # places come before the projection
    assert len(names) > 20


@pytest.mark.parametrize(
    "name",
    [
        "cifar100",
        "ade20k",
        pytest.param("acdc", marks=pytest.mark.again),
        "clevr-math",
        "iwildcam",
        "chexpert",
        "mini",
        "mini-gate",
        "flickr30k",
        "nyu-depth",
    ],
)
def test_every_task_type_trains_an_encoder_and_leaves_it_as_it_was(name: str, tmp_path: Path) -> None:
    encoder = tiny()
    mark = encoder.fingerprint()
    frozen = tuned(name, tmp_path / "frozen", encoder, recipe_fields={})
    result = tuned(name, tmp_path / "run", encoder, tune="full")
    assert (frozen.status, result.status) == ("ok", "ok"), result.reason
    if name != "cifar100":  # the others' heads are trained in steps: the encoder's training begins where they end
        direction = result.scores[0].direction
        (metric,) = result.training["validation"][0].keys() - {"step"}
        best = (max if direction == "higher" else min)(row[metric] for row in frozen.training["validation"])
        assert result.training["validation"][0][metric] == pytest.approx(best, rel=1e-3)
    assert not list((tmp_path / "run" / "unfinished").glob("*.pt*"))
    assert encoder.fingerprint() == mark
    assert result.settings["tune"] == "full"
    assert result.training["steps"] == 6
    assert [row["checkpoints"] for row in result.training["ensembles"]] == [1, 3]
    first = result.training["ensembles"][0]
    assert first[result.scores[0].metric] == pytest.approx(result.scores[0].value, abs=1e-6)
    assert {row["step"] for row in result.training["gradients"]} == {3, 6}
    assert any(key.startswith("encoder.blocks") for key in result.training["gradients"][0])


def test_modes_lie_in_folders_of_their_own_and_are_paired(tmp_path: Path) -> None:
    encoder = tiny()
    for mode in ("frozen", "full"):
        assert tuned("digits", tmp_path / mode, encoder, tune=mode).status == "ok"
    with pytest.raises(UsageError, match="tune"):
        tuned("digits", tmp_path / "full", encoder, tune="bias")
    runs = read_runs([tmp_path / "frozen", tmp_path / "full"])
    assert [run.label for run in runs] == ["tiny", "tiny (full)"]
    comparison = compare(*runs, resamples=50, permutations=99)
    assert len(comparison.contrasts) == 1


@pytest.mark.parametrize(("mode", "encoder"), [("full", None), ("lora", "micro-dense/random")])
def test_a_killed_fine_tuning_ends_with_the_same_bits(mode: str, encoder: str | None, tmp_path: Path) -> None:
    needs(mode)

    class Stops(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == 5:
                raise KeyboardInterrupt

    settings: dict[str, Any] = {"tune": mode, "recipe_fields": {**FIELDS, "augment": True}}
    whole = tuned("cifar100", tmp_path / "whole", encoder, **settings)
    with pytest.raises(KeyboardInterrupt):
        tuned("cifar100", tmp_path / "cut", encoder, **settings, observers=[Stops()])
    again = tuned("cifar100", tmp_path / "cut", encoder, **settings, decode_workers=1)
    assert again.scores == whole.scores
    assert again.training["validation"] == whole.training["validation"]
    assert again.training["gradients"] == whole.training["gradients"]
    if mode == "full":  # images that vary train otherwise
        plain = tuned("cifar100", tmp_path / "plain", encoder, tune=mode)
        assert plain.training["gradients"] != whole.training["gradients"]


@pytest.fixture(scope="module")
def whole_clips(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A training of clips that nothing stopped."""
    return tuned("iwildcam", tmp_path_factory.mktemp("whole"), tune="full")


@pytest.mark.parametrize("step", [1, pytest.param(3, marks=pytest.mark.again), 6])
def test_a_training_killed_in_its_heads_ends_with_the_same_bits(step: int, whole_clips: Result, tmp_path: Path) -> None:
    class Stops(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train head" and done == step:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned("iwildcam", tmp_path / "cut", tune="full", observers=[Stops()])
    assert list((tmp_path / "cut" / "unfinished").glob("*.pt.head*"))
    again = tuned("iwildcam", tmp_path / "cut", tune="full")
    assert again.scores == whole_clips.scores
    assert again.training["validation"] == whole_clips.training["validation"]


def test_a_head_that_starts_at_random_is_not_trained_before(tmp_path: Path) -> None:
    class Hears(Observer):
        def __init__(self) -> None:
            self.phases: set[str] = set()

        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            self.phases.add(phase)

    heard = [Hears(), Hears()]
    starts = [
        tuned("iwildcam", tmp_path / how, tune="full", observers=[start], recipe_fields={**FIELDS, "head_start": how})
        for how, start in zip(("probe", "random"), heard, strict=True)
    ]
    assert [("train head" in start.phases) for start in heard] == [True, False]
    first, other = (start.training["validation"][0]["mae"] for start in starts)
    assert first != other


def test_what_cannot_be_trained_says_so(tmp_path: Path) -> None:
    class Detached(Tiny):
        def encode_image(self, images: Tensor) -> Tensor:
            return super().encode_image(images).detach()

    class Plain(nn.Module):
        image_size = 16

        def forward(self, images: Tensor) -> Tensor:
            return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)

    class Convolutional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 4)

        def forward(self, images: Tensor) -> Tensor:
            return self.stem(images).mean((2, 3))

    for module, mode, message in (
        (Detached(), "full", "gives no gradients"),
        (Plain(), "full", "has no weights that can be trained"),
        (Convolutional(), "lora", "--tune lora: the model has no linear layer and no attention"),
        (Convolutional(), "norm", "no parameter of kind 'norm'"),
    ):
        with pytest.raises(EncoderError, match=message):
            choose_weights(adopt(module, "own"), "pooled", mode, IMAGES)
    failed = tuned("cifar100", tmp_path / "run", adopt(Detached(), "own"), tune="full")
    assert "gives no gradients: --tune frozen only" in failed.reason


def test_a_loss_that_turns_nan_names_step_and_rate(tmp_path: Path) -> None:
    result = tuned("cifar100", tmp_path / "run", tune="full", recipe_fields={**FIELDS, "lr": 1e30, "clip_norm": "none"})
    assert result.status == "failed"
    assert "at learning rate" in result.reason or "validation score" in result.reason


def test_recipes_by_name_file_and_field(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module = tiny().module
    assert family_of(module) == "convolutional"
    gate = recipe_for(Settings(tune="full", recipe="gate"), module, "segmentation")
    assert gate == gate_recipe("convolutional", "segmentation")
    file = tmp_path / "mine.toml"
    file.write_text('base = "gate"\nsteps = 70\nschedule = "constant"\naugment = false\n')
    mine = recipe_for(Settings(tune="full", recipe=str(file), recipe_fields={"steps": "80"}), module, "few-shot")
    assert (mine.steps, mine.schedule, mine.batch_size, mine.lr) == (80, "constant", 1, 1e-3)
    with pytest.raises(UsageError, match="unknown field of a recipe 'step'; nearest: steps"):
        checked({"step": 3})
    with pytest.raises(UsageError, match="steps is 'many', expected int"):
        checked({"steps": "many"})
    with pytest.raises(UsageError, match=r"quick, gate or a \.toml file, not 'slow'"):
        Settings(recipe="slow")
    assert family_of(nn.Sequential(nn.Linear(2, 2))) is None
    recipe_for(Settings(tune="full"), nn.Sequential(nn.Linear(2, 2)), "few-shot")
    assert "trained at the rate of transformers" in caplog.text


def test_every_strength_of_augmentation_gives_an_image() -> None:
    make = Augmented(IMAGES, "rand-m10-n6-mstd0-inc1")  # no bit is left to posterize by
    for step in range(12):
        assert make(0, sample_generator(0, step, 0)).shape == (3, 16, 16)


def test_images_are_not_moved_away_from_what_their_places_are(tmp_path: Path) -> None:
    fields = {**FIELDS, "steps": 2, "head_start": "random"}
    randomly = {**fields, "augment": "randaugment"}
    result = tuned("ade20k", tmp_path / "maps", tune="full", recipe_fields=randomly)
    assert "augment=randaugment moves images, and not what their places are labelled with" in result.reason
    for augment in ("crop", "gate"):
        clips = tuned("iwildcam", tmp_path / augment, tune="full", recipe_fields={**fields, "augment": augment})
        assert clips.status == "ok", clips.reason


def test_augmentation_depends_on_its_generator_alone() -> None:
    make = Augmented(IMAGES)
    first, again, other = (make(1, sample_generator(0, step, 1)) for step in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(make(1, None), IMAGES[1])
    state = torch.get_rng_state()
    assert make(0, sample_generator(0, 1, 0)).shape == (3, 16, 16)
    assert torch.equal(state, torch.get_rng_state())
    clip = Augmented(IMAGES[:1].expand(2, -1, -1, -1)[None])(0, sample_generator(0, 1, 0))
    assert torch.equal(clip[0], clip[1])


def test_augmentation_leaves_the_generators_of_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    Augmented(IMAGES)(0, sample_generator(0, 1, 0))
    assert not seeds


class WithTexts(Tiny):
    """The same with a text side: a vector of each text's letters."""

    def encode_text(self, texts: list[str]) -> Tensor:
        values = torch.zeros(len(texts), 8)
        for row, text in enumerate(texts):
            for letter in text:
                values[row, ord(letter) % 8] += 1
        return values


def with_texts() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return adopt(WithTexts(), "texts")


@pytest.mark.parametrize("mode", ["full", "lora", "bias"])
def test_a_kept_encoder_is_loaded_as_it_ended(mode: str, tmp_path: Path) -> None:
    needs(mode)
    encoder, ends = tiny(), []
    fields = {**FIELDS, "head_start": "random"}  # from the solved probe, six steps may not better the start
    result = tuned("cifar100", tmp_path / "run", encoder, tune=mode, save_encoders=True, recipe_fields=fields)
    assert result.status == "ok", result.reason
    folder = tmp_path / "run" / "encoders" / "micro-cifar100.seed0"
    for _ in range(2):
        again = load_tuned(folder, tiny())
        ends.append(again.encode_image(IMAGES))
    assert torch.equal(*ends)
    assert not torch.allclose(ends[0], encoder.encode_image(IMAGES))
    card = json.loads((folder / "card.json").read_text())
    assert card["scores"][0]["value"] == result.scores[0].value
    assert card["trained"]["recipe"]["steps"] == 6
    assert card["encoder"]["changed"] == {"full": 15, "lora": 2, "bias": 6}[mode]
    (score,) = [score for score in tuned("cifar100", tmp_path / "same", again).scores if score.metric == "acc@1"]
    assert score.value >= 0  # a loaded encoder is one like any other
    weights = (folder / "encoder.safetensors").read_bytes()
    (folder / "encoder.safetensors").write_bytes(weights[:-4] + b"\0\0\0\0")
    with pytest.raises(EncoderError, match="its weights are not those"):
        load_tuned(folder, tiny())
    with pytest.raises(EncoderError, match="was trained from tiny with weights"):
        load_tuned(folder, again)
    with pytest.raises(EncoderError, match="an object that no spec makes"):
        load_encoder(f"tuned:{folder}")
    with pytest.raises(EncoderError, match="holds no trained encoder"):
        load_encoder(f"tuned:{tmp_path}")


def test_a_card_does_not_call_code(own: str, tmp_path: Path) -> None:
    encoder = load_encoder("micro-clip/random")
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}  # type: ignore[union-attr]
    with torch.no_grad():
        encoder.module.visual.proj.add_(1.0)  # type: ignore[union-attr]
    folder = save_tuned(encoder, start, tmp_path / "kept", {})
    loaded = load_encoder(f"tuned:{folder}")
    assert (loaded.spec, loaded.fingerprint()) == (f"tuned:{folder}", encoder.fingerprint())
    assert load_encoder(f"tuned:{folder}=micro-clip/random").fingerprint() == encoder.fingerprint()
    card = folder / "card.json"
    card.write_text(card.read_text().replace("micro-clip/random", f"{own}:grid"))
    with pytest.raises(EncoderError, match=f"say tuned:{folder}={own}:grid if you trust it"):
        load_encoder(f"tuned:{folder}")
    with pytest.raises(EncoderError, match=f"not from {own}:grid"):
        load_encoder(f"tuned:{folder}={own}:grid")


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_gain_and_loss_and_the_mix_between(mode: str, tmp_path: Path) -> None:
    needs(mode)
    pytest.importorskip("skimage", reason="the faces come with scikit-image")
    settings: dict[str, Any] = {"tune": mode, "keep_zero_shot": ("zero-shot", "faces")}
    plain = tuned("cifar100", tmp_path / "plain", with_texts(), **settings)
    assert plain.status == "ok", plain.reason
    rows = plain.training["zero_shot"]
    assert [row["benchmark"] for row in rows] == ["micro/zero-shot", "faces"]
    assert all(row["low"] <= row["change"] <= row["high"] for row in rows)
    assert plain.training["gained"]["after"] == pytest.approx(plain.scores[0].value)
    curves = {}
    for share in (0.0, 1.0, "best"):
        result = tuned("cifar100", tmp_path / str(share), with_texts(), wise_ft=share, **settings)
        assert result.status == "ok", result.reason
        curves[share] = result.training["wise_ft"]["curve"]
        here = [row for row in curves[share] if row["share"] == result.training["wise_ft"]["share"]]
        assert {row["benchmark"]: row["after"] for row in result.training["zero_shot"]} == here[0]["zero_shot"]
        if share == 0.0:  # the head starts at the prompts: nothing is gained, and nothing lost
            assert result.training["gained"]["change"] == 0
            assert [row["change"] for row in result.training["zero_shot"]] == [0, 0]
    page = gate_runner.report(tmp_path / "best", pictures=0)
    assert "Gained and forgotten" in page
    assert "Mixes of the weights before (0) and after (1) the training" in page
    assert "by share of the trained weights" in page
    assert f"{result.training['zero_shot'][0]['before']:.3f}" in page
    tried = {row["share"]: row["validation"] for row in curves["best"]}
    assert len(tried) == 11
    assert tried[result.training["wise_ft"]["share"]] == max(tried.values())
    assert {row["share"]: row["validation"] for row in curves[1.0] if row["share"] in (0.0, 0.5, 1.0)} == {
        share: tried[share] for share in (0.0, 0.5, 1.0)
    }


def test_gain_and_loss_needs_texts_and_classes(tmp_path: Path) -> None:
    result = tuned("cifar100", tmp_path / "run", tune="bias", keep_zero_shot="zero-shot")
    assert "has no text side; setting keep_zero_shot needs one" in result.reason
    with pytest.raises(UsageError, match="ade20k: segmentation has no class prompts"):
        make_request("digits", settings=Settings(tune="full", keep_zero_shot=("ade20k",)))
    for option in ({"wise_ft": 0.5}, {"save_encoders": True}, {"keep_zero_shot": ("digits",)}):
        with pytest.raises(UsageError, match="--tune other than frozen"):
            Settings(**option)  # type: ignore[arg-type]
    for share in (1.5, "some", "nan"):
        with pytest.raises(UsageError, match="share from 0 to 1, or best"):
            Settings(tune="full", wise_ft=share)


def test_a_plan_of_a_training_shows_its_recipe(tmp_path: Path) -> None:
    from gate_runner.planning.plan import plan

    encoder = tiny()
    mark = encoder.fingerprint()
    settings = Settings(limit=130, device="cpu", tune="full", recipe_fields={"batch_size": "8"})
    benchmarks = [BENCHMARKS["cifar100"], BENCHMARKS["mini"]]
    planned = plan(RunRequest(benchmarks, encoder, tmp_path / "run", settings))
    assert [part.reason for part in planned.parts] == ["", ""]
    assert encoder.fingerprint() == mark
    assert [part.recipe["steps"] for part in planned.parts] == [450, 150]
    assert all(part.seconds > part.phases["train"] > 0 for part in planned.parts)
    longer = settings.changed(recipe_fields={"batch_size": "8", "steps": "60000"})
    assert plan(RunRequest(benchmarks[:1], encoder, tmp_path / "long", longer)).seconds > 5 * planned.parts[0].seconds


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_blocks_that_are_computed_again_change_no_bit(mode: str, tmp_path: Path) -> None:
    needs(mode)
    encoder = tiny()
    runs = [
        tuned("cifar100", tmp_path / str(again), encoder, tune=mode, checkpoint_blocks=again) for again in (False, True)
    ]
    assert runs[1].status == "ok", runs[1].reason
    assert runs[0].scores == runs[1].scores
    assert runs[0].training["gradients"] == runs[1].training["gradients"]
    assert "forward" not in vars(encoder.module.blocks[0])


def test_little_memory_halves_the_batch_and_keeps_the_gradient(tmp_path: Path) -> None:
    class Heavy(Tiny):
        most = 64

        def places(self, images: Tensor) -> Tensor:
            if torch.is_grad_enabled() and len(images) > self.most:
                raise MemoryError("out of memory")
            return super().places(images)

        def encode_image(self, images: Tensor) -> Tensor:
            return self.places(images).mean(1)  # no batch norm: its statistics would be those of smaller parts

    def run_with(most: int) -> Result:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = Heavy()
        module.most = most
        return tuned("cifar100", tmp_path / str(most), adopt(module, "heavy"), tune="full")

    result, cut = run_with(64), run_with(3)
    assert (result.training.get("micro_batches"), cut.training["micro_batches"]) == (None, 4)
    for first, second in zip(result.training["gradients"], cut.training["gradients"], strict=True):
        assert second == pytest.approx(first, rel=1e-3, abs=1e-6)


def test_a_solved_head_gives_the_probes_scores_and_never_a_class_without_images() -> None:
    encoder = load_encoder("micro-clip")
    data = BENCHMARKS["digits"].load("built-in", DataRequest(limit=60, size=64))
    train = replace(data.train, targets=data.train.targets + 1)  # class 0 has no image
    job = Job(encoder, BENCHMARKS["digits"], replace(data, train=train, classes=("none", *data.classes)))
    probes = {}
    for name, encode in (("projected", encoder.encode_image), ("backbone", encoder.encode_backbone)):
        with torch.inference_mode():
            features = encode(train.images).float()
        own = encoder if name == "backbone" else replace(encoder, backbone=None)
        split = tuning_data(features.clone(), data.train.targets, metric="acc@1", seed=0)
        probes[name] = tune_anchored(split, linear=True)
        solved = solved_probe(replace(job, encoder=own))
        scale = Scale.of(features)
        scores = solved.head(scale)(scale(features))
        assert solved.features == name
        assert torch.allclose(scores[:, 1:], probes[name].scores(features.clone()), atol=1e-3)
        assert not bool((scores.argmax(1) == 0).any())
    assert (probes["backbone"].validation or 0) > (probes["projected"].validation or 0)  # why it was taken


def test_a_head_starts_at_the_probe_of_the_features_that_probe_best(tmp_path: Path) -> None:
    fields = {**FIELDS, "steps": 1}  # what is asked lies before the first
    solved = tuned("digits", tmp_path / "solved", "micro-clip", tune="full", limit=60, recipe_fields=fields)
    behind = tuned("digits", tmp_path / "random", "micro-clip", tune="full", limit=60,
                   recipe_fields={**fields, "head_start": "random"})  # fmt: skip
    first, other = (result.training["validation"][0]["acc@1"] for result in (solved, behind))
    assert first >= other + 0.2
    module = load_encoder("micro-clip").module
    assert module is not None
    projection = module.get_parameter("visual.proj").numel()
    assert solved.training["features"] == "backbone"
    assert "features" not in behind.training
    assert (
        behind.training["trained_parameters"] - behind.training["head_parameters"]
        == solved.training["trained_parameters"] - solved.training["head_parameters"] + projection
    )


def test_a_start_that_there_is_not_shows_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"head_start.*prob.*probe"):
        checked({"head_start": "prob"})


def test_ensembles_are_means_of_outputs_and_the_best_weights_stay() -> None:
    generator = torch.Generator().manual_seed(0)
    kepts = [Kept(step, 0.0, {"weight": torch.randn(2, 3, generator=generator)}) for step in range(5)]
    module, rows = nn.Linear(3, 2, bias=False), torch.randn(7, 3, generator=generator)
    module.load_state_dict(kepts[0].state)
    batches = list(averaged(module, kepts, (rows,), lambda output: output, 4))
    for size in (1, 3, 5):
        expected = torch.stack([rows @ checkpoint.state["weight"].T for checkpoint in kepts[:size]]).mean(0)
        assert torch.allclose(torch.cat([batch[size] for batch in batches]), expected, atol=1e-6)
    assert torch.equal(module.weight, kepts[0].state["weight"])
    assert [set(batch) for batch in averaged(module, kepts[:4], (rows,), lambda output: output, 7)] == [{1, 3, 4}]
    assert [set(batch) for batch in averaged(module, kepts[:1], (rows,), lambda output: output, 7)] == [{1}]


def test_an_ensemble_of_vectors_has_the_mean_of_their_products() -> None:
    generator = torch.Generator().manual_seed(0)
    kepts = [Kept(step, 0.0, {"weight": torch.randn(2, 3, generator=generator)}) for step in range(3)]
    module, rows = nn.Linear(3, 2, bias=False), torch.randn(7, 3, generator=generator)
    module.load_state_dict(kepts[0].state)
    (means,) = averaged(module, kepts, (rows,), lambda output: output, 7, side_by_side=True)
    expected = torch.stack(
        [(rows @ checkpoint.state["weight"].T) @ (rows @ checkpoint.state["weight"].T).T for checkpoint in kepts]
    ).mean(0)
    assert torch.allclose(means[3] @ means[3].T, expected, atol=1e-5)


def test_a_plan_counts_the_head_that_is_trained_before_the_encoder(tmp_path: Path) -> None:
    rates = {"steps": 240, "rates": (1.0, 0.3, 3.0)}
    (benchmark,) = [replace(BENCHMARKS["iwildcam"], training={**BENCHMARKS["iwildcam"].training, **rates})]
    planned = []
    for how in ("probe", "random"):
        settings = Settings(limit=20, device="cpu", tune="full", recipe_fields={**FIELDS, "head_start": how})
        (part,) = eval_units_of(RunRequest([benchmark], tiny(), tmp_path / how, settings))
        encoder = tiny()
        encoder.to("cpu")
        mark = encoder.fingerprint()
        planned.append(probe(part, encoder))
        assert encoder.fingerprint() == mark
    before, without = (part.phases["train"] for part in planned)
    assert before > 2 * without  # 240 steps at up to three rates, and then six of the encoder


class Slow(Tiny):
    """Two thousandths of a second for each image that is not trained on."""

    def encode_image(self, images: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            time.sleep(0.002 * len(images))
        return super().encode_image(images)


def test_a_plan_counts_the_encoding_of_the_whole_training_split_for_a_solved_head(tmp_path: Path) -> None:
    settings = Settings(device="cpu", tune="full", recipe_fields=FIELDS)
    encoder = adopt(Slow(), "slow")
    encoder.to("cpu")
    (part,) = eval_units_of(RunRequest([BENCHMARKS["digits"]], encoder, tmp_path, settings))
    assert probe(part, encoder).phases["encode"] >= 0.002 * 898


def test_a_task_is_run_once_and_its_test_images_are_encoded_by_the_trained_encoder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gate_runner.tasks.labels as task
    from vision_features.features import encoding

    runs, encoded, original = [], [], encoding.encode_pictures
    run_once = task.run_findings
    monkeypatch.setattr(task, "run_findings", lambda job: (runs.append(job.settings.tune), run_once(job))[1])

    def noted(*message: Any, **named: Any) -> Any:
        encoded.append(message[4])
        return original(*message, **named)

    monkeypatch.setattr("vision_features.features.encode_pictures", noted)
    assert tuned("chexpert", tmp_path / "run", tune="full").status == "ok"
    assert runs == ["full"]
    assert encoded == ["train", "validation"]
