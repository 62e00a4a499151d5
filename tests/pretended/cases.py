"""What the runner and the losses compute on the CPU and on the pretended GPU, compared in one process.

``python -m tests.pretended.cases FOLDER [--but] [GROUP | "GROUP CASE" ...]`` prints a line of JSON for each case: what
differs, how often the processor waited for the device, what was copied there, and how many tensors stayed. ``--but``
runs all others. A case is a function of a device and a folder.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tests.pretended import device as pretended
from tests.pretended import models
from torch import Tensor

import eqsim
import gate_runner
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.executors import run
from gate_runner.finetuning.request import FinetuneRequest
from gate_runner.finetuning.training import finetune
from gate_runner.runs import RunRequest
from gate_runner.runs.observers import Observer
from gate_runner.settings import Settings
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.loading import load_encoder
from vision_features.encoders.probe import probe
from vision_features.features.encoding import features_of_kind
from vision_features.heads import load_head

Numbers = dict[str, Any]
Case = Callable[[str, Path], Numbers]
CASES: dict[str, Case] = {}
_LOADED: dict[str, Encoder] = {}
_CLOSE = 2e-4
"""Kernels are the CPU's; a branch by device may add in another order."""


def case(group: str, *names: str) -> Callable[[Callable[..., Numbers]], Callable[..., Numbers]]:
    """Enter a function under its group, once for each name, which it gets as its third argument."""

    def entered(function: Callable[..., Numbers]) -> Callable[..., Numbers]:
        for name in names:
            CASES[f"{group} {name}"] = lambda device, folder, name=name: function(device, folder, name)
        return function

    return entered


# -- encoders


@case("encoders", *models.ENCODERS)
def everything_of(device: str, folder: Path, name: str) -> Numbers:
    """All that can be asked of an encoder."""
    if name not in _LOADED:  # by the first pass; the second moves it
        _LOADED[name] = models.ENCODERS[name](folder / "model")
    encoder = _LOADED[name]
    encoder.to(device)
    encoder.outputs = probe(encoder)
    images = torch.randint(0, 256, (3, *encoder.shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    given: Numbers = {"image": encoder.encode_image(images), "readouts": encoder.encode_readouts(images)}
    if encoder.backbone is not None:
        given["backbone"] = encoder.encode_backbone(images)
        given["both"] = features_of_kind(encoder, "both", images)
    if encoder.patches is not None:
        given["patches"] = encoder.encode_patches(images).tokens
    if encoder.blocks is not None:
        given |= {f"block {n}": block.places for n, block in enumerate(encoder.encode_blocks(images).blocks)}
    if encoder.text is not None:
        given["text"] = encoder.encode_text(["one", "two words"])
    if encoder.text_tokens is not None:
        words = encoder.encode_text_tokens(["one", "two words"])
        given["words"] = words.tokens * words.mask[..., None]
    if name == "open_clip CoCa":  # whose image tower has a pooler of its own
        assert given["patches"].shape == (3, 16, 32)
        assert {"last", "block:1/mean", "block:2/mean"} <= set(encoder.readouts())
    wrong = [key for key, value in given.items() if value.device != torch.device(device)]
    assert not wrong, f"on another device: {wrong}"
    given["tokens on the processor"] = features_of_kind(encoder, "tokens:1", images)
    assert given["tokens on the processor"].device.type == "cpu"
    given["fingerprint"] = int(encoder.fingerprint()[:12], 16) % 1_000_003
    return given


# -- tasks

SHORT = {"episodes": 4, "steps": 2, "validate_every": 1, "rates": (1.0,)}
DENSE = ("segmentation", "medical-segmentation", "depth", "zero-shot-segmentation", "detection")
RECIPE = {"steps": "2", "batch_size": "8", "validate_every": "1"}


def scores(name: str, device: str, folder: Path, *watching: Observer, **options: Any) -> Numbers:
    """A short run's scores, with its validations and losses."""
    benchmark = BENCHMARKS[name]
    limit = 64 if benchmark.task.startswith("few-shot") else 6 if benchmark.task in DENSE else 12
    training = {**benchmark.training, **{key: value for key, value in SHORT.items() if key in benchmark.training}}
    encoder = options.pop("encoder", "micro-clip")
    given = {"limit": limit, "device": device, "isolate": "none", "precision": "float32", **options}
    settings = Settings().changed(**given)
    request = RunRequest([replace(benchmark, training=training)], encoder, folder / "run", settings)
    results = run(request, *(watching or (Observer(),)))
    numbers: Numbers = {}
    for result in results:
        assert result.status == "ok", _trace(folder)[-2000:] or result.reason
        numbers |= {f"{result.name} {score.metric}": score.value for score in result.scores}
        for row in result.training.get("validation", []):
            numbers |= {f"step {row['step']} {key}": value for key, value in row.items() if isinstance(value, float)}
        numbers |= {f"loss {n}": loss for n, loss in enumerate(result.training.get("losses", []))}
    return numbers


def _trace(folder: Path) -> str:
    traces = sorted(folder.rglob("*traceback*"))
    return traces[0].read_text()[-3000:] if traces else ""


FROZEN = (
    "cifar100", "ade20k", "acdc", "clevr", "clevr-math", "iwildcam", "chexpert", "mini", "mini-gate", "flickr30k",
    "nyu-depth", "happy", "nycc", "winoground", "hmdb51", "oven", "zero-shot", "zero-shot-segmentation", "odinw-lot",
)  # fmt: skip


@case("frozen", *FROZEN)
def frozen(device: str, folder: Path, name: str) -> Numbers:
    """A head on frozen features, or none."""
    return scores(name, device, folder, recipe_fields=RECIPE if name == "odinw-lot" else {})


@case("trained", *(name for name in FROZEN[:11] if name != "clevr"), "odinw-lot")
def trained(device: str, folder: Path, name: str) -> Numbers:
    """The whole encoder, with its head."""
    return scores(name, device, folder, tune="full", recipe_fields=RECIPE)


@case("modes", "bias", "norm", "last-block", "lora")
def modes(device: str, folder: Path, name: str) -> Numbers:
    """Some of the encoder's weights."""
    return scores("cifar100", device, folder, tune=name, recipe_fields={**RECIPE, "head_start": "random"})


@case("readouts", "last,auto", "concat")
def readouts(device: str, folder: Path, name: str) -> Numbers:
    """A head on features of other blocks."""
    return scores("cifar100", device, folder, readout=tuple(name.split(",")))


class _Stops(Observer):
    """Ends a training in its middle, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Raise at the step."""
        if phase == "train" and done == self.step:
            raise KeyboardInterrupt


def _stopped(start: Callable[[], Any]) -> None:
    try:
        start()
    except KeyboardInterrupt:
        return
    raise AssertionError("it was not interrupted")


@case("resumed", "frozen", "full")
def resumed(device: str, folder: Path, name: str) -> Numbers:
    """A training that was interrupted, and goes on from its checkpoint."""
    how: dict[str, Any] = {"tune": name, "recipe_fields": RECIPE} if name == "full" else {}
    how["limit"] = 8
    _stopped(lambda: scores("clevr-math", device, folder, _Stops(1), **how))
    assert list(folder.glob("run/unfinished/*.pt")), "no checkpoint was written"
    return scores("clevr-math", device, folder, **how)


@case("detectors", "rt_detr_v2", "grounding")
def detectors(device: str, folder: Path, name: str) -> Numbers:
    """A detector of transformers: trained, interrupted, trained on; or asked with names as it is."""
    if name not in _LOADED:
        _LOADED[name] = load_encoder(f"hf-detector:{models.detector(name, folder / 'model')}")
    encoder = _LOADED[name]
    if name == "grounding":
        return scores("odinw-lot", device, folder, encoder=encoder, prompts="names")
    fields = {"steps": "2", "batch_size": "2", "validate_every": "1", "lr": "1e-3"}
    how: dict[str, Any] = {"encoder": encoder, "tune": "full", "recipe_fields": fields, "limit": 3}
    _stopped(lambda: scores("odinw-lot", device, folder, _Stops(1), **how))
    return scores("odinw-lot", device, folder, **how)


@case("finetune", "clip", "siglip")
def finetuned(device: str, folder: Path, name: str) -> Numbers:
    """An image-text training with known pairs, interrupted and gone on with; its encoder, loaded."""
    add = ("eqsim:v2=1",) if name == "siglip" else ("eqsim:hybrid=1", "keep=1")
    request = FinetuneRequest(
        pairs=str(models.captioned(folder / "pairs")), output=folder / "out", encoder="micro-clip/random", steps=2,
        batch_size=8, validate_every=1, lr=1e-3, loss=name, add=add, augment="crop", device=device, precision="float32",
    )  # fmt: skip

    def stop(line: str) -> None:
        if line.startswith("step 1"):
            raise KeyboardInterrupt

    if name == "clip":
        _stopped(lambda: finetune(request, stop))
    place = finetune(request)
    rows = json.loads((place / "card.json").read_text())["training"]["validation"]
    numbers = {f"{n} {key}": value for n, row in enumerate(rows) for key, value in row.items() if value is not None}
    numbers = {key: value for key, value in numbers.items() if "seconds" not in key}
    encoder = load_encoder(f"tuned:{place}")
    encoder.to(device)
    images = torch.zeros(2, *encoder.shape, dtype=torch.uint8)
    return {**numbers, "image": encoder.encode_image(images), "text": encoder.encode_text(["a red circle"])}


@case("kept", "zeroshot", "finetune")
def kept(device: str, folder: Path, name: str) -> Numbers:
    """A head that is kept, loaded on the device and on the CPU, and predicted with on both."""
    pictures = folder / "pots"
    rng = np.random.default_rng(0)
    for colour in ("blue", "green", "red"):
        (pictures / colour).mkdir(parents=True)
        for number in range(4):
            values = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(values).save(pictures / colour / f"{number}.png")
    how: dict[str, Any] = {"recipe_fields": RECIPE} if name == "finetune" else {}
    gate_runner.adapt(
        pictures, name, encoder="micro-clip", save=folder / "head", output=folder / "run", device=device,
        precision="float32", isolate="none", **how,
    )  # fmt: skip
    files = sorted(pictures.rglob("*.png"))
    given: Numbers = {}
    for place in {device, "cpu"}:
        head = load_head(folder / "head", device=place)
        given["device" if place == device else "moved"] = np.array([list(row) for row in _probabilities(head, files)])
    given.setdefault("moved", given["device"])
    assert np.allclose(given["device"], given["moved"], atol=_CLOSE)
    return given


def _probabilities(head: Any, files: list[Path]) -> list[list[float]]:
    predicted = head.predict(files, top=3)
    return [[p for _, p in sorted(zip(row.classes, row.probabilities, strict=True))] for row in predicted]


# -- losses


@case("losses", *(f"{mode} {score} {backend}" for mode, score, backend in models.LOSSES))
def losses(device: str, folder: Path, name: str) -> Numbers:
    """A loss of eqsim and its gradients by a backend."""
    mode, score, backend = name.split()
    generator = torch.Generator().manual_seed(0)
    image, text = (torch.randn(13, 6, generator=generator).to(device).requires_grad_() for _ in range(2))
    numbers = [torch.tensor(value).to(device).requires_grad_() for value in (2.0, -1.0)]
    pairs = torch.tensor([(i, (i + 1) % 13) for i in range(13)]).to(device) if mode == "hybrid" else None
    kinds: list[Any] = [eqsim.EqSimLoss]
    if backend != "gram":
        kinds += [eqsim.ClipEqSimLoss, eqsim.SigLipEqSimLoss]
    given: Numbers = {}
    for kind in kinds:
        before = pretended.COUNTS["wait"]
        loss = kind(mode, score, margin=0.01, backend=backend)(image, text, *numbers, close_pairs=pairs)
        inputs = [image, text, *numbers]
        found = torch.autograd.grad(loss, inputs, allow_unused=True)
        assert pretended.COUNTS["wait"] - before <= models.WAITS_OF_A_LOSS, dict(pretended.PLACES)
        assert all(each is None or each.device == loss.device for each in found)
        given[kind.__name__] = loss
        given |= {f"{kind.__name__} {n}": each for n, each in enumerate(found) if each is not None}
    return given


# -- the pretended device itself


@case("device", "refuses")
def refuses(device: str, folder: Path, name: str) -> Numbers:
    """Calls that a real GPU refuses, in each of the ways in which tensors come together."""
    of_cpu = torch.ones(3, 4)
    ours, weight = of_cpu.to(device), torch.nn.Parameter(of_cpu)
    calls: dict[str, Callable[[], Any]] = {
        "operator": lambda: ours + of_cpu,
        "weight": lambda: ours * weight,
        "list": lambda: torch.cat([ours, of_cpu]),
        "tuple": lambda: torch.stack((of_cpu, ours)),
        "named": lambda: torch.add(input=ours, other=of_cpu),
        "function": lambda: torch.nn.functional.linear(ours, of_cpu),
        "index": lambda: of_cpu[ours.long()[0]],
        "NumPy": lambda: ours.numpy(),
        "generator": lambda: torch.randn(3, generator=torch.Generator(), device=device),
    }
    taken = []
    for call, function in calls.items():
        try:
            function()
        except (RuntimeError, TypeError):
            continue
        taken.append(call)
    assert taken == (list(calls) if device == "cpu" else []), f"not refused: {taken}"
    return {}


def main(folder: Path, names: list[str]) -> None:
    """Run cases on both devices and print how they compare."""
    torch.set_num_threads(1)
    expected: dict[str, Numbers | str] = {}
    first: dict[str, float] = {}
    for number, name in enumerate(names):
        start = time.process_time()
        expected[name] = _attempt(CASES[name], "cpu", folder / "cpu" / str(number))
        first[name] = time.process_time() - start
        print(name, round(first[name], 1), file=sys.stderr, flush=True)
    pretended.install()
    gc.collect()
    gc.freeze()
    for number, name in enumerate(names):
        pretended.COUNTS.clear()
        pretended.PLACES.clear()
        start = time.process_time()
        found = _attempt(CASES[name], "cuda:0", folder / "gpu" / str(number))
        for encoder in _LOADED.values():
            encoder.to("cpu")
        gc.collect()
        report = {
            "case": name,
            "wrong": compared(expected[name], found),
            "counts": dict(pretended.COUNTS),
            "places": dict(pretended.PLACES.most_common()),
            "left": pretended.alive(),
            "seconds": [round(seconds, 1) for seconds in (first[name], time.process_time() - start)],
        }
        print(json.dumps(report), flush=True)


def _attempt(function: Case, device: str, folder: Path) -> Numbers | str:
    os.environ["GATE_RUNNER_CACHE"] = str(folder / "cache")
    folder.mkdir(parents=True)
    try:
        return {key: _plain(value) for key, value in function(device, folder).items()}
    except Exception:  # noqa: BLE001 - whatever it is, it is the case's report
        return traceback.format_exc()[-2500:]


def _plain(value: Any) -> Any:
    return value.detach().cpu().double().numpy() if isinstance(value, Tensor) else value


def compared(expected: Numbers | str, found: Numbers | str) -> str:
    """What differs, in words; nothing where all is equal."""
    if isinstance(expected, str) or isinstance(found, str):
        if isinstance(expected, str):
            return f"on the CPU: {expected}"
        return f"on the GPU: {found}"
    wrong = [f"{key}: CPU only" for key in expected.keys() - found.keys()]
    for key in expected.keys() & found.keys():
        ours, theirs = np.asarray(expected[key]), np.asarray(found[key])
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=_CLOSE, atol=_CLOSE, equal_nan=True):
            wrong.append(f"{key}: {ours.ravel()[:3]} on the CPU, {theirs.ravel()[:3]} on the GPU")
    return "; ".join(sorted(wrong))


def chosen(*given: str) -> list[str]:
    """The cases that arguments of the command mean."""
    named = {name for name in CASES if name in given or name.partition(" ")[0] in given}
    others = not given or given[0] == "--but"
    return [name for name in CASES if (name in named) is not others]


if __name__ == "__main__":
    main(Path(sys.argv[1]), chosen(*sys.argv[2:]))
