from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from vision_adapters.heads import (
    AttentiveHead,
    LinearHead,
    RelationalHead,
    SegmentationHead,
    TemporalHead,
    initial_head,
    language_head,
    seeded,
)
from vision_adapters.heads.transformer import Transformer
from vision_adapters.losses import cross_entropy
from vision_adapters.training import Recipe, fit


def zero_shot_logits(features: torch.Tensor, texts: torch.Tensor, scale: float = 100.0) -> torch.Tensor:
    """Scores of a dual encoder: scaled cosines."""
    return torch.tensor(scale) * F.linear(F.normalize(features, dim=-1), F.normalize(texts, dim=-1))


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (7, 3, 5), (33, 11, 17)])
@pytest.mark.parametrize("train_scale", [False, True])
def test_zero_steps_is_exactly_zero_shot(seed: int, n: int, k: int, d: int, train_scale: bool) -> None:
    x, v = draw(n, d, seed=seed), draw(k, d, seed=seed + 100)
    head = language_head(v, 100.0, train_scale=train_scale)
    expected = zero_shot_logits(x, v, float(head.logit_scale().detach()))
    assert torch.equal(head(x), expected)
    y = torch.arange(n) % k
    recipe = Recipe(lr=0.1, steps=0, batch_size=4, validate_every=1)
    done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda _: 0.0, direction="higher", seed=0)
    assert done.best_step == 0
    assert torch.equal(head(x), expected)


@pytest.mark.parametrize("features", ["raw", "batchnorm"])
def test_other_features_start_with_zero_shot_predictions(features: str) -> None:
    x, v = draw(200, 16), draw(9, 16, seed=1)
    head = language_head(v, 1.0, features=features).eval()
    assert torch.equal(head(x).argmax(1), zero_shot_logits(x, v).argmax(1))


@pytest.mark.parametrize("features", ["raw", "l2", "batchnorm"])
@pytest.mark.parametrize("start", ["language-1p", "language-2p"])
@pytest.mark.parametrize("train_scale", [False, True])
def test_language_starts_predict_as_zero_shot(start: str, features: str, train_scale: bool) -> None:
    x, projection, v = draw(300, 10), draw(10, 6, seed=1), draw(8, 6, seed=2)
    head = initial_head(
        start, classes=8, projection=projection, class_embeddings=v, features=features, logit_scale=5.0,
        train_scale=train_scale,
    ).eval()  # fmt: skip
    zero_shot = zero_shot_logits(x @ projection, v, 5.0)
    assert torch.equal(head(x).argmax(1), zero_shot.argmax(1))
    if (start, features, train_scale) == ("language-2p", "l2", False):
        assert torch.equal(head(x), zero_shot)
    trained = {name for name, parameter in head.named_parameters() if parameter.requires_grad}
    assert "projection" not in trained


def test_random_starts_depend_on_the_seed_alone() -> None:
    projection = draw(10, 6)
    for start, dim in (("random-1p", 10), ("random-2p", 6)):
        a, b, c = (initial_head(start, classes=3, projection=projection, seed=seed) for seed in (0, 0, 1))
        assert torch.equal(a(draw(4, 10)), b(draw(4, 10)))
        assert not torch.equal(a(draw(4, 10)), c(draw(4, 10)))
        assert sum(p.numel() for p in a.parameters() if p.requires_grad) == 3 * dim + 3


@pytest.mark.parametrize(("call", "message"), [
    ({"start": "language-2p"}, "needs class_embeddings"),
    ({"start": "language-1p", "class_embeddings": torch.ones(3, 4)}, "needs the projection"),
    ({"start": "random-1p"}, "needs dim"),
    ({"start": "language-3p"}, "language-3p"),
    ({"start": "language-2p", "class_embeddings": torch.ones(2, 4)}, "has 2 rows, expected 3"),
    ({"start": "language-2p", "class_embeddings": torch.ones(3, 4), "projection": torch.ones(5, 6)}, "leads to 6"),
])  # fmt: skip
def test_starts_say_what_they_need(call: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        initial_head(classes=3, **call)


def test_language_head_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    language_head(draw(3, 4), 1.0)
    seeded(lambda: LinearHead(4, 3), 1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("row", "value"), [(1, 0.0), (2, float("nan"))])
def test_language_head_names_a_bad_class(row: int, value: float) -> None:
    v = draw(4, 3)
    v[row] = value
    with pytest.raises(ValueError, match=f"row {row} has length"):
        language_head(v, 1.0)


@pytest.mark.parametrize(
    ("grid", "size"), [((1, 1), (1, 1)), ((2, 3), (7, 11)), ((8, 8), (64, 64)), ((2, 2), (96, 80))]
)
def test_segmentation_shapes(grid: tuple[int, int], size: tuple[int, int]) -> None:
    head = SegmentationHead(6, 3, grid=grid, size=size, width=16)
    assert head(draw(2, grid[0] * grid[1], 6)).shape == (2, 3, *size)


@pytest.mark.long
def test_segmentation_recovers_detail_inside_a_token() -> None:
    """Each token tells where an edge lies inside its own block; only a head that draws pixels can follow it."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 9, (128, 4), generator=generator)
    tokens = torch.nn.functional.one_hot(edges, 9).float()
    columns = torch.arange(8)
    blocks = (columns[None, None] >= edges[..., None]).long()  # [n, 4 tokens, 8 columns]
    masks = blocks.view(-1, 2, 2, 1, 8).expand(-1, -1, -1, 8, -1).permute(0, 1, 3, 2, 4).reshape(-1, 16, 16)
    head = seeded(lambda: SegmentationHead(9, 2, grid=(2, 2), size=(16, 16), width=32, depth=1), 0)
    recipe = Recipe(lr=3e-3, steps=120, batch_size=32, validate_every=120, schedule="cosine")

    def right(module: torch.nn.Module) -> float:
        return float((module(tokens).argmax(1) == masks).float().mean())

    done = fit(head, (tokens,), masks, loss=cross_entropy, recipe=recipe, validate=right, direction="higher", seed=0)
    assert done.best_score > 0.98


def test_segmentation_refuses_another_number_of_tokens() -> None:
    with pytest.raises(ValueError, match=r"expected \[n, 6, d\]"):
        SegmentationHead(6, 3, grid=(2, 3), size=(8, 8), width=16)(draw(2, 5, 6))


def test_what_a_text_mask_hides_changes_nothing() -> None:
    head = seeded(lambda: RelationalHead(6, 4, 5, width=16), 0).eval()
    image, text = draw(3, 9, 6), draw(3, 7, 4, seed=1)
    mask = torch.arange(7)[None] < torch.tensor([7, 4, 1])[:, None]
    other = text.masked_fill(~mask[..., None], float("nan"))
    assert torch.equal(head(image, text, mask), head(image, other, mask))
    shorter = head(image[1:2], text[1:2, :4], mask[1:2, :4])
    torch.testing.assert_close(head(image, text, mask)[1:2], shorter, rtol=1e-5, atol=1e-6)


def test_the_question_and_its_word_order_matter() -> None:
    head = seeded(lambda: RelationalHead(6, 4, 5, width=16), 0).eval()
    image, text, mask = draw(1, 9, 6), draw(1, 7, 4, seed=1), torch.ones(1, 7, dtype=torch.bool)
    assert not torch.allclose(head(image, text, mask), head(image, text.flip(1), mask), atol=1e-5)
    assert not torch.allclose(head(image, text, mask), head(image.flip(1), text, mask), atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
def test_the_first_token_alone_has_the_value_and_gradients_that_all_tokens_give(depth: int) -> None:
    mix = seeded(lambda: Transformer(16, depth, 4), 0).double()
    x, keep = draw(3, 7, 16).double(), torch.arange(7)[None] < torch.tensor([7, 4, 1])[:, None]

    def gradients(first: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad(first.square().sum(), list(mix.parameters())))

    for mask in (None, keep):
        torch.testing.assert_close(mix.first(x, mask), mix(x, mask)[:, 0])
        torch.testing.assert_close(gradients(mix.first(x, mask)), gradients(mix(x, mask)[:, 0]))


def test_heads_that_read_one_token_do_not_pay_for_the_others_in_the_last_block() -> None:
    def flops(call: Callable[[], object]) -> int:
        with FlopCounterMode(display=False) as counter:
            call()
        return counter.get_total_flops()

    question_head = seeded(lambda: RelationalHead(6, 4, 5, width=16, depth=1), 0).eval()
    clip_head = seeded(lambda: TemporalHead(6, 2, frames=14, width=16, depth=1), 0).eval()
    image, text, frames = draw(2, 9, 6), draw(2, 5, 4), draw(2, 14, 6)
    mask, tokens = torch.ones(2, 5, dtype=torch.bool), draw(2, 15, 16)
    assert flops(lambda: question_head(image, text, mask)) < 0.5 * flops(lambda: question_head.mix(tokens))
    assert flops(lambda: clip_head(frames)) < 0.5 * flops(lambda: clip_head.mix(tokens))


def test_frame_order_matters_and_frames_are_counted() -> None:
    head = seeded(lambda: TemporalHead(6, 2, frames=4, width=16), 0).eval()
    clip = draw(1, 4, 6)
    assert not torch.allclose(head(clip), head(clip.flip(1)), atol=1e-5)
    with pytest.raises(ValueError, match=r"expected \[n, 4, d\]"):
        head(draw(1, 5, 6))


def fake_gpus(monkeypatch: pytest.MonkeyPatch, in_use: bool) -> list[torch.Tensor]:
    """Two GPUs whose generators are tensors; the list holds their present states."""
    states = [torch.tensor([5]), torch.tensor([6])]
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: in_use)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_rng_state", lambda device: states[int(device)].clone())
    monkeypatch.setattr("torch.cuda.set_rng_state", lambda state, device: states[int(device)].copy_(state))
    monkeypatch.setattr("torch.cuda.manual_seed_all", lambda seed: [state.fill_(seed) for state in states])
    return states


@pytest.mark.parametrize("in_use", [False, True])
def test_a_seeded_start_leaves_the_generators_of_gpus_alone(monkeypatch: pytest.MonkeyPatch, in_use: bool) -> None:
    """It put back the CPU's generator alone, and left every GPU's at the seed."""
    states = fake_gpus(monkeypatch, in_use)
    during: list[list[int]] = []

    def build() -> LinearHead:
        during.append([int(state) for state in states])
        return LinearHead(4, 2)

    before = torch.get_rng_state()
    heads = [seeded(build, 9), seeded(build, 9)]
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert during == [[9, 9] if in_use else [5, 6]] * 2
    assert [int(state) for state in states] == [5, 6]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("make", [
    lambda: LinearHead(0, 2), lambda: LinearHead(2, 2, features="l1"), lambda: LinearHead(2, 2, logit_scale=-1.0),
    lambda: SegmentationHead(4, 2, grid=(4, 4), size=(2, 8)), lambda: TemporalHead(4, 2, width=6, heads=4),
])  # fmt: skip
def test_sizes_are_checked_at_the_door(make: object) -> None:
    with pytest.raises(ValueError, match="got"):
        make()


def test_an_attentive_head_finds_the_place_that_tells() -> None:
    """One token of 25 knows the class, at another place in each image: the mean drowns it, the query finds it."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 2
    tokens = torch.randn(300, 25, 8, generator=generator)
    where = torch.randint(0, 25, (300,), generator=generator)
    tokens[torch.arange(300), where] = 4 * torch.eye(8)[0] + 4 * torch.eye(8)[1 + labels]
    head = seeded(lambda: AttentiveHead(8, 2, heads=2), 0)
    torch.testing.assert_close(head.attention(tokens), torch.full((300, 2, 25), 1 / 25))
    start = head.norm(head.value(tokens.mean(1)))
    torch.testing.assert_close(head(tokens), head.last(start), rtol=1e-4, atol=1e-4)
    optimiser = torch.optim.Adam(head.parameters(), 0.02)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(head(tokens[:200]), labels[:200]).backward()
        optimiser.step()
    assert float((head(tokens[200:]).argmax(1) == labels[200:]).float().mean()) > 0.95
    looked = head.attention(tokens[200:])[torch.arange(100), :, where[200:]].max(1).values
    assert float(looked.detach().mean()) > 0.5
    with pytest.raises(ValueError, match="multiple of heads, got dim=9, heads=4"):
        AttentiveHead(9, 2)
