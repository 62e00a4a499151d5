"""``gate-runner finetune``: the loss is the sum of its terms, a kill changes no bit, and its folder is an encoder."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import signal
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

from eqben_builder.building import build
from eqben_builder.formats import read_any, write_as
from eqben_builder.micro.builder import MicroBuilder
from eqsim import TopK
from gate_data.own import guess, write_benchmark
from gate_runner.cli import app, main
from gate_runner.errors import DataError, UsageError
from gate_runner.finetuning import training as module
from gate_runner.finetuning.hard_batches import HardRows, nearest_others, with_hard_negatives
from gate_runner.finetuning.pairs import read_captioned
from gate_runner.finetuning.request import FinetuneRequest
from gate_runner.finetuning.several import read_several
from gate_runner.finetuning.training import finetune
from gate_runner.tasks.augmentation import change_of, varied
from vision_adapters.rows import Draw, samples
from vision_adapters.training.pairs import ChosenRows
from vision_features.encoders import load_encoder

from ._small_towers import with_small_towers

V2: dict[str, Any] = {"add": ("eqsim:v2=1",)}
WORDS = (
    "red circle",
    "blue square",
    "green star",
    "white heart",
    "yellow cross",
    "purple ring",
    "cyan dot",
    "brown hat",
)


@pytest.fixture
def whole_towers() -> None:
    """Ask for micro-clip/random as it is: to see it learn, or where a process of its own loads it."""


@pytest.fixture(autouse=True)
def small_towers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "whole_towers" not in request.fixturenames:
        with_small_towers(monkeypatch)


def write_pairs(folder: Path, count: int = 24, **columns: Any) -> Path:
    """Images whose colour goes with the words of their captions, a row each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 200, (len(WORDS), 3))
    lines = [",".join(["image", "caption", *columns])]
    for number in range(count):
        picture = colours[number % len(WORDS)] + rng.integers(0, 50, (40, 40, 3))
        Image.fromarray(picture.astype(np.uint8)).save(folder / f"{number}.png")
        more = [str(value(number)) for value in columns.values()]
        lines.append(",".join([f"{number}.png", f"a {WORDS[number % 8]} of {number}", *more]))
    (folder / "captions.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs") / "micro"
    build(MicroBuilder(size=64), folder, pairs=9)
    return folder


def finetune_request(pairs: Path | str, output: Path, **fields: Any) -> FinetuneRequest:
    settings = {"encoder": "micro-clip/random", "steps": 4, "batch_size": 8, "validate_every": 1, "lr": 1e-3, **fields}
    return FinetuneRequest(pairs=str(pairs), output=output, **settings)


def history(folder: Path) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = json.loads((folder / "card.json").read_text())["training"]["validation"]
    return rows


@pytest.mark.usefixtures("whole_towers")
def test_what_comes_out_is_an_encoder_by_its_folder(tmp_path: Path) -> None:
    folder = finetune(
        finetune_request(
            write_pairs(tmp_path / "mine", 80), tmp_path / "out", steps=12, batch_size=16, validate_every=4
        )
    )
    assert history(folder)[-1]["recall@1"] > history(folder)[0]["recall@1"] + 0.2
    picture = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    before, tuned, named = (load_encoder(spec) for spec in ("micro-clip/random", f"tuned:{folder}", str(folder)))
    assert torch.equal(tuned.encode_image(picture), named.encode_image(picture))
    assert not torch.allclose(before.encode_image(picture), tuned.encode_image(picture))
    assert not torch.allclose(before.encode_text(["a red circle"]), tuned.encode_text(["a red circle"]))
    assert tuned.logit_scale == pytest.approx(float(tuned.module.logit_scale.exp()))  # type: ignore[union-attr]
    half = load_encoder(f"tuned:{folder}@0.5").module.state_dict()  # type: ignore[union-attr]
    name = "visual.proj"
    first, last = (encoder.module.state_dict()[name] for encoder in (before, tuned))  # type: ignore[union-attr]
    assert torch.allclose(half[name], (first + last) / 2)


def test_the_command_says_how_it_ended_and_trains_once(tmp_path: Path) -> None:
    text = "--encoder micro-clip/random --steps 2 --batch-size 8 --loss siglip --wise-ft 0.5 --output"
    words = ["finetune", str(write_pairs(tmp_path / "mine")), *text.split(), str(tmp_path / "out")]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert f"gate-runner trade micro-clip/random tuned:{tmp_path / 'out'} BENCHMARK..." in first.output
    assert json.loads((tmp_path / "out/card.json").read_text())["training"]["wise_ft"]["share"] == 0.5
    assert "there already" in CliRunner().invoke(app, words).output


def test_what_it_says_at_the_end_is_a_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that runs code is named with the folder, and the benchmark is the one of these data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("mine.py").write_text(
        "from vision_features.encoders import load_encoder as l\nmake = lambda: l('micro-clip/random')\n"
    )
    write_pairs(tmp_path / "photos")
    new = ["new", "photos"]
    train = ["finetune", "photos", "--encoder", "mine:make", "--steps", "1", "--batch-size", "8", "--output", "out"]
    assert CliRunner().invoke(app, new).exit_code == 0
    with Path("photos/benchmark.toml").open("a") as file:
        file.write("\n[training]\nsteps = 2\n")
    assert CliRunner().invoke(app, train).exit_code == 0
    again = CliRunner().invoke(app, train)
    (line,) = [line for line in again.output.splitlines() if line.startswith("kept in out: ")]
    assert line.split(": ", 1)[1].startswith(
        "gate-runner trade mine:make tuned:out=mine:make photos/benchmark.toml --share 0.25"
    )
    words = line.split(": gate-runner ", 1)[1].split()[:-4]
    ran = CliRunner().invoke(app, [*words, "--setting", "isolate=none"])
    assert ran.exit_code == 0, ran.output
    assert "in own data" in ran.output


def reference(image: Tensor, text: Tensor, scale: float, teacher: tuple[Tensor, Tensor, float]) -> dict[str, float]:
    """Each term as it is defined, from unit rows in float64, of known pairs (0, 1), (2, 3), …"""
    cosines, n = image @ text.T, len(image)
    logits, labels = scale * cosines, torch.arange(n)
    d = cosines.diagonal()[0::2] - cosines.diagonal()[1::2]
    rows = torch.arange(0, n, 2)
    a = cosines[rows, rows + 1] - cosines[rows + 1, rows]
    margins = [
        logits[rows, rows + 1] - logits[rows, rows], logits[rows + 1, rows] - logits[rows + 1, rows + 1],
        logits[rows + 1, rows] - logits[rows, rows], logits[rows, rows + 1] - logits[rows + 1, rows + 1],
    ]  # fmt: skip
    theirs = teacher[2] * (teacher[0] @ teacher[1].T)
    total = sum(
        (target.softmax(1) * (target.log_softmax(1) - own.log_softmax(1))).sum(1).mean() / 2
        for target, own in ((theirs, logits), (theirs.T, logits.T))
    )
    return {
        "contrastive_loss": float((F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2),
        "eqsim_loss": 0.5 * float(((d - a) ** 2).mean() + ((d + a) ** 2).mean()),
        "pair_loss": float(sum(F.softplus(margin).mean() for margin in margins)) / 4,
        "keep_loss": 2.0 * float(total),
    }


def test_the_loss_is_the_sum_of_its_terms_in_float64(pairs: Path, tmp_path: Path) -> None:
    add = ("eqsim:v2=0.5", "pair=1", "keep=2")
    folder = finetune(finetune_request(pairs, tmp_path / "out", add=add, teacher="micro-clip", steps=1, batch_size=100))
    row = history(folder)[1]
    train = read_captioned(str(pairs)).train
    shown = torch.as_tensor(train.pictures[:]).flatten(0, 1)  # type: ignore[index]
    captions = [caption for forms in train.captions for caption in forms[0]]

    def encoded(spec: str) -> tuple[Tensor, Tensor, float]:
        encoder = load_encoder(spec)
        sides = (
            encoder.encode_image(module.PictureRows(train.at_size(64), encoder)[:].flatten(0, 1)),
            encoder.encode_text(captions),
        )
        assert encoder.logit_scale is not None
        return F.normalize(sides[0].double()), F.normalize(sides[1].double()), encoder.logit_scale

    assert len(shown) == len(captions) == 2 * len(train)
    expected = reference(*encoded("micro-clip/random"), encoded("micro-clip"))
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-4), name
    assert row["loss"] == pytest.approx(sum(expected.values()), rel=1e-4)


def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine", negative=lambda number: f"no {WORDS[number % 8]}|an empty frame")
    how = {"add": ("keep=1", "hard=0.5", "eqsim:hybrid=1"), "steps": 3, "tune": "lora", "augment": "crop"}
    whole = finetune(finetune_request(data, tmp_path / "whole", **how))

    def stop(line: str) -> None:
        if line.startswith("step 2"):
            raise KeyboardInterrupt

    request = finetune_request(data, tmp_path / "parts", **how)
    with pytest.raises(KeyboardInterrupt):
        finetune(request, stop)
    assert not request.output.exists()
    lines: list[str] = []
    parts = finetune(request, lines.append)
    assert not any(line.startswith("step 1") for line in lines)
    assert (parts / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()
    assert history(parts) == history(whole)
    assert not list(tmp_path.glob(".*checkpoint*"))


@pytest.mark.usefixtures("whole_towers")
@pytest.mark.parametrize("loss", ["clip", pytest.param("siglip", marks=pytest.mark.again)])
def test_two_processes_are_one_with_uneven_shares(loss: str, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine", 12, negative=lambda number: "" if number % 3 else f"no {WORDS[number % 8]}")
    how = {"add": ("keep=1", "eqsim:v1=1"), "batch_size": 5, "steps": 2, "loss": loss, "lr": 1e-5, "augment": "flip"}
    alone = finetune(finetune_request(data, tmp_path / "one", **how))
    both = finetune(finetune_request(data, tmp_path / "two", num_processes=2, **how))
    for left, right in zip(history(alone)[1:], history(both)[1:], strict=True):
        assert right == pytest.approx(left, rel=1e-6, abs=1e-6)


def test_open_clip_loads_what_was_trained_from_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip

    side = {"width": 32, "layers": 1, "heads": 2}
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "patch_size": 16, "head_width": 16, "width": 32, "layers": 1},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, **side},
    }
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "tiny-for-tests.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "configs")
    folder = finetune(
        finetune_request(write_pairs(tmp_path / "mine"), tmp_path / "out", encoder="open_clip:tiny-for-tests/random")
    )
    assert not (folder / "encoder.safetensors").exists()
    theirs, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    ours = load_encoder(f"tuned:{folder}")
    picture = Image.open(tmp_path / "mine/3.png").convert("RGB")
    assert ours.transform is not None
    shown = torch.from_numpy(ours.transform(picture))[None]
    with torch.no_grad():
        expected = theirs.eval().encode_image(transform(picture)[None])
        texts = theirs.encode_text(open_clip.get_tokenizer(f"local-dir:{folder}")(["a red circle"]))
    assert torch.allclose(ours.encode_image(shown), expected, atol=1e-5)
    assert torch.allclose(ours.encode_text(["a red circle"]), texts, atol=1e-5)


def shard(path: Path, captions: list[str | dict[str, Any] | None]) -> Path:
    with tarfile.open(path, "w") as archive:
        for number, caption in enumerate(captions):
            picture = io.BytesIO()
            Image.new("RGB", (32, 32), (number * 9, 0, 0)).save(picture, "PNG")
            members = {"png": picture.getvalue()}
            if isinstance(caption, dict):
                members["json"] = json.dumps(caption).encode()
            elif caption is not None:
                members["txt"] = caption.encode("utf-8", "surrogateescape")
            for ending, content in members.items():
                member = tarfile.TarInfo(f"{number:05}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def test_shards_and_every_form_of_pairs_are_read(pairs: Path, tmp_path: Path) -> None:
    captioned = read_captioned(str(shard(tmp_path / "a.tar", [f"caption {number}" for number in range(20)])))
    assert (len(captioned.train), len(captioned.validation), captioned.train.pictures_each) == (18, 2, 1)
    for form in ("parquet", "eqben-flat"):
        write_as(read_any(pairs), tmp_path / form, form)
        read = read_captioned(str(tmp_path / form)).train
        assert read.pictures_each == 2, form
        assert sorted(read.captions) == sorted(read_captioned(str(pairs)).train.captions), form


def test_a_caption_with_a_mark_of_its_bytes_is_the_caption(tmp_path: Path) -> None:
    captioned = read_captioned(str(shard(tmp_path / "a.tar", [f"\ufeffcaption {number}" for number in range(20)])))
    assert "ufeff" not in repr(list(captioned.train.captions))


def test_several_sets_are_trained_on_together(pairs: Path, tmp_path: Path) -> None:
    first, second = write_pairs(tmp_path / "first", 20), write_pairs(tmp_path / "second", 30)
    tar = shard(tmp_path / "third.tar", [f"caption {number}" for number in range(20)])
    alone = [read_captioned(str(path)) for path in (first, second, tar)]
    request = finetune_request(first, tmp_path / "tuned", also=(str(second), str(tar)))
    read = request.read()
    for name in ("train", "validation"):
        splits, joined = [getattr(captioned, name) for captioned in alone], getattr(read, name)
        assert joined.captions == [forms for split in splits for forms in split.captions], name
        pictures = torch.cat([split.pictures[:] for split in splits])
        assert torch.equal(joined.pictures[:], pictures), name
    assert f"samples to train on: {len(alone[0].train)} of {first}" in read.notes[0]
    finetune(request)
    assert load_encoder(f"tuned:{tmp_path / 'tuned'}").spec.startswith("tuned:")
    swapped = finetune_request(first, tmp_path / "tuned", also=(str(tar), str(second)))
    assert swapped.read().digest() != read.digest()
    assert FinetuneRequest.from_mapping(request.to_mapping()) == request
    how = ["--encoder", "micro-clip/random", "--steps", "1", "--batch-size", "8", "--output", str(tmp_path / "named")]
    ran = CliRunner().invoke(app, ["finetune", str(first), str(second), *how])
    assert ran.exit_code == 0, ran.output


def test_sets_that_cannot_be_in_one_batch_are_refused(pairs: Path, tmp_path: Path) -> None:
    folder = write_pairs(tmp_path / "first", 20)
    with pytest.raises(DataError, match=r"has 1 images a sample, and .* 2: train on"):
        read_several((str(folder), str(pairs)))
    with pytest.raises(UsageError, match="named twice"):
        finetune_request(folder, tmp_path / "tuned", also=(str(folder),))
    with pytest.raises(UsageError, match="--table counts in one folder"):
        finetune_request(folder, tmp_path / "tuned", also=(str(pairs),), table=Path("a.csv"))
    rows = (folder / "captions.csv").read_text().splitlines()
    other = folder / "other.csv"
    other.write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    with pytest.raises(DataError, match=r"is trained on in .*, and held out of"):
        read_several((str(folder / "captions.csv"), str(other)))


def named_shard(path: Path, names: list[str]) -> Path:
    """A member of each name: an image of a colour of its own, or a text with the name."""
    with tarfile.open(path, "w") as archive:
        for number, name in enumerate(names):
            picture = io.BytesIO()
            Image.new("RGB", (8, 8), (number, 0, 0)).save(picture, "PNG")
            content = picture.getvalue() if name.lower().endswith(("png", "jpg")) else name.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_unseen_captions_are_scored_by_a_file_that_is_named(tmp_path: Path) -> None:
    lines = ["image,caption"]
    for at in range(20):
        Image.new("RGB", (8, 8), (9 * at, 0, 0)).save(tmp_path / f"{at}.png")
        lines.append(f"{at}.png,a shade {at} of red")
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    unseen = read_captioned(str(tmp_path / "mine.csv")).notes[-1]
    file = tmp_path / "benchmark.toml"
    assert unseen.endswith(f"on {file}, which gate-runner new {tmp_path} --table mine.csv writes")
    write_benchmark(guess(tmp_path, table=tmp_path / "mine.csv").values, file)
    again = read_captioned(str(file)).notes[-1]
    assert again == "4 test images stay unseen: score them by gate-runner run or trade"


def test_dots_in_the_names_of_a_shard_cost_no_sample(tmp_path: Path) -> None:
    keys = ["0000", "0001", "photo.v1.2", "photo.v1.3", "park.morning", "in.a.folder/a", "in.a.folder/b.c"]
    path = named_shard(tmp_path / "a.tar", [f"{key}.{ending}" for key in keys for ending in ("png", "txt")])
    captioned = read_captioned(str(path))
    captions = {forms[0][0] for split in (captioned.train, captioned.validation) for forms in split.captions}
    assert captions == {f"{key}.txt" for key in keys}
    files = {source[0].name for split in (captioned.train, captioned.validation) for source in split.pictures.files}
    assert files == {f"{key}.png" for key in keys}
    assert "make no sample" not in " ".join(captioned.notes)


def test_what_makes_no_sample_of_a_shard_is_counted(tmp_path: Path) -> None:
    names = ["0.png", "0.txt", "1.png", "1.txt", "1.seg.png", "2.txt", "2.note.txt", "0.cls", "._1.png"]
    notes = " ".join(read_captioned(str(named_shard(tmp_path / "a.tar", names))).notes)
    assert "1 shard, 2 images" in notes
    assert "3 images and texts of the shards make no sample, such as 1.seg.png" in notes


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["0.png", "0.txt", "0.png"], "two members called 0.png"),
        (["0.png", "0.txt", "0.PNG"], "0.png and 0.PNG are one member of one sample"),
        (["0.png", "0.jpg", "0.txt"], "sample '0' has two images"),
        (["0.a.png", "0.a.jpg", "0.a.txt"], "sample '0.a' has two images"),
    ],
)
def test_two_members_for_one_key_and_ending_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_captioned(str(named_shard(tmp_path / "a.tar", ["1.png", "1.txt", *names])))


def test_a_folder_with_a_benchmarks_file_is_read_by_it(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine", says=lambda number: f"image {number}")
    values = guess(data).values
    values["data"]["text"] = "says"
    write_benchmark(values, data / "benchmark.toml")
    captions = [forms[0][0] for forms in read_captioned(str(data)).train.captions]
    assert captions
    assert all(caption.startswith("image ") for caption in captions)


def test_false_captions_that_are_true_are_named_and_left_out(tmp_path: Path) -> None:
    data = write_pairs(
        tmp_path / "mine", negative=lambda number: f"A {WORDS[number % 8]} of {number}." if number < 9 else "x"
    )
    captioned = read_captioned(str(data))
    (note,) = [line for line in captioned.notes if "false captions equal" in line]
    assert "left out: 'A " in note
    rows = zip(captioned.train.captions, captioned.train.negatives, strict=True)
    assert all(false == (() if int(forms[0][0].split()[-1]) < 9 else ("x",)) for forms, false in rows)


def _rewritten(folder: Path, change: Any) -> Path:
    path = folder / "captions.csv"
    path.write_text(change(path.read_text()))
    return folder


def _without_a_caption(folder: Path) -> Path:
    return _rewritten(write_pairs(folder), lambda text: text.replace("a blue square of 1\n", "\n"))


def _of_one_caption(folder: Path) -> Path:
    rows = "".join(f"{number}.png,a photo\n" for number in range(24))
    return _rewritten(write_pairs(folder), lambda text: "image,caption\n" + rows)


def _shard(*captions: str | dict[str, Any] | None) -> Any:
    return lambda folder: shard(folder.with_suffix(".tar"), list(captions))


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no caption": (_without_a_caption, {}, "is missing|is ''"),
    "one caption": (_of_one_caption, {}, "all 17 images have the one caption 'a photo'"),
    "no text in a shard": (_shard("a", None, "b"), {}, "'00001': its caption is missing"),
    "empty in a shard": (_shard("a", " ", "b"), {}, "'00001': its caption is empty"),
    "other bytes in a shard": (_shard("a", "\udcff", "b"), {}, "'00001': 00001.txt is not UTF-8"),
    "negatives that are none": (
        _shard("a", {"caption": "b", "negatives": {"c": 1}}),
        {},
        "expected false captions, none of them empty, found {",
    ),
    "no such term": (write_pairs, {"add": ("eqsim:v5=1",)}, "'eqsim:v5' is not known; the nearest is eqsim:v"),
    "no such setting": (write_pairs, {"settings": ("margins=1",)}, "setting of finetune 'margins'; nearest: margin"),
    "no value": (write_pairs, {"settings": ("margin",)}, "--setting 'margin': expected NAME=VALUE"),
    "twice": (write_pairs, {"settings": ("close=4", "close=5%")}, "close is given twice: 4 and 5%"),
    "a share of all": (write_pairs, V2 | {"settings": ("close=500%",)}, "close is '500%'; expected a share such as 5%"),
    "another score": (write_pairs, V2 | {"settings": ("score=dot",)}, "expected cosine, logits or softmax"),
    "no side": (write_pairs, V2 | {"settings": ("sides=left",)}, "expected text.image, text or image"),
    "nothing to set": (write_pairs, {"settings": ("margin=1",)}, "margin changes nothing of --add nothing"),
    "not of v2": (write_pairs, V2 | {"settings": ("epsilon=1",)}, "epsilon changes nothing of --add eqsim:v2=1"),
    "all hard": (write_pairs, {"settings": ("hard_negatives=1",)}, "a share from 0 to below 1"),
    "hard and shared": (write_pairs, {"settings": ("hard_negatives=.3",), "num_processes": 2}, "--num-processes 1"),
    "workers": (write_pairs, {"settings": ("decode_workers=-1",)}, "expected a whole number"),
    "weight": (write_pairs, {"add": ("keep=-1",)}, "a number above 0"),
    "pairs needed": (write_pairs, {"add": ("pair=1",)}, "runs over known pairs of images, and there are none"),
    "negatives needed": (write_pairs, {"add": ("hard=1",)}, "needs false captions, and there are none"),
    "teacher of nothing": (write_pairs, {"teacher": "micro-clip"}, "--teacher goes with --add keep"),
    "classes": (lambda folder: "digits", {}, "there are no captions"),
    "processes": (write_pairs, {"num_processes": 9}, "a batch of 8 cannot be shared by 9"),
    "endless": (write_pairs, {"epochs": float("inf")}, "--epochs above 0: 0.05, inf"),
    "epochs that are none": (write_pairs, {"epochs": float("nan")}, "--epochs above 0: 0.05, nan"),
    "seed": (write_pairs, {"seed": 2**63}, "expected 0 to 2"),
    "a share in words": (write_pairs, {"wise_ft": "half"}, "--wise-ft half: expected 'best', or a share"),
    "augmentation": (write_pairs, {"augment": "crops"}, "augmentation 'crops'"),
    "a policy that is none": (write_pairs, {"augment": "rand-os"}, "augmentation 'rand-os'"),
    "a root of own data": (write_pairs, {"data_root": Path("nowhere")}, "--data-root goes with a benchmark's name"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_before_the_encoder(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, fields, message = BAD[case]
    monkeypatch.setattr(module, "load_encoder", lambda *_, **__: pytest.fail("the encoder was loaded"))
    data = make(tmp_path / "mine")
    with pytest.raises((UsageError, ValueError), match=message) as caught:
        finetune(finetune_request(data, tmp_path / "out", **fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lr": 0.0}, "lr must be positive"),
        ({"validate_every": 0}, "validate_every must be at least 1"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0 and finite, got nan"),
        ({"lr": 1e30}, "step 1: the validation score is nan"),
    ],
)
def test_numbers_that_no_training_can_have_are_one_line(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        finetune(finetune_request(write_pairs(tmp_path / "mine"), tmp_path / "out", **fields))


@pytest.mark.parametrize("augment", ["crop-flip", "randaugment", "rand-m9-n4"])
def test_pictures_vary_with_step_and_sample_and_with_nothing_else(augment: str, pairs: Path) -> None:
    encoder, split = load_encoder("micro-clip/random"), read_captioned(str(pairs)).train.at_size(64)
    plain, rows = module.PictureRows(split, encoder), module.PictureRows(split, encoder, augment)
    draws = [Draw(0, step, torch.tensor(chosen)) for step, chosen in ((1, [3, 5]), (1, [5]), (2, [5]))]
    first, alone, later = rows.stream(draws)
    assert torch.equal(first[1], alone[0])
    assert not torch.equal(alone, later)
    assert not torch.equal(alone, plain[[5]])
    assert torch.equal(rows[[5]], plain[[5]])


def test_known_pairs_are_changed_alike() -> None:
    image = torch.randint(0, 256, (1, 3, 16, 16), dtype=torch.uint8).expand(2, -1, -1, -1)
    first, second = varied(image, change_of("crop", 16), torch.Generator().manual_seed(0))
    assert torch.equal(first, second)
    assert not torch.equal(first, image[0])


def test_a_teacher_of_another_width_is_kept_by_its_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = load_encoder("micro-clip")
    narrow = load_encoder("micro-clip")
    image, text = narrow.image, narrow.text
    assert text is not None
    narrow.image, narrow.text = lambda pictures: image(pictures)[:, :40], lambda texts: text(texts)[:, :40]
    monkeypatch.setattr(module, "load_encoder", lambda spec, **_: narrow if spec == "narrow" else wide)
    request = finetune_request(
        write_pairs(tmp_path / "mine"), tmp_path / "out", teacher="narrow", add=("keep:squares=1",), steps=1
    )
    assert history(finetune(request))[1]["keep_loss"] > 0


def test_an_output_of_another_training_stays(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine")
    finetune(finetune_request(data, tmp_path / "out", steps=0))
    with pytest.raises(UsageError, match="was trained otherwise \\(steps 0 there, 4 here\\)"):
        finetune(finetune_request(data, tmp_path / "out"))


def changed_captions(data: Path, only: int | None = None) -> None:
    lines = (data / "captions.csv").read_text().splitlines()
    body = [f"{line} again" if only in (None, number) else line for number, line in enumerate(lines[1:])]
    (data / "captions.csv").write_text("\n".join([lines[0], *body]) + "\n")


@pytest.mark.parametrize("what", ["captions", "pictures", "start", "teacher"])
def test_an_output_of_other_contents_under_the_same_names_is_refused(what: str, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine")
    for name, encoder in (("start", "micro-clip/random"), ("other", "micro-clip")):
        finetune(finetune_request(data, tmp_path / name, steps=0, encoder=encoder))
    weights = f"tuned:{tmp_path / 'start'}"
    fields: dict[str, Any] = {
        "start": {"encoder": weights},
        "teacher": {"teacher": weights, "add": ("keep=1",)},
    }.get(what, {})
    request = finetune_request(data, tmp_path / "out", steps=1, **fields)
    finetune(request)
    before = (tmp_path / "out" / "encoder.safetensors").read_bytes()
    lines: list[str] = []
    finetune(request, lines.append)
    assert any("there already" in line for line in lines)
    if what == "captions":
        changed_captions(data)
    elif what == "pictures":
        Image.new("RGB", (40, 40), (1, 2, 3)).save(data / "7.png")
    else:
        shutil.rmtree(tmp_path / "start")
        (tmp_path / "other").rename(tmp_path / "start")
    name = {"start": "encoder", "teacher": "teacher"}.get(what, "data")
    with pytest.raises(UsageError, match=f"was trained with {name} of digest [0-9a-f]+, now it is [0-9a-f]+: choose"):
        finetune(request)
    assert (tmp_path / "out" / "encoder.safetensors").read_bytes() == before


def test_the_same_data_in_another_place_are_the_same_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(tmp_path / "a" / "mine")
    changed_captions(write_pairs(tmp_path / "b" / "mine"))
    monkeypatch.chdir(tmp_path / "a")
    finetune(finetune_request("mine", tmp_path / "out", steps=1))
    assert json.loads((tmp_path / "out/card.json").read_text())["request"]["pairs"] == str(tmp_path / "a" / "mine")
    (tmp_path / "a" / "mine").rename(tmp_path / "moved")
    finetune(finetune_request(tmp_path / "moved", tmp_path / "out", steps=1))
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(UsageError, match="was trained with data of digest"):
        finetune(finetune_request("mine", tmp_path / "out", steps=1))


def test_a_training_does_not_go_on_with_other_captions(tmp_path: Path) -> None:
    """One of 120 captions, which no sample of 64 rows shows."""
    data = write_pairs(tmp_path / "mine", 160)

    def stop(line: str) -> None:
        if line.startswith("step 2"):
            raise KeyboardInterrupt

    request = finetune_request(data, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        finetune(request, stop)
    changed_captions(data, only=77)
    with pytest.raises(UsageError, match=r"belongs to another training: .*data.* differ"):
        finetune(request)


def test_a_second_writer_is_told_who_trains(tmp_path: Path) -> None:
    data, refused = write_pairs(tmp_path / "mine"), []

    def second(line: str) -> None:
        if line.startswith("step 1"):
            with pytest.raises(UsageError) as caught:
                finetune(finetune_request(data, tmp_path / "out", lr=1e-2))
            refused.append(str(caught.value))

    finetune(finetune_request(data, tmp_path / "out"), second)
    assert len(refused) == 1
    assert f"trains into {tmp_path / 'out'} now" in refused[0]
    assert (tmp_path / "out" / "card.json").exists()
    assert not list(tmp_path.glob(".out*"))


TABLE_6: dict[str, dict[str, Any]] = {
    "HardNeg": {"settings": ("hard_negatives=0.3",)},
    "v1-all": {"add": ("eqsim:v1=1",)},
    "v2-all": {"add": ("eqsim:v2=1",)},
    "v2-close": {"add": ("eqsim:v2=1",), "settings": ("close=25%", "score=softmax")},
    "hybrid": {"add": ("eqsim:hybrid=1",), "settings": ("close=25%",)},
    "hybrid, 4 close": {"add": ("eqsim:hybrid=1",), "settings": ("close=4",)},
    "hybrid, text": {"add": ("eqsim:hybrid=1",), "settings": ("close=2", "sides=text")},
}


def test_every_row_of_table_6_trains_another_encoder(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine", 40)
    losses = {}
    for name, how in {"plain": {}, **TABLE_6}.items():
        trained = finetune(finetune_request(data, tmp_path / name, steps=1, **how))
        losses[name] = history(trained)[1]["loss"]
    assert len(set(losses.values())) == len(TABLE_6) + 1, losses


def test_settings_reach_the_loss() -> None:
    how = ("close=5%", "margin=0.2", "margin_mode=pair", "score=softmax", "sides=image", "decode_workers=2")
    request = finetune_request("x", Path("out"), add=("eqsim:v2=0.5",), settings=how)
    settings = request.terms.settings
    assert (settings.close, settings.margin, settings.score) == (TopK(fraction=0.05), 0.2, "softmax")
    assert (settings.margin_mode, settings.sides, settings.weight) == ("pair", ("image",), 0.5)
    assert (request.decode_workers, request.hard_share) == (2, 0.0)
    assert not any("decode_workers" in text for text in request.identity()["settings"])
    assert FinetuneRequest.from_mapping(request.to_mapping()) == request


def test_known_pairs_are_not_taken_for_those_that_are_looked_for(pairs: Path, tmp_path: Path) -> None:
    known = history(finetune(finetune_request(pairs, tmp_path / "known", steps=1, add=("eqsim:v2=1",))))
    close: dict[str, Any] = {"add": ("eqsim:v2=1",), "settings": ("close=50%",)}
    near = history(finetune(finetune_request(pairs, tmp_path / "near", steps=1, **close)))
    assert known[1]["eqsim_loss"] != near[1]["eqsim_loss"]


def test_a_share_of_a_batch_are_the_nearest_of_the_rest() -> None:
    generator = torch.Generator().manual_seed(0)
    image, text = (torch.randn(30, 6, generator=generator) for _ in range(2))
    nearest = nearest_others(image, text)
    scores = F.normalize(image, dim=1) @ F.normalize(text, dim=1).T
    scores.fill_diagonal_(-torch.inf)
    assert torch.equal(nearest[:, :5], scores.argsort(dim=1, descending=True)[:, :5])
    draw = Draw(0, 1, torch.randperm(30, generator=generator)[:10])
    changed = with_hard_negatives(draw, nearest, 0.3)
    assert changed.rows[:7].tolist() == draw.rows[:7].tolist()
    assert len(set(changed.rows.tolist())) == 10
    for place, row in enumerate(changed.rows[7:].tolist()):
        anchor, before = changed.rows[place].item(), set(changed.rows[: 7 + place].tolist())
        assert row == next(other for other in nearest[int(anchor)].tolist() if other not in before)
    rows = HardRows(torch.arange(30), nearest, 0.3)
    forms = HardRows(ChosenRows([[str(number)] for number in range(30)]), nearest, 0.3)
    (numbers,), (texts,) = list(rows.stream([draw])), list(forms.stream([draw]))
    assert [str(number) for number in numbers.tolist()] == texts  # images and captions stay together


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_workers_make_the_same_pictures(augment: str, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "mine")
    request = finetune_request(data, tmp_path / "0", augment=augment, steps=2)
    alone = history(finetune(request))
    again = finetune_request(data, tmp_path / "1", augment=augment, steps=2, settings=("decode_workers=1",))
    assert history(finetune(again)) == alone


def test_a_worker_that_dies_is_one_line_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, here, made = write_pairs(tmp_path / "mine"), os.getpid(), samples._made

    def dying(make: Any, numbers: Any, draw: Any = None) -> torch.Tensor:
        if draw is not None and draw.step == 3 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return made(make, numbers, draw)

    command = ["finetune", str(data), "--encoder", "micro-clip/random", "--output", str(tmp_path / "out")]
    command += ["--setting", "decode_workers=1", "--steps", "6", "--batch-size", "8", "--validate-every", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(samples, "_made", dying)
        with pytest.raises(SystemExit):
            main(command)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"gate-runner: a worker process died at step \d, .*; the same command continues from", last)
    state = tmp_path / ".out.checkpoint.pt"
    assert state.is_file()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(command)
    assert not state.exists()
    steps = re.findall(r"step (\d) of 6", capsys.readouterr().err)
    assert steps == ["3", "4", "5", "6"]


def test_few_held_out_samples_are_said_to_be_no_evidence(tmp_path: Path) -> None:
    lines: list[str] = []
    finetune(finetune_request(write_pairs(tmp_path / "mine"), tmp_path / "out", steps=0), lines.append)
    assert any(re.match(r"\d held-out samples are no evidence: give 30 or more", line) for line in lines)


def test_help_imports_no_torch_and_has_few_options() -> None:
    import typer.main

    command: Any = typer.main.get_command(app)
    options = [param for param in command.commands["finetune"].params if param.param_type_name == "option"]
    assert len([param for param in options if param.name != "help"]) <= 25


@pytest.mark.parametrize("room", [0, 2000])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_is_one_line_with_the_file_and_loses_nothing(
    number: int, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's writer hides the system's error behind one of its own."""
    folder, output = write_pairs(tmp_path / "data"), tmp_path / "trained"
    words = [str(folder / "captions.csv"), "--encoder", "micro-clip/random", "--steps", "2", "--batch-size", "8"]
    real = Path.open

    class Full(io.BytesIO):
        def write(self, content: Any) -> int:
            if self.tell() + len(content) > room:
                raise OSError(number, os.strerror(number))
            return super().write(content)

        def fileno(self) -> int:
            raise OSError(number, os.strerror(number))

    def opened(path: Path, *given: Any, **more: Any) -> Any:
        return Full() if path.name.endswith(".partial") else real(path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as err:
            main(["finetune", *words, "--output", str(output)])
    (line,) = [line for line in err.getvalue().splitlines() if line.startswith("gate-runner: ")]
    assert line.startswith("gate-runner: cannot write")
    assert ".trained.checkpoint.pt: " + os.strerror(number) in line
    assert "Traceback" not in err.getvalue()
    assert not output.exists()
    assert CliRunner().invoke(app, ["finetune", *words, "--output", str(output)]).exit_code == 0
