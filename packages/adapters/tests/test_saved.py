"""Heads in folders: the same scores again, and nothing that was changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from vision_adapters import AttentiveHead, HeadClassifier, LinearHead, load_head, save_head, tune, tuning_data
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
