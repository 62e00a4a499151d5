"""The patch adaptor: its formula, its negatives, and a world in which only the place that is asked for answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("jaxtyping")

from oven_retrieval.models import Weights  # noqa: E402
from oven_retrieval.models.adaptor import PatchAdaptor, PatchAttention, fit_patch_map, nearest_other, pack  # noqa: E402
from oven_retrieval.models.contrastive import contrastive_loss, seen_unseen, train_dual  # noqa: E402
from oven_retrieval.models.dual import Clip2ClipModule  # noqa: E402
from oven_retrieval.models.recipe import Entities, Questions, Recipe  # noqa: E402
from oven_retrieval.models.towers import Tower  # noqa: E402


def slow_look(text, places, key, value, sharpness):
    near = [np.dot(p @ key, text) / np.linalg.norm(p @ key) / np.linalg.norm(text) for p in places]
    share = [math.exp(sharpness * x) for x in near]
    return sum(s / sum(share) * (p @ value) for s, p in zip(share, places, strict=True))


def test_attention_equals_plain_loops():
    rng = np.random.default_rng(0)
    text, places = rng.normal(size=(3, 4)), rng.normal(size=(3, 5, 6))
    look = PatchAttention(torch.from_numpy(rng.normal(size=(6, 4))).float())
    with torch.no_grad():
        look.value.add_(0.3)
    made = look(torch.from_numpy(text).float(), torch.from_numpy(places).float()).detach().numpy()
    key, value = look.key.detach().numpy(), look.value.detach().numpy()
    for i in range(3):
        np.testing.assert_allclose(made[i], slow_look(text[i], places[i], key, value, 20.0), atol=1e-5)
    assert not look(torch.ones(2, 4), torch.zeros(2, 5, 6)).any()


def test_closed_gates_are_clip2clip_and_no_picture_changes_nothing():
    rng = torch.Generator().manual_seed(0)
    pooled, places, text = (torch.randn(*shape, generator=rng) for shape in ((6, 4), (6, 3, 5), (6, 4)))
    weights = Weights(0.7, -0.2, 0.5, 0.1)
    model = PatchAdaptor(4, 3, torch.randn(5, 4, generator=rng), weights)
    plain = Clip2ClipModule(weights)
    packed = pack(pooled, places)
    torch.testing.assert_close(model(packed, text, packed, text), plain(pooled, text, pooled, text))
    with torch.no_grad():
        model.gates.fill_(0.8)
    assert not torch.allclose(model.query(packed, text), plain.query(pooled, text))
    nothing = pack(pooled, torch.zeros_like(places))
    torch.testing.assert_close(model.entity(nothing, text), plain.entity(pooled, text))


def test_the_loss_has_one_synthesised_negative_a_question():
    rng = torch.Generator().manual_seed(1)
    image, own = (pack(torch.randn(5, 4, generator=rng), torch.randn(5, 3, 4, generator=rng)) for _ in range(2))
    text, names = torch.randn(5, 4, generator=rng), torch.randn(5, 4, generator=rng)
    truth = torch.tensor([0, 1, 1, 2, 3])
    names[2] = names[1]
    model = PatchAdaptor(4, 3, torch.eye(4), Weights(1.0, 0.5, 0.3, 0.2))
    with torch.no_grad():
        model.gates.fill_(0.5)
    other = nearest_other(names, truth)
    cosine = torch.nn.functional.normalize(names, dim=-1) @ torch.nn.functional.normalize(names, dim=-1).T
    for i in range(5):
        assert truth[other[i]] != truth[i]
        assert cosine[i, other[i]] == max(cosine[i, j] for j in range(5) if truth[j] != truth[i])
    extra = 0.0
    for i in range(5):
        query = model.query(image[i : i + 1], text[i : i + 1])
        right = model.entity(own[i : i + 1], names[i : i + 1])
        entity = model.entity(own[i : i + 1], names[other[i] : other[i] + 1])
        gap = float((model.log_scale.exp() * (query @ entity.T - query @ right.T)).detach())
        extra += math.log1p(math.exp(gap)) / 5
    expected = float(contrastive_loss(model(image, text, own, names), truth).detach()) + extra
    assert model.loss(image, text, own, names, truth).item() == pytest.approx(expected, rel=1e-5)
    values = torch.zeros(5, dtype=torch.int64)
    assert model.loss(image, text, own, names, values).item() == pytest.approx(0.0, abs=1e-6)


def test_the_place_that_is_asked_for_is_found():
    """Two things in each picture, the text asks for one: pooled features mix both, the patches tell them apart."""
    generator = torch.Generator().manual_seed(2)
    kinds, colours, dim = 4, 8, 16
    kind, colour = torch.randn(kinds, dim, generator=generator), torch.randn(colours, dim, generator=generator)
    entities = [(k, c) for k in range(kinds) for c in range(colours)]
    names = torch.stack([kind[k] + colour[c] for k, c in entities])
    nothing = pack(torch.zeros(len(names), dim), torch.zeros(len(names), 4, dim))
    nothing[:, 0] = 1.0

    def questions(chosen, count):
        images, texts, truth = [], [], []
        for entity in chosen * count:
            k, c = entities[entity]
            other = (int(torch.randint(kinds - 1, (1,), generator=generator)) + k + 1) % kinds
            second = kind[other] + colour[int(torch.randint(colours, (1,), generator=generator))]
            places = torch.stack([kind[k] + colour[c], second, 0.1 * torch.ones(dim), 0.1 * torch.ones(dim)])
            images.append(pack(places.mean(dim=0)[None], places[None])[0])
            texts.append(kind[k])
            truth.append(entity)
        return Questions(torch.stack(images), torch.stack(texts), torch.tensor(truth))

    seen = [i for i, (_, c) in enumerate(entities) if c < 5]
    unseen = [i for i in range(len(entities)) if i not in seen]
    train = questions(seen, 8)
    checked = questions(seen + unseen, 4)
    is_seen = torch.isin(checked.truth, torch.tensor(seen))
    base = Entities(nothing, names)
    start = fit_patch_map(train.image[:, :dim], train.image[:, dim:].unflatten(1, (4, dim)))
    model = PatchAdaptor(dim, 4, start, Weights(1.0, 0.0, 0.0, 0.2))
    before = seen_unseen(model, checked, base, is_seen)
    recipe = Recipe(steps=40, batch_size=64, lr=2e-2, warmup=4, validate_every=10, patience=9)
    train_dual(model, train, base, checked, is_seen, recipe)
    after = seen_unseen(model, checked, base, is_seen)
    assert min(a - b for a, b in zip(after, before, strict=True)) > 15
    assert float(model.gates[0].detach()) > 0.1


def test_a_tower_without_patches_says_so():
    tower = Tower(torch.nn.Linear(1, 1), lambda batch: batch)
    with pytest.raises(ValueError, match="an adaptor needs an encoder that shows patch features"):
        tower.patches(torch.ones(1, 3, 2, 2))
    shown = Tower(tower.module, lambda batch: batch, lambda batch: torch.ones(len(batch), 4, 2))
    patches = shown.patches(torch.stack([torch.zeros(3, 2, 2), torch.ones(3, 2, 2)]))
    assert patches.sum(dim=(1, 2)).tolist() == [0.0, 8.0]
