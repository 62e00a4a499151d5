"""`EqSimLoss` on features against the float64 definition, in every mode, score and backend."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, Multinomial, PairLoss, TopK, diagnose
from eqsim.functional import select_close_pairs

from . import _reference

MODES = ("v1", "v2", "hybrid")
SCORES = ("cosine", "logits", "softmax")


def features(
    n: int, d: int = 6, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(n, d, generator=generator, dtype=torch.float64)
    text = torch.randn(n, d, generator=generator, dtype=torch.float64) + image
    return image.to(dtype).requires_grad_(), text.to(dtype).requires_grad_()


def definition(
    mode: str,
    score: str,
    image: torch.Tensor,
    text: torch.Tensor,
    scale: torch.Tensor,
    pairs: torch.Tensor | None,
    **settings: object,
) -> torch.Tensor:
    scores = _reference.score_matrix(image, text, score, scale)
    listed = None if pairs is None else [(int(i), int(j)) for i, j in pairs]
    everything = _reference.all_pairs(len(image))
    margin, margin_v1 = settings.get("margin", 0.0), settings.get("margin_v1", 0.0)
    sides = settings.get("sides", ("text", "image"))
    if mode == "v1":
        return _reference.v1(scores, everything if listed is None else listed, margin_v1)
    if mode == "v2":
        return _reference.v2(scores, everything if listed is None else listed, sides, margin)
    reduction = settings.get("distant_reduction", "mean")
    return _reference.hybrid(scores, listed or [], sides, margin, margin_v1, reduction)


def pairs_for(n: int) -> torch.Tensor:
    if n == 1:
        return torch.empty((0, 2), dtype=torch.int64)
    listed = [(i, (i + step) % n) for i in range(n) for step in (1, 2) if (i + step) % n != i]
    return torch.tensor([*listed, listed[0], listed[0][::-1]])


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize(("mode", "score"), list(itertools.product(MODES, SCORES)))
@pytest.mark.parametrize("listed", [False, True])
def test_dense_is_the_definition(n: int, mode: str, score: str, listed: bool) -> None:
    image, text = features(n)
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    pairs = pairs_for(n) if listed or mode == "hybrid" else None
    inputs = [image, text] if score == "cosine" else [image, text, scale]
    fast = 2 * EqSimLoss(mode, score, weight=0.5, backend="dense")(image, text, scale, close_pairs=pairs)
    slow = definition(mode, score, image, text, scale, pairs)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-14)
    for ours, theirs in zip(torch.autograd.grad(fast, inputs), torch.autograd.grad(slow, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


def test_close_rules_select_on_the_logits() -> None:
    image, text = features(9)
    unit = [rows / rows.norm(dim=1, keepdim=True) for rows in (image, text)]
    for mode, rule in itertools.product(MODES, (TopK(k=2), TopK(0.5), Multinomial(3))):
        seeded = [torch.Generator().manual_seed(3) for _ in range(2)]
        pairs = select_close_pairs(20.0 * unit[0] @ unit[1].T, rule, generator=seeded[0])
        ruled = EqSimLoss(mode, close=rule, generator=seeded[1], backend="dense")(image, text, 20.0)
        listed = EqSimLoss(mode, backend="dense")(image, text, close_pairs=pairs)
        torch.testing.assert_close(ruled, listed, rtol=1e-12, atol=0)


def test_hybrid_without_a_rule_takes_the_four_best() -> None:
    assert EqSimLoss().close == TopK(k=4)
    assert EqSimLoss("v2").close is None


def test_reference_is_the_published_run() -> None:
    loss = EqSimLoss.reference(generator=torch.Generator().manual_seed(0), backend="dense")
    image, text = features(6)
    unit = [rows / rows.norm(dim=1, keepdim=True) for rows in (image, text)]
    scale = torch.tensor(30.0, dtype=torch.float64)
    pairs = select_close_pairs(scale * unit[0] @ unit[1].T, Multinomial(4), generator=torch.Generator().manual_seed(0))
    slow = 0.5 * definition("hybrid", "softmax", *unit, scale, pairs, margin=0.1, distant_reduction="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(loss(*unit, scale), slow, rtol=1e-10, atol=0)


def test_a_margin_that_switches_a_term_off_warns_once() -> None:
    image, text = features(16)
    loss = EqSimLoss("v2", margin=10.0)
    with pytest.warns(UserWarning, match=r"v2_text \(margin 10.0\) and v2_image \(margin 10.0\) is exactly 0"):
        value = loss(image, text)
    assert float(value.detach()) == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(image, text)
        EqSimLoss("v2", margin=1e-6)(image, text)
        EqSimLoss("v1")(image.detach(), image.detach())


def test_output_dict_and_bias() -> None:
    image, text = features(5)
    loss = EqSimLoss("v2", "logits", weight=0.25)
    plain = loss(image, text, 2.0)
    named = loss(image, text, 2.0, -10.0, output_dict=True)
    assert set(named) == {"eqsim_loss"}
    torch.testing.assert_close(named["eqsim_loss"], plain)


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (lambda: EqSimLoss("v3"), "'v3'"),
        (lambda: EqSimLoss(score="dot"), "'dot'"),
        (lambda: EqSimLoss(sides="text"), "'text'"),
        (lambda: EqSimLoss(sides=("left",)), "left"),
        (lambda: EqSimLoss(margin=-1), "margin=-1"),
        (lambda: EqSimLoss(margin_v1=float("inf")), "margin_v1=inf"),
        (lambda: EqSimLoss(weight=-0.5), "weight=-0.5"),
        (lambda: EqSimLoss(close=0.1), "close=0.1"),
        (lambda: EqSimLoss(backend="cuda"), "'cuda'"),
        (lambda: EqSimLoss(distant_reduction="sum"), "'sum'"),
        (lambda: EqSimLoss(rank=2, world_size=2), "rank=2, world_size=2"),
        (lambda: EqSimLoss(world_size=0), "world_size=0"),
    ],
)
def test_bad_settings_are_refused_at_construction(build: object, shown: str) -> None:
    with pytest.raises((ValueError, TypeError), match=shown):
        build()


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"text": torch.zeros(4, 6)}, r"\(5, 6\) against \(4, 6\)"),
        ({"text": torch.zeros(5, 6, dtype=torch.float64)}, "torch.float32 against torch.float64"),
        ({"text": torch.zeros(5, 6, device="meta")}, "cpu against meta"),
        ({"image": torch.zeros(5)}, r"image_features has shape \(5,\)"),
        ({"image": torch.zeros(0, 6)}, r"\(0, 6\)"),
        ({"image": torch.zeros(5, 6, dtype=torch.int64)}, "torch.int64"),
        ({"image": [[1.0]]}, "list"),
        ({"scale": None}, "logit_scale is None: score='softmax'"),
        ({"scale": torch.ones(3)}, r"\(3,\)"),
        ({"close_pairs": torch.tensor([[0, 5]])}, r"close_pairs\[0\] = \(0, 5\): expected indices in \[0, 5\)"),
        ({"close_pairs": torch.tensor([[0, 1], [3, 3]])}, r"close_pairs\[1\] = \(3, 3\)"),
        ({"close_pairs": torch.zeros(2, 3, dtype=torch.int64)}, r"\(2, 3\)"),
        ({"close_pairs": torch.zeros(2, 2)}, "float32"),
        ({"close_pairs": [(0, 1)]}, "list"),
        ({"close_pairs": torch.zeros(1, 2, dtype=torch.int64, device="meta")}, "meta"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], shown: str) -> None:
    call = {"image": torch.ones(5, 6), "text": torch.ones(5, 6), "scale": 10.0, "close_pairs": None} | change
    with pytest.raises((ValueError, TypeError), match=shown):
        EqSimLoss(score="softmax")(call["image"], call["text"], call["scale"], close_pairs=call["close_pairs"])


def test_world_size_must_match_the_process_group() -> None:
    with pytest.raises(RuntimeError, match="world_size=2: expected an initialised"):
        EqSimLoss("v1", world_size=2)(torch.ones(2, 2), torch.ones(2, 2))


def test_rows_of_zeros_give_finite_gradients() -> None:
    image, text = features(4)
    zeroed = (image * torch.tensor([[0.0], [1], [1], [1]])).detach().requires_grad_()
    loss = EqSimLoss("v2")(zeroed, text)
    loss.backward()
    assert bool(torch.isfinite(zeroed.grad).all())
    assert float(zeroed.grad[0].abs().max()) == 0.0


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_relative_takes_margins_that_it_does_not_have(backend: str) -> None:
    image, text = features(5)
    pairs = pairs_for(5)
    plain, with_margins = (
        EqSimLoss("relative", margin=margin, margin_v1=margin, backend=backend)(image, text, close_pairs=pairs)
        for margin in (0.0, 0.2)
    )
    assert torch.equal(plain, with_margins)


def test_draws_from_cosines_need_a_scale_or_a_temperature() -> None:
    image, text = features(9)
    with pytest.raises(ValueError, match=r"logit_scale is None: Multinomial\(n=2.*without a temperature needs it"):
        EqSimLoss(close=Multinomial(2))(image, text)
    losses = [
        EqSimLoss(close=rule, generator=torch.Generator().manual_seed(0))(image, text, scale)
        for rule, scale in ((Multinomial(2), 50.0), (Multinomial(2, 0.02), None), (Multinomial(2, 0.02), 3.0))
    ]
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(losses[0], losses[2])
    pairs = pairs_for(9)
    EqSimLoss(close=Multinomial(2))(image, text, close_pairs=pairs)


def test_the_weight_may_be_set_between_steps() -> None:
    image, text = features(6)
    for loss, inputs in ((EqSimLoss("v1"), ()), (PairLoss(), (2.0,))):
        pairs = pairs_for(6)
        before = loss(image, text, *inputs, close_pairs=pairs)
        loss.weight = 0.25
        assert loss.weight == 0.25
        torch.testing.assert_close(loss(image, text, *inputs, close_pairs=pairs), 0.25 * before)
        with pytest.raises(ValueError, match="weight=-1"):
            loss.weight = -1


def test_the_weight_of_known_pairs_stays_above_0() -> None:
    loss = PairLoss(weight=0.25)
    for value in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match=rf"^weight={value}: expected a finite number > 0"):
            loss.weight = value
    assert loss.weight == 0.25


def test_a_miner_gives_pairs_and_a_loss_takes_them() -> None:
    image, text = features(9)
    unit = [rows / rows.norm(dim=1, keepdim=True) for rows in (image, text)]
    for mode in MODES:
        mined = EqSimLoss(mode)(image, text, close_pairs=TopK(k=2)(*unit))
        assert torch.equal(mined, EqSimLoss(mode, close=TopK(k=2))(image, text))

    def neighbours(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        assert float(scale) == 3.0
        torch.testing.assert_close(image, unit[0].to(image.dtype))
        return pairs_for(len(image))

    mined = EqSimLoss("v2", close=neighbours)(image, text, 3.0)
    assert torch.equal(mined, EqSimLoss("v2")(image, text, 3.0, close_pairs=pairs_for(9)))
    assert diagnose(EqSimLoss("v2", close=neighbours), image, text, 3.0).terms["v2_text"] > 0
    with pytest.raises(ValueError, match="expected indices in"):
        EqSimLoss("v2", close=lambda image, text, scale: torch.tensor([[0, 99]]))(image, text)
    with pytest.raises(TypeError, match="close=3: expected"):
        EqSimLoss(close=3)


def test_the_pair_loss_is_no_kind_of_eqsim() -> None:
    assert not isinstance(PairLoss(), EqSimLoss)
    assert PairLoss().settings.term_names == ()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (torch.ones(8, 3), r"differ in width: \(8, 4\) against \(8, 3\); expected one number of features$"),
        (torch.ones(7, 4), r"differ in number: \(8, 4\) against \(7, 4\); expected at least as many texts as images$"),
    ],
)
def test_a_wrong_width_and_too_few_texts_are_two_messages(text: torch.Tensor, shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        EqSimLoss("v1")(torch.ones(8, 4), text)


def test_a_scale_whose_logarithm_was_given_is_said_once() -> None:
    image, text = (rows.detach() for rows in features(8))
    logarithm = torch.nn.Parameter(torch.tensor(2.6592))
    loss = ClipEqSimLoss("v1")
    with pytest.warns(UserWarning, match=r"logit_scale=2.659 is a parameter .* pass model.logit_scale.exp\(\)"):
        loss(image, text, logarithm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(image, text, logarithm)
        for scale in (
            logarithm.exp(),
            2.6592,
            torch.nn.Parameter(torch.tensor(14.3)),
            torch.nn.Parameter(torch.ones(1)),
        ):
            ClipEqSimLoss("v1")(image, text, scale)
