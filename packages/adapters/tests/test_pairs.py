"""Both sides of an encoder under `fit`: what a step draws, what a loss gets, and recall with ties."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from vision_adapters.rows import Draw
from vision_adapters.training import Recipe, fit
from vision_adapters.training.pairs import ChosenRows, DualEncoder, features_of_batch, recall_at_1


class Sides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(3, 4), nn.Embedding(9, 4)

    def texts(self, texts: list[str]) -> Tensor:
        embedded: Tensor = self.text(torch.tensor([int(text) for text in texts], dtype=torch.long))
        return embedded


def dual(negatives: int = 0) -> tuple[Sides, DualEncoder]:
    torch.manual_seed(0)
    sides = Sides()
    return sides, DualEncoder(sides, sides.image, lambda texts: sides.texts(list(texts)), negatives=negatives)


def test_forms_are_drawn_by_step_and_agree_between_rows() -> None:
    texts = ChosenRows([[("a",), ("b",)], [("c",)], [("d",), ("e",)]])
    features = ChosenRows([[torch.tensor(float(ord(form[0]))) for form in forms] for forms in texts.forms])
    draws = [Draw(3, step, torch.tensor([2, 0, 1])) for step in range(1, 30)]
    combinations = set()
    for drawn, values in zip(texts.stream(draws), features.stream(draws), strict=True):
        assert [float(ord(form[0])) for form in drawn] == values.tolist()
        combinations.add(tuple(drawn))
    assert len(combinations) == 4
    assert texts[:2] == [("a",), ("c",)]


def test_what_a_loss_gets_of_false_captions() -> None:
    sides, model = dual(negatives=2)
    images = torch.randn(3, 1, 3)
    features = features_of_batch(model(images, [("0",), ("1",), ("2",)], [("5",), (), ("6", "7")]))
    assert features["owners"].tolist() == [0, 2, 2]
    assert torch.equal(features["text_features"], sides.texts(["0", "1", "2", "5", "6", "7"]))
    assert torch.equal(features["image_features"], sides.image(images[:, 0]))
    assert float(features["logit_scale"].detach()) == pytest.approx(1 / 0.07)
    assert "owners" not in features_of_batch(model(images, [("0",), ("1",), ("2",)], [(), (), ()]))


def test_a_scale_above_100_still_learns() -> None:
    sides = Sides()
    sides.scale = nn.Parameter(torch.tensor(math.log(200.0)))
    model = DualEncoder(sides, sides.image, lambda texts: sides.texts(list(texts)), log_scale=sides.scale)
    scale = features_of_batch(model(torch.randn(2, 1, 3), [("0",), ("1",)]))["logit_scale"]
    scale.backward()
    assert float(scale.detach()) == pytest.approx(100.0)
    assert float(sides.scale.grad) == pytest.approx(200.0, rel=1e-5)
    assert [name for name, _ in model.named_parameters() if "scale" in name] == ["encoder.scale"]


def test_terms_by_name_are_summed_and_their_means_kept() -> None:
    head, x = nn.Linear(2, 1), torch.randn(8, 2)
    steps = []
    done = fit(
        head, (x,), torch.zeros(8, 1), loss=lambda out, y: {"a": out.square().mean(), "b": 2 * out.abs().mean()},
        recipe=Recipe(lr=1e-2, steps=4, batch_size=4, validate_every=2), validate=lambda m: 0.0, direction="higher",
        seed=0, watch=lambda row: steps.append(row.step),
    )  # fmt: skip
    assert steps == [0, 2, 4]
    assert done.history[0].terms == {}
    for row in done.history[1:]:
        assert row.loss == pytest.approx(row.terms["a"] + row.terms["b"], rel=1e-6)


def test_recall_shares_ties_and_counts_equal_captions() -> None:
    image, text = torch.eye(3), torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 1.0]])
    to_text, to_image = 0.5 + 1 / 3 + 1, 1 + 0 + 1  # image 1 is like no text: all three tie
    assert recall_at_1(image, text, torch.tensor([0, 1, 2])) == pytest.approx((to_text + to_image) / 6)
    assert recall_at_1(image, text, torch.tensor([0, 0, 2])) == pytest.approx((1 + 2 / 3 + 1 + 1 + 1 + 1) / 6)
