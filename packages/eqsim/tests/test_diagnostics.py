"""Diagnostics against quantities worked out by hand."""

from __future__ import annotations

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, diagnose
from eqsim.functional import equivariance_score


def features(n: int = 24, d: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.functional.normalize(torch.randn(n, d, generator=generator), dim=1)
    text = torch.nn.functional.normalize(image + 0.3 * torch.randn(n, d, generator=generator), dim=1)
    return image, text


def test_the_published_margin_leaves_v2_without_gradient() -> None:
    image, text = features(64, 32)
    with pytest.warns(UserWarning, match="v2_text, v2_image gives no gradient"):
        diagnosis = diagnose(EqSimLoss.reference(generator=torch.Generator().manual_seed(0)), image, text, 3.0)
    assert diagnosis.dead == ("v2_text", "v2_image")
    assert diagnosis.gradient_share["v1"] == 1.0
    assert diagnosis.inside_margin["v2_text"] > 0.5
    assert "NO GRADIENT" in str(diagnosis)


def test_shares_terms_and_distribution() -> None:
    image, text = features()
    loss = ClipEqSimLoss(weight=0.5)
    diagnosis = diagnose(loss, image, text, 10.0)
    assert set(diagnosis.gradient_share) == {"contrastive", "v1", "v2_text", "v2_image"}
    assert sum(diagnosis.gradient_share.values()) == pytest.approx(1.0)
    named = loss(image, text, 10.0, output_dict=True)
    assert diagnosis.terms["contrastive"] == pytest.approx(float(named["contrastive_loss"]), rel=1e-5)
    terms = diagnosis.terms["v1"] + diagnosis.terms["v2_text"] + diagnosis.terms["v2_image"]
    assert terms == pytest.approx(float(named["eqsim_loss"]), rel=1e-5)
    scores = image @ text.T
    torch.testing.assert_close(diagnosis.equivariance, equivariance_score(scores))
    middle = float(equivariance_score(scores).median())
    assert diagnosis.quantiles["equivariance score"][2] == pytest.approx(middle, rel=0.05)
    assert diagnosis.quantiles["text residual"][0] == pytest.approx(-diagnosis.quantiles["text residual"][4], abs=0.05)


def test_inside_margin_counts_pairs() -> None:
    image, text = features(5)
    scores = image @ text.T
    squares = (scores - scores.T).square()
    others = ~torch.eye(5, dtype=torch.bool)
    margin = 1.001 * float(squares[others].median())
    with pytest.warns(UserWarning, match="no gradient"):
        diagnosis = diagnose(EqSimLoss("v1", margin_v1=10.0), image, text)
    assert diagnosis.inside_margin == {"v1": 1.0}
    diagnosis = diagnose(EqSimLoss("v1", margin_v1=margin), image, text)
    assert diagnosis.inside_margin["v1"] == pytest.approx(float((squares[others] <= margin).float().mean()))


def test_one_sample_has_nothing_to_compare() -> None:
    with pytest.warns(UserWarning, match="no gradient"):
        diagnosis = diagnose(EqSimLoss("v1"), *(rows[:1] for rows in features()))
    assert diagnosis.equivariance.numel() == 0
    assert diagnosis.inside_margin == {}


@pytest.mark.filterwarnings("ignore:.*no gradient")
def test_a_batch_of_one_has_no_pair_and_no_nan() -> None:
    diagnosis = diagnose(EqSimLoss(), *(torch.ones(1, 3) for _ in range(2)))
    assert "nan" not in str(diagnosis)


def test_diagnoses_can_be_compared_and_put_into_sets() -> None:
    first, second = (diagnose(EqSimLoss("v1"), *features(4)) for _ in range(2))
    assert first != second
    assert len({first, second}) == 2


def test_negatives_and_a_teacher_have_their_shares() -> None:
    image, text = features()
    negatives = text.roll(3, 1)[:7]
    owners = torch.arange(7)
    loss = ClipEqSimLoss("v1", pair_weight=0.1, hard_weight=0.3, keep_weight=0.4)
    call = {
        "close_pairs": torch.tensor([[0, 1], [2, 3]]),
        "negatives_of": owners,
        "teacher": (image[:, :4], torch.cat([text, negatives])[:, :4], 5.0),
    }
    diagnosis = diagnose(loss, image, torch.cat([text, negatives]), 10.0, **call)
    assert set(diagnosis.gradient_share) == {"contrastive", "v1", "pair", "hard", "keep"}
    assert min(diagnosis.gradient_share.values()) > 0
    named = loss(image, torch.cat([text, negatives]), 10.0, output_dict=True, **call)
    for term, name in (("contrastive", "contrastive_loss"), ("hard", "hard_loss"), ("keep", "keep_loss")):
        assert diagnosis.terms[term] == pytest.approx(float(named[name]), rel=1e-5)
    assert "keep" in str(diagnosis)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_said_with_its_row(bad: float) -> None:
    image, text = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    spoilt = text.clone()
    spoilt[4, 1] = bad
    with pytest.raises(ValueError, match="text_features: row 4 has NaN or infinity"):
        diagnose(EqSimLoss(), image, spoilt)
    with pytest.raises(ValueError, match=r"logit_scale is -10.0: expected a finite number, at least 0"):
        diagnose(EqSimLoss(score="logits"), image, text, torch.tensor(-10.0))
    for scale in (-10.0, bad):  # a number is looked at in every step: it is on no device
        with pytest.raises(ValueError, match=r"logit_scale is .*: expected a finite number, at least 0"):
            EqSimLoss(score="logits")(image, text, scale)
