"""Heads in folders: the same scores again, and nothing that was changed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from vision_adapters import AttentiveHead, HeadClassifier, LinearHead, load_head, save_head, tune, tuning_data
from vision_adapters.calibration import Calibration
from vision_adapters.saved import card_digest, write_tensors
from vision_adapters.tuning.baselines import CacheHead


def heads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 8, generator=generator), torch.arange(40) % 2
    x = x + 2 * torch.eye(2, 8)[y]
    texts, keys = torch.randn(2, 8, generator=generator), nn.functional.normalize(x, dim=1)
    return {
        "tuned": (tune(tuning_data(x, y)).head, x),
        "scaled": (LinearHead(8, 2, features="l2", logit_scale=5.0, train_scale=True), x),
        "cache": (CacheHead(texts, keys, torch.eye(2)[y], 10.0, 1.0, 5.5), x),
        "attentive": (AttentiveHead(8, 2, heads=2), x.view(8, 5, 8)),
    }


@pytest.mark.parametrize("name", list(heads()))
def test_a_head_gives_the_same_scores_again(name: str, tmp_path: Path) -> None:
    head, x = heads()[name]
    save_head(head, tmp_path / "head", classes=("cat", "dog"), about={"encoder": "mine", "n": 40})
    loaded = load_head(tmp_path / "head")
    assert torch.equal(loaded.module(x), head(x))
    assert (loaded.classes, loaded.about) == (("cat", "dog"), {"encoder": "mine", "n": 40})
    assert not loaded.module.training
    assert sorted(path.name for path in (tmp_path / "head").iterdir()) == ["card.json", "head.safetensors"]


def test_what_was_changed_or_is_no_head_is_one_line(tmp_path: Path) -> None:
    head = LinearHead(4, 2)
    with pytest.raises(ValueError, match="there are 3 names of classes for a head of 2 scores"):
        save_head(head, tmp_path, classes=("a", "b", "c"))
    with pytest.raises(ValueError, match="a head of type Linear cannot be kept"):
        save_head(nn.Linear(2, 2), tmp_path)
    save_head(head, tmp_path)
    card, tensors = tmp_path / "card.json", tmp_path / "head.safetensors"
    sound, content = card.read_text(), tensors.read_bytes()
    for changed, message in (
        (sound.replace('"dim": 4', '"dim": 5'), "was changed after it was written"),
        (sound.replace("head/1", "head/9"), "schema is 'vision-adapters/head/9'"),
        ("[" * 100_000, "is not a head's card"),
        ("{}", "is not a head's card: KeyError"),
    ):
        card.write_text(changed)
        with pytest.raises(ValueError, match=message) as raised:
            load_head(tmp_path)
        assert "\n" not in str(raised.value)
    card.write_text(sound)
    tensors.write_bytes(content[:-3] + b"abc")
    with pytest.raises(ValueError, match="does not belong to its card"):
        load_head(tmp_path)
    tensors.write_bytes(content[:20])
    with pytest.raises(ValueError, match=r"head\.safetensors cannot be read"):
        load_head(tmp_path)
    with torch.no_grad():
        head.weight[0, 0] = torch.nan
    save_head(head, tmp_path)
    with pytest.raises(ValueError, match="'weight' holds NaN or infinity"):
        load_head(tmp_path)
    assert json.loads(card.read_text())["schema"] == "vision-adapters/head/1"
    for pipe in (tensors, card):
        pipe.unlink()
        os.mkfifo(pipe)
        with pytest.raises(ValueError, match="is no file"):
            load_head(tmp_path)


def test_a_classifier_is_saved_as_its_head_with_its_classes(tmp_path: Path) -> None:
    X, y = np.eye(4, dtype=np.float32).repeat(6, 0), np.repeat(list("abcd"), 6)
    with pytest.raises(ValueError, match="HeadClassifier was not fitted; call fit before save_head"):
        save_head(HeadClassifier(), tmp_path)
    with pytest.raises(ValueError, match="a head of type str cannot be kept"):
        save_head("head", tmp_path)
    classifier = HeadClassifier().fit(X, y)
    save_head(classifier, tmp_path)
    loaded = load_head(tmp_path)
    assert loaded.classes == ("a", "b", "c", "d")
    with torch.no_grad():
        scores = loaded.module(torch.from_numpy(X)).double().numpy()
    np.testing.assert_allclose(scores, classifier.decision_function(X), rtol=1e-5, atol=1e-5)


def rewritten(folder: Path, form: dict[str, Any], tensors: dict[str, torch.Tensor], **fields: Any) -> None:
    """A head's folder with digests that fit, whatever it holds."""
    content = safetensors.torch.save(tensors)
    card = json.loads((folder / "card.json").read_text()) | {"head": form} | fields
    card["files"] = {"head.safetensors": hashlib.sha256(content).hexdigest()}
    (folder / "head.safetensors").write_bytes(content)
    (folder / "card.json").write_text(json.dumps(card | {"digest": card_digest(card)}))


LINEAR = {"kind": "linear", "dim": 4, "outputs": 2, "features": "raw", "scaled": False}
CACHE = {"kind": "cache", "scale": 10.0, "alpha": 1.0, "beta": 5.5}
GAUSSIAN = {"kind": "gaussian", "dim": 4, "outputs": 2, "scale": 10.0}
SOUND = {
    "linear": (LINEAR, dict(LinearHead(4, 2, features="raw").state_dict())),
    "cache": (CACHE, {"texts": torch.ones(2, 4), "keys": torch.ones(5, 4), "values": torch.ones(5, 2)}),
    "gaussian": (GAUSSIAN, {name: torch.ones(2, 4) for name in ("texts", "means", "variances")}),
}


@pytest.mark.parametrize(("form", "change", "message"), [
    (LINEAR | {"dim": 10**12}, {}, r"'weight' has the shape \(2, 4\), expected \(2, 1000000000000\)"),
    (LINEAR | {"dim": 4.0}, {}, "'weight' has the shape"),
    (LINEAR, {"weight": torch.ones(2, 4).to(torch.complex64)}, "'weight' holds torch.complex64"),
    (LINEAR, {"weight": torch.ones(2, 4).to(torch.float8_e4m3fn)}, "'weight' holds torch.float8_e4m3fn"),
    (LINEAR, {"weight": torch.ones(2, 4).to(torch.uint16)}, "'weight' holds torch.uint16"),
    (LINEAR, {"weight": torch.ones(2, 4).bool()}, "'weight' is torch.bool, expected torch.float32"),
    (CACHE | {"alpha": math.nan}, {}, "alpha is nan, expected a finite number"),
    (CACHE | {"scale": 10**400}, {}, "scale is 1000.*, expected a finite number"),
    (CACHE | {"beta": "1"}, {}, "beta is '1', expected a finite number"),
    (CACHE, {"values": torch.ones(3, 2)}, r"'values' has the shape \(3, 2\), expected \(5, 2\)"),
    (CACHE, {"keys": torch.ones(5, 3)}, r"'keys' has the shape \(5, 3\), expected \(5, 4\)"),
    (CACHE, {"texts": torch.ones(1, 4)}, r"'values' has the shape \(5, 2\), expected \(5, 1\)"),
    (CACHE, {"values": torch.ones(5, 2).long()}, "'values' is torch.int64 of shape"),
    (GAUSSIAN | {"scale": math.inf}, {}, "scale is inf, expected a finite number"),
    (GAUSSIAN, {"means": torch.ones(2, 4).long()}, "'means' is torch.int64 of shape"),
    (GAUSSIAN, {"texts": torch.ones(1, 4)}, r"'texts' has the shape \(1, 4\), expected \(2, 4\)"),
    (GAUSSIAN, {"variances": torch.zeros(2, 4)}, "expected every variance above 0"),
])  # fmt: skip
def test_tensors_that_do_not_fit_their_card(
    tmp_path: Path, form: dict[str, Any], change: dict[str, torch.Tensor], message: str
) -> None:
    save_head(LinearHead(4, 2, features="raw"), tmp_path)
    whole, sound = SOUND[form["kind"]]
    rewritten(tmp_path, whole, sound)
    load_head(tmp_path)
    rewritten(tmp_path, form, sound | change)
    with pytest.raises(ValueError, match=message) as raised:
        load_head(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", SOUND)
def test_as_many_names_as_scores(tmp_path: Path, kind: str) -> None:
    save_head(LinearHead(4, 2, features="raw"), tmp_path)
    rewritten(tmp_path, *SOUND[kind], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="3 names of classes for a head of 2 scores"):
        load_head(tmp_path)


def test_numbers_that_torch_has_not_are_one_line(tmp_path: Path) -> None:
    save_head(LinearHead(4, 2, features="raw"), tmp_path)
    header = json.dumps({"weight": {"dtype": "F4", "shape": [2, 4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "head.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    with pytest.raises(ValueError, match=r"head\.safetensors cannot be read"):
        load_head(tmp_path)


def test_a_classifiers_temperature_is_kept(tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    features = np.eye(3, 8)[labels] + 0.8 * np.random.default_rng(0).normal(size=(60, 8))
    classifier = HeadClassifier("logistic", calibration="temperature").fit(features, labels)
    assert classifier.calibration_ is not None
    assert classifier.calibration_.temperature != 1
    save_head(classifier, tmp_path, about={"encoder": "mine"})
    loaded = load_head(tmp_path)
    calibration = Calibration(**loaded.about["calibration"])
    with torch.no_grad():
        probabilities = calibration.probabilities(loaded.module(torch.tensor(features, dtype=torch.float32)))
    assert calibration == classifier.calibration_
    assert loaded.about["encoder"] == "mine"
    assert np.abs(probabilities.numpy() - classifier.predict_proba(features)).max() < 1e-5


def test_weights_are_as_open_to_others_as_any_new_file(tmp_path: Path) -> None:
    """Safetensors lets nobody but their owner read them, and a colleague could not use a trained encoder."""
    write_tensors({"weight": torch.zeros(3)}, tmp_path / "a.safetensors")
    (tmp_path / "card.json").touch()
    assert (tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "card.json").stat().st_mode
