"""CLIP2CLIP and Fusion as modules: scores, loss, schedule, early stopping."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("jaxtyping")

from oven_retrieval.models import Clip2Clip, Entities, Questions, Recipe, Weights  # noqa: E402  # noqa: E402
from oven_retrieval.models.contrastive import contrastive_loss, make_optimiser, seen_unseen, train_dual  # noqa: E402
from oven_retrieval.models.dual import TEMPERATURE, Clip2ClipModule, ClipFusion  # noqa: E402

from ._reference import clip2clip_score  # noqa: E402


def plain_loss(logits, truth):
    n, total = len(truth), 0.0
    for matrix in (logits, list(zip(*logits, strict=True))):
        for i in range(n):
            matrixs = [matrix[i][j] for j in range(n) if j == i or truth[j] != truth[i]]
            total -= matrix[i][i] - math.log(sum(math.exp(x) for x in matrixs))
    return total / (2 * n)


@pytest.mark.parametrize("n", [1, 2, 7, 33])
def test_loss_equals_plain_loops(n):
    generator = torch.Generator().manual_seed(n)
    logits = torch.randn(n, n, generator=generator, dtype=torch.float64, requires_grad=True)
    truth = torch.randint(0, max(1, n // 2), (n,), generator=generator)
    loss = contrastive_loss(logits, truth)
    assert loss.item() == pytest.approx(plain_loss(logits.tolist(), truth.tolist()), abs=1e-12)
    loss.backward()
    for i, j in [(0, 0), (n - 1, 0)]:
        moved = logits.detach().clone()
        moved[i, j] += 1e-6
        slope = (plain_loss(moved.tolist(), truth.tolist()) - loss.item()) / 1e-6
        assert float(logits.grad[i, j]) == pytest.approx(slope, abs=1e-5)


def test_module_equals_the_four_terms_and_the_search():
    rng = np.random.default_rng(0)
    image, text, entity_image, entity_text = rng.normal(size=(4, 9, 5)).astype(np.float32)
    weights = Weights(0.7, -0.2, 0.5, 0.1)
    module = Clip2ClipModule(weights)
    logits = module(*(torch.from_numpy(x) for x in (image, text, entity_image, entity_text)))
    scores = TEMPERATURE * logits.detach().numpy()
    slow = [
        [clip2clip_score(image[q], text[q], entity_image[e], entity_text[e], weights) for e in range(9)]
        for q in range(9)
    ]
    np.testing.assert_allclose(scores, slow, atol=1e-6)
    hits = Clip2Clip(entity_text, entity_image, [True] * 9).search(image, text, module.weights)
    np.testing.assert_array_equal(hits.rows[:, 0], scores.argmax(axis=1))


def world(seed=0, entities=60, per_entity=30, dim=16):
    """The answer's image lies in the question's image, its kind in the question's text."""
    generator = torch.Generator().manual_seed(seed)
    image, text = torch.randn(2, entities, dim, generator=generator)
    truth = torch.arange(entities).repeat_interleave(per_entity)
    noise = torch.randn(2, len(truth), dim, generator=generator)
    return Entities(image, text), Questions(image[truth] + 1.6 * noise[0], text[truth] + 3.0 * noise[1], truth)


def part(questions, mask):
    return Questions(questions.image[mask], questions.text[mask], questions.truth[mask])


@pytest.fixture(scope="module")
def split():
    entities, questions = world()
    order = torch.arange(len(questions.truth)) % 30
    is_seen = questions.truth < 30
    train, validation = part(questions, is_seen & (order < 20)), part(questions, order >= 20)
    return entities, train, validation, validation.truth < 30


def test_training_weights_helps_seen_and_unseen(split):
    entities, train, validation, seen = split
    model = Clip2ClipModule(Weights(1.0, 1.0, 1.0, 1.0))
    before = seen_unseen(model, validation, entities, seen)
    result = train_dual(
        model,
        train,
        entities,
        validation,
        seen,
        Recipe(steps=200, batch_size=256, lr=0.03, warmup=10, validate_every=50),
    )
    assert result.seen > before[0] + 3
    assert result.unseen > before[1] + 3
    assert (result.seen, result.unseen) == seen_unseen(model, validation, entities, seen)
    assert model.weights.image_image > 2 * abs(model.weights.image_text)


def test_fusion_learns_the_seen(split):
    entities, train, validation, seen = split
    torch.manual_seed(0)
    model = ClipFusion(16, width=32, heads=4)
    looks = []
    recipe = Recipe(steps=60, batch_size=256, lr=4e-3, warmup=10, validate_every=20)
    result = train_dual(model, train, entities, validation, seen, recipe, lambda *look: looks.append(look))
    assert [look[0] for look in looks] == [20, 40, 60]
    assert result.seen > 30
    assert result.harmonic == pytest.approx(max(look[3] for look in looks))


def test_adafactor_learns_by_steps_in_proportion_to_the_parameters(split):
    entities, train, validation, seen = split
    torch.manual_seed(0)
    model = ClipFusion(16, width=32, heads=4)
    recipe = Recipe(steps=60, batch_size=256, lr=0.05, warmup=10, validate_every=20, optimiser="adafactor")
    result = train_dual(model, train, entities, validation, seen, recipe)
    assert result.seen > 30
    large, small = torch.nn.Parameter(torch.full((4, 4), 100.0)), torch.nn.Parameter(torch.full((4, 4), 1.0))
    optimiser = make_optimiser("adafactor", [large, small], 0.01)
    (large.sum() + small.sum()).backward()
    optimiser.step()
    moved = [100.0 - large[0, 0].item(), 1.0 - small[0, 0].item()]
    assert moved == pytest.approx([1.0, 0.01], rel=0.01)


def test_training_stops_early_keeps_the_best_and_repeats(split):
    entities, train, validation, seen = split
    results = []
    for _ in range(2):
        torch.manual_seed(1)
        model = Clip2ClipModule(Weights(0.01, 0.01, 1.0, 0.4))
        # A rate that destroys the weights: what came is kept.
        results.append(
            train_dual(
                model,
                train,
                entities,
                validation,
                seen,
                Recipe(steps=50, lr=50.0, warmup=0, validate_every=1, patience=3),
            )
        )
        assert model.weights == pytest.approx(Weights(0.01, 0.01, 1.0, 0.4))
    assert results[0] == results[1]
    assert (results[0].step, results[0].steps) == (0, 3)


def test_modules_are_trained_through(split):
    entities, train, validation, seen = split
    tower = torch.nn.Linear(16, 16)
    before = tower.weight.detach().clone()
    model = Clip2ClipModule(query_image=tower, entity_image=tower)
    train_dual(
        model,
        train,
        entities,
        validation,
        seen,
        Recipe(steps=3, batch_size=64, lr=1e-2, warmup=0, validate_every=1, patience=9),
    )
    assert "query_image.weight" in model.state_dict()
    train_more = Recipe(steps=30, batch_size=64, lr=1e-2, warmup=0, validate_every=30)
    train_dual(model, train, entities, validation, seen, train_more)
    assert not torch.equal(before, tower.weight)


def test_what_cannot_be_trained_is_refused(split):
    entities, train, validation, seen = split
    with pytest.raises(ValueError, match="steps: expected above 0, got 0"):
        Recipe(steps=0)
    with pytest.raises(ValueError, match="warmup: expected at least 0, got -1"):
        Recipe(warmup=-1)
    with pytest.raises(ValueError, match="got one kind only"):
        train_dual(Clip2ClipModule(), train, entities, validation, torch.ones_like(seen), Recipe())
    with pytest.raises(ValueError, match="at least two questions, got 1"):
        train_dual(Clip2ClipModule(), part(train, slice(1)), entities, validation, seen, Recipe())
    with pytest.raises(ValueError, match="heads: expected a divisor of the width 16, got 3"):
        ClipFusion(8, width=16, heads=3)
    broken = Questions(train.image * float("nan"), train.text, train.truth)
    with pytest.raises(ValueError, match="loss: nan at step 1"):
        train_dual(Clip2ClipModule(), broken, entities, validation, seen, Recipe())
