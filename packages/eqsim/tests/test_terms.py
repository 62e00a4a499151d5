"""A loss by names and weights is the sum of the losses that the names are of."""

from __future__ import annotations

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, PairLoss, SigLipEqSimLoss, build_loss
from eqsim.terms import TERMS

PAIRS = torch.tensor([[0, 1], [2, 3]])


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    image, text = (torch.randn(6, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    return image, text


def test_terms_add_up() -> None:
    image, text = batch()
    terms = build_loss("clip", ["eqsim:v2=0.5", "pair=2"])(image, text, 10.0, close_pairs=PAIRS, output_dict=True)
    assert terms["contrastive_loss"] == pytest.approx(float(build_loss()(image, text, 10.0)))
    assert terms["eqsim_loss"] == pytest.approx(0.5 * float(EqSimLoss("v2")(image, text, close_pairs=PAIRS)))
    assert terms["pair_loss"] == pytest.approx(2 * float(PairLoss()(image, text, 10.0, close_pairs=PAIRS)))


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("contrast", ["clip", "siglip"])
def test_every_term_changes_the_loss(contrast: str, term: str) -> None:
    image, text = batch()
    loss, plain = build_loss(contrast, [f"{term}=3"]), build_loss(contrast)
    assert isinstance(loss, SigLipEqSimLoss if contrast == "siglip" else ClipEqSimLoss)
    more: dict[str, object] = {"close_pairs": PAIRS}
    if "keep" in term:
        more["teacher"] = image.flip(1), text, 10.0
    false = text[:2] + image[:2]
    both = torch.cat([text, false]) if term == "hard" else text
    if term == "hard":
        more["negatives_of"] = torch.tensor([0, 1])
    assert float(loss(image, both, 10.0, -2.0, **more)) != pytest.approx(float(plain(image, both, 10.0, -2.0)))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["eqsim:v4=1"], "'eqsim:v4' is not known; the nearest is eqsim:v"),
        (["zzz"], "there are: eqsim:v1"),
        (["pair=0"], "'pair=0': expected NAME=WEIGHT with a number above 0"),
        (["pair=nan"], "a number above 0"),
        (["pair="], "a number above 0"),
        (["keep=1", "keep:squares=1"], "'keep=1' and 'keep:squares=1' are both of keep"),
    ],
)
def test_what_is_refused(terms: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_loss("clip", terms)
    with pytest.raises(ValueError, match="loss='clap': expected one of 'clip', 'siglip'"):
        build_loss("clap")
