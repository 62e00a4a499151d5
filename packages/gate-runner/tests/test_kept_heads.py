"""Heads that are kept: the same scores after they were written and read, and refused where something else is there."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import gate_runner
from gate_runner.cli import main
from gate_runner.errors import DataError, EncoderError, UsageError
from vision_adapters.saved import card_digest
from vision_features.encoders import encoder as encoder_module
from vision_features.encoders import load_encoder
from vision_features.encoders.own import adopt
from vision_features.heads import load_head
from vision_features.heads.onnx import steps_before
from wary_files.folders import write
from wary_files.locks import BusyError, held

COLOURS = {"blue": (20, 40, 220), "green": (30, 200, 40), "red": (220, 30, 20)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pots")
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir()
        for index in range(6):
            noise = rng.integers(-20, 20, (40, 32, 3))
            Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8)).save(
                folder / name / f"{index}.png"
            )
    return folder


@pytest.fixture(scope="module")
def probed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    head = tmp_path_factory.mktemp("heads") / "pots"
    gate_runner.adapt(folder, encoder="micro-clip", save=head, output=tmp_path_factory.mktemp("run"))
    return head


@pytest.fixture(autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run folders are made where one is."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def test_predictions_of_a_folder_name_what_cannot_be_read(probed: Path, folder: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "new"
    mixed.mkdir()
    for name in COLOURS:
        (mixed / f"{name}.png").write_bytes((folder / name / "0.png").read_bytes())
    (mixed / "note.png").write_text("no image")
    output = tmp_path / "found.csv"
    with pytest.raises(SystemExit) as stopped:
        main(["adapt", "predict", str(probed), str(mixed), "--top", "2", "--output", str(output), "--batch-size", "2"])
    assert stopped.value.code == 1
    rows = {Path(row["file"]).stem: row for row in csv.DictReader(output.read_text().splitlines())}
    assert {name: rows[name]["class1"] for name in COLOURS} == {name: name for name in COLOURS}
    assert all(float(rows[name]["probability1"]) >= float(rows[name]["probability2"]) for name in COLOURS)
    assert "note.png" in rows["note"]["error"]
    assert rows["note"]["class1"] == ""


def test_a_number_of_classes_that_is_not_whole_is_refused(probed: Path) -> None:
    with pytest.raises(UsageError, match=r"top is 2\.5; expected a whole number"):
        next(iter(load_head(probed).predict(["a.jpg"], top=2.5)))  # type: ignore[arg-type]


def test_json_lines_hold_probabilities_of_all_classes_that_sum_to_one(probed: Path, folder: Path) -> None:
    prediction = list(load_head(probed).predict(sorted((folder / "red").iterdir()), top=9))
    assert [predicted.classes[0] for predicted in prediction] == ["red"] * 6
    assert all(abs(sum(predicted.probabilities) - 1) < 1e-5 and len(predicted.classes) == 3 for predicted in prediction)


def test_another_encoder_is_refused_with_both_fingerprints(probed: Path) -> None:
    with pytest.raises(EncoderError, match=r"adapted on micro-clip with weights 926aaf0bd88b0e82…, not on micro-clip/"):
        load_head(probed, encoder=load_encoder("micro-clip/random:0"))


def test_a_second_writer_of_a_head_is_refused_and_told_who_is_there(probed: Path, folder: Path, tmp_path: Path) -> None:
    head = tmp_path / "head"
    with held(tmp_path / ".head.lock"), pytest.raises(BusyError, match=f"is held by process {os.getpid()} on"):
        gate_runner.adapt(folder, encoder="micro-clip/random:1", save=head)
    assert not head.exists()
    gate_runner.adapt(folder, encoder="micro-clip/random:1", save=head)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head"]


def test_a_save_that_is_stopped_leaves_no_head_of_two(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before any of its files is written, or before they take the old ones' place: the old head, whole."""
    from vision_adapters import saved as tensors
    from vision_features.heads import saved
    from wary_files import folders as writing

    copied, write_tensors = saved._copy, tensors.write_tensors
    gate_runner.adapt(folder, encoder="micro-dense/random:1", save=tmp_path / "head")
    before = load_head(tmp_path / "head")
    for most in (0, 1, 2, 1):  # two files in the run folder, then two of the copy
        calls = iter(range(9))

        def stopping(writes: Callable[..., None], *given: Any, most: int = most, calls: Iterator[int] = calls) -> None:
            if next(calls) == most:
                raise KeyboardInterrupt
            writes(*given)

        monkeypatch.setattr(writing, "write", partial(stopping, write))
        monkeypatch.setattr(tensors, "write_tensors", partial(stopping, write_tensors))
        monkeypatch.setattr(saved, "_copy", partial(stopping, copied))
        with pytest.raises(KeyboardInterrupt):
            gate_runner.adapt(folder, encoder="micro-dense/random:2", save=tmp_path / "head")
        assert load_head(tmp_path / "head").card == before.card


def test_what_is_damaged_is_named(probed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(probed, copy)
    (copy / "head.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(DataError, match=r"head\.safetensors cannot be read"):
        load_head(copy)
    content = bytearray((probed / "head.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "head.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"head\.safetensors does not belong to its card\.json: .* save it again"):
        load_head(copy)
    card = json.loads((probed / "card.json").read_text())
    for change, message in (
        ({"schema": "x/9"}, "schema is 'x/9'"),
        ({"head": {"kind": "linear", "dim": 4, "outputs": 3, "features": "l2", "scaled": False}}, "do not fit"),
        ({"head": {"kind": "tree"}}, "unknown kind of head 'tree'"),
        ({"classes": []}, "expected a list of names"),
    ):
        shutil.rmtree(copy)
        shutil.copytree(probed, copy)
        changed = {**card, **change}
        (copy / "card.json").write_text(json.dumps({**changed, "digest": card_digest(changed)}))
        with pytest.raises(DataError, match=message):
            load_head(copy)
    with pytest.raises(DataError, match="holds no head"):
        load_head(tmp_path / "nowhere")


@pytest.mark.parametrize("record", [
    {"temperature": 0.0}, {"temperature": -1.0}, {"temperature": float("nan")}, {"temperature": "1"},
    {"temperature": 1.0, "lac": ["a"]}, {"temperature": 1.0, "lac": [float("nan")]}, {"lac": {"a": 1}},
    {"fits": [None]}, {"labels": "many"}, [1.0],
])  # fmt: skip
def test_a_card_s_calibration_is_one_that_is_kept(probed: Path, tmp_path: Path, record: Any) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(probed, copy)
    card = {**json.loads((copy / "card.json").read_text()), "calibration": record}
    (copy / "card.json").write_text(json.dumps({**card, "digest": card_digest(card)}))
    with pytest.raises(DataError, match=r"card\.json: calibration"):
        load_head(copy)


def test_scores_that_are_no_numbers_are_no_prediction(probed: Path, folder: Path, tmp_path: Path) -> None:
    """Weights that are finite, and whose sums are not."""
    import hashlib

    from safetensors.torch import load, save

    copy = tmp_path / "copy"
    shutil.copytree(probed, copy)
    tensors = load((copy / "head.safetensors").read_bytes())
    content = save({name: torch.full_like(tensor, 3e38) for name, tensor in tensors.items()})
    (copy / "head.safetensors").write_bytes(content)
    card = json.loads((copy / "card.json").read_text())
    card["files"]["head.safetensors"] = hashlib.sha256(content).hexdigest()
    (copy / "card.json").write_text(json.dumps({**card, "digest": card_digest(card)}))
    files = [str(next(folder.rglob("*.png")))]
    with pytest.raises(DataError, match="the head gives scores that are NaN or infinite"):
        list(load_head(copy).predict(files))


_PEAK = """
import resource, sys
from pathlib import Path
import torch
from vision_features.encoders import load_encoder
from vision_features.encoders.own import adopt
from vision_features.encoders import encoder as encoder_module
from vision_features.heads.saved import KeptHead, copy_head, save_head
from vision_adapters.heads import fixed_head

encoder = load_encoder("micro-clip", device="cpu")
wide = torch.nn.Parameter(torch.rand(5_000, 4_000))
encoder.module.wide = wide
state = dict(encoder.module.state_dict())
head = KeptHead(fixed_head(torch.rand(3, 4), torch.rand(3), "raw"), "projected", ("a", "b", "c"), encoder=state)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
folder = Path(sys.argv[1])
save_head(head, encoder, folder / "head", {}, start=None)
copy_head(folder / "head", folder / "copy")
print((peak() - before) / wide.nbytes)
from safetensors.torch import load_file
assert torch.equal(load_file(folder / "copy" / "encoder.safetensors")["wide"], wide)
"""


def test_saving_weights_holds_them_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _PEAK, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5  # of the weights; it was two


def test_a_folder_of_something_else_stays_as_it_is(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="holds something else than a head"):
        gate_runner.adapt(folder, encoder="micro-clip", save=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_class_is_that_of_the_highest_score_where_probabilities_are_equal(probed: Path, folder: Path) -> None:
    head = load_head(probed)
    scores = torch.tensor([1e-12, 0.0, 3e-12])  # as of neighbours that are all far away
    assert scores.softmax(0).unique().numel() == 1
    module = torch.nn.Linear(128, 3).requires_grad_(False)
    module.weight.zero_()
    module.bias.copy_(scores)
    (prediction,) = replace(head, module=module).predict([folder / "red" / "0.png"], top=3)
    assert prediction.classes == ("red", "blue", "green")
    assert prediction.probabilities == pytest.approx((1 / 3,) * 3)


def test_onnx_gives_the_probabilities_that_the_head_predicts(probed: Path, folder: Path, tmp_path: Path) -> None:
    """It left out the temperature, so that the two disagreed."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from gate_data.pictures import Pictures
    from vision_features.heads.onnx import export_onnx

    head = load_head(probed)
    calibration = {"temperature": 3.0, "labels": 40, "how": "unseen", "uniform": 0.1}
    head = replace(head, card={**head.card, "calibration": calibration, "transform": "Resize(size=64)"})
    assert export_onnx(head, tmp_path / "pots.onnx") < 1e-4
    files = sorted((folder / "red").iterdir())
    images = Pictures.of(files, 64)[:5]
    session = runtime.InferenceSession(str(tmp_path / "pots.onnx"), providers=["CPUExecutionProvider"])
    probabilities, scores = session.run(["probabilities", "scores"], {"pixels": (images.float() / 255).numpy()})
    predicted = [
        dict(zip(answer.classes, answer.probabilities, strict=True)) for answer in head.predict(files[:5], top=3)
    ]
    expected = torch.tensor([[row[name] for name in head.classes] for row in predicted])
    torch.testing.assert_close(torch.from_numpy(probabilities), expected, rtol=0, atol=1e-5)
    assert float((expected - head.scores(images).softmax(1)).abs().max()) > 0.05
    torch.testing.assert_close(torch.from_numpy(scores), head.scores(images), rtol=1e-4, atol=1e-4)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["blue", "green", "red"]
    assert about["images"] == "Resize(size=64)" == steps_before(head)


@pytest.mark.parametrize("kind", ["attentive", "cache", "gaussian"])
def test_every_kind_of_head_is_written_as_onnx(probed: Path, tmp_path: Path, kind: str) -> None:
    """The head of unlabelled images was refused: two buffers were called ``mean``.

    Linear heads are tested above, behind transformers; here the encoder is small.
    """
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from vision_adapters.heads.attentive import AttentiveHead
    from vision_adapters.tuning.baselines import CacheHead
    from vision_adapters.tuning.gaussians import GaussianHead
    from vision_features.heads.onnx import export_onnx

    head, rng = load_head(probed), torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng)

    module: Any = torch.nn.Sequential(_AsTokens(), AttentiveHead(128, 3, heads=2))
    small = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 128))
    card = {**head.card, "features": "projected"}
    if kind == "cache":
        module = CacheHead(
            drawn(3, 128), drawn(6, 128), torch.eye(3)[torch.arange(6) % 3], scale=20.0, alpha=1.0, beta=2.0
        )
    elif kind == "gaussian":
        module = GaussianHead(drawn(3, 128), 0.1 * drawn(3, 128), drawn(3, 128).abs() + 1, 20.0)
    head = replace(head, module=module.eval(), encoder=adopt(small, "small"), card=card, reading=None)
    assert export_onnx(head, tmp_path / "head.onnx") < 1e-4
    pixels = torch.rand(4, *head.encoder.shape, generator=rng)
    session = runtime.InferenceSession(str(tmp_path / "head.onnx"), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"pixels": pixels.numpy()})
    with torch.no_grad():
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (head.encoder.mean, head.encoder.std))
        prepared = (pixels - mean) / std
        expected = module(head.encoder.image(prepared).float())
    torch.testing.assert_close(torch.from_numpy(scores), expected, rtol=1e-3, atol=1e-3)


class _AsTokens(torch.nn.Module):
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.stack([features, features.flip(1)], dim=1)


def test_onnx_says_how_images_become_its_pixels(probed: Path) -> None:
    """Its description left out the margin that an encoder with its own transform cuts off."""
    head = load_head(probed)
    usual = "Crop(the largest middle part, 64 wide to 64 high) > Resize(size=(64, 64), interpolation=bicubic"
    assert steps_before(head).startswith(usual)
    own = "Resize(size=73) > CenterCrop(size=64)"
    assert steps_before(replace(head, card={**head.card, "transform": own})) == own


def test_labels_and_images_are_the_same_files_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vision_features.heads.predicting import Prediction, scored, true_labels

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").touch()
    monkeypatch.chdir(tmp_path)
    predicted = [Prediction(f"{name}/0.png", ("a",), (1.0,)) for name in ("a", "b")]
    assert all("accuracy 0.5000" in scored(predicted, true_labels(path), ("a", "b")) for path in (Path(), tmp_path))


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_predictions_that_are_broken_off_leave_the_file_that_was_there(
    probed: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Half of the rows stood in its place, and looked like all of them."""
    from vision_features import cli as features
    from vision_features.heads.predicting import Prediction

    def broken(*_: Any, **__: Any) -> Iterator[Prediction]:
        yield Prediction("0.png", ("red",), (1.0,))
        raise DataError("the disk is gone")

    monkeypatch.setattr("vision_features.heads.saved.Head.predict", broken)
    output = tmp_path / name
    output.write_text("of yesterday")
    with pytest.raises(SystemExit, match="2"):
        main(["adapt", "predict", str(probed), str(folder), "--output", str(output)])
    assert output.read_text() == "of yesterday"
    if name == "out.csv":
        with suppress(DataError, SystemExit):
            features.main(["predict", str(probed), str(folder), "--output", str(output)])
    assert output.read_text() == "of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_labels_are_held_against_images_before_anything_is_predicted(
    probed: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images by absolute paths and labels by those of the table: unknown labels were found after all predictions."""
    folder = shutil.copytree(folder, tmp_path / "labelled")  # other tests read the folder without tables
    monkeypatch.chdir(folder)
    monkeypatch.setattr("vision_features.heads.saved.Head.predict", lambda *_, **__: pytest.fail("predicted"))
    rows = [f"{name}/{number}.png" for name in COLOURS for number in range(6)]
    (folder / "labels.csv").write_text("image,label\n" + "".join(f"{row},violet\n" for row in rows))
    (folder / "other.csv").write_text("image,label\n" + "".join(f"{row},red\n" for row in rows[:6]))
    output = tmp_path / "out.csv"
    for images, table, expected in (
        (folder / "red", "labels.csv", "labels that the head does not know: violet; it knows blue, green, red"),
        (Path("red"), folder / "labels.csv", "labels that the head does not know: violet; it knows blue, green, red"),
        (folder / "red", "other.csv", "none of the 6 images has a label in other.csv, whose first is of blue/0.png"),
    ):
        words = [str(word) for word in (probed, images, "--labels", table, "--output", output)]
        with pytest.raises(SystemExit) as caught:
            main(["adapt", "predict", *words])
        assert caught.value.code == 2
        assert expected in " ".join(capsys.readouterr().err.split())
        assert not output.exists()


def test_images_on_another_scale_are_refused(probed: Path) -> None:
    """Floats of 0 to 255, other whole numbers and normalised images were taken for pixels of 0 to 1."""
    head = load_head(probed)
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    plain = head.scores(images)
    torch.testing.assert_close(head.scores(images.float() / 255), plain, rtol=1e-4, atol=1e-3)
    wrong = (images.float(), images.long(), images.to(torch.int16), (images.float() / 255 - 0.5) / 0.2)
    for given in wrong:
        for take in (head.scores, head.encoder.encode_image):
            with torch.no_grad(), pytest.raises(EncoderError, match=r"expected (uint8 or floats in )?0 to 1"):
                take(given)


def test_floats_on_a_gpu_are_looked_at_once(probed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats of 0 to 255 passed on a GPU, where no value was looked at."""
    looks = []
    monkeypatch.setattr(encoder_module, "_waits", lambda images: looks.append(1) or True)
    encoder = load_head(probed).encoder
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(EncoderError, match=r"floats from .* to 25., expected 0 to 1"):
        encoder.encode_image(255 * images)
    with pytest.raises(EncoderError, match=r"floats from .* to 25., expected 0 to 1"):  # the fault is not forgotten
        encoder.encode_image(255 * images)
    encoder.encode_image(images)
    assert encoder._looked
    monkeypatch.setattr(torch.Tensor, "aminmax", lambda *_: pytest.fail("a second look waits for the GPU again"))
    encoder.encode_image(images)


def test_one_path_is_no_list_of_files(probed: Path) -> None:
    """A path as text gave an error for each of its letters, as if these were files."""
    head = load_head(probed)
    for path in ("images/1.png", Path("images/1.png")):
        with pytest.raises(UsageError, match=r"predict got one path, 'images/1\.png'; expected a list of image files"):
            head.predict(path)  # type: ignore[arg-type]


def test_arrays_of_numpy_are_refused_by_name(probed: Path) -> None:
    """NumPy's arrays ended in an AttributeError; axes in another order, in the library's error."""
    head = load_head(probed)
    images = np.zeros((2, 3, 64, 64), np.uint8)
    for take in (head.scores, head.encoder.encode_image, head.encoder.prepare):
        with pytest.raises(EncoderError, match=r"images are a numpy\.ndarray, expected a torch\.Tensor \[n, 3, h, w\]"):
            take(images)
    with pytest.raises(UsageError, match=r"features are a ndarray, expected a torch\.Tensor \[n, d\]"):
        head.scores_of(np.zeros((2, 128), np.float32))
    for shape in ((2, 64, 64, 3), (3, 64, 64), (2, 1, 64, 64)):
        with pytest.raises(EncoderError, match=r"images have shape .*, expected \[n, 3, h, w\]"):
            head.encoder.encode_image(torch.zeros(shape, dtype=torch.uint8))
