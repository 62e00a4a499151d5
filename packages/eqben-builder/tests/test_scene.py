from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, SIZES, Item, Scene, render, sample_scene, scene_at
from eqben_builder.micro.scene import shared_area, spatial_relation

UNIT = st.floats(0, 1, allow_nan=False)
ITEMS = st.builds(
    Item,
    st.sampled_from(SHAPES),
    st.sampled_from(COLOURS),
    st.sampled_from(SIZES),
    st.sampled_from(MATERIALS),
    UNIT,
    UNIT,
    st.none() | st.floats(0.02, 0.4),
    st.floats(-7, 7),
)
SCENES = st.builds(Scene, st.lists(ITEMS, max_size=4).map(tuple), st.tuples(UNIT, UNIT, UNIT))


@settings(deadline=None, max_examples=60)
@given(SCENES)
def test_graphs_survive_json(scene):
    assert Scene.from_dict(json.loads(json.dumps(scene.to_dict()))) == scene


@settings(deadline=None, max_examples=60)
@given(SCENES)
def test_relations_come_in_inverse_pairs(scene):
    relations = {tuple(relation) for relation in scene.relations()}
    inverse = {"left of": "right of", "above": "below", "in front of": "behind"}
    inverse |= {value: key for key, value in inverse.items()}
    assert {(j, inverse[name], i) for i, name, j in relations} == relations


def test_a_broken_graph_is_refused_by_item_and_field():
    graph = Scene((Item("star", "red", "small", "plain", 0.2, 0.5), Item("ring", "blue", "small", "plain", 0.8, 0.5)))
    good = graph.to_dict()
    for change, message in [
        (lambda g: g["items"][1].pop("colour"), r"items\[1\]: missing fields \['colour'\]"),
        (lambda g: g["items"][0].update(shape="blob"), r"items\[0\]: shape 'blob'"),
        (lambda g: g["items"][0].update(x=1.5), r"items\[0\]: x = 1.5"),
        (lambda g: g["items"][0].update(weight=1), r"unknown fields \['weight'\]"),
        (lambda g: g.pop("background"), "field 'background' should be three numbers"),
        (lambda g: g.update(background=[0, 0, 2]), "background = "),
        (lambda g: g["relations"].pop(), "field 'relations' is not what follows"),
    ]:
        broken = json.loads(json.dumps(good))
        change(broken)
        with pytest.raises(ValueError, match=message):
            Scene.from_dict(broken)


@pytest.mark.parametrize(
    ("field", "value"), [("scale", 0.0), ("scale", 1.5), ("angle", float("nan")), ("y", float("nan"))]
)
def test_items_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        Item(
            **{"shape": "star", "colour": "red", "size": "small", "material": "plain", "x": 0.5, "y": 0.5, field: value}
        )


def test_spatial_relations_need_a_dominant_axis():
    def at(x, y):
        return Item("star", "red", "small", "plain", x, y)

    centre = at(0.5, 0.5)
    assert spatial_relation(at(0.2, 0.55), centre) == "left of"
    assert spatial_relation(at(0.8, 0.45), centre) == "right of"
    assert spatial_relation(at(0.5, 0.1), centre) == "above"
    assert spatial_relation(at(0.45, 0.9), centre) == "below"
    assert spatial_relation(at(0.3, 0.3), centre) is None
    assert spatial_relation(at(0.52, 0.5), centre) is None


def test_shared_area_agrees_with_the_drawn_masks():
    overlapping = 0
    for seed in range(60):
        scene = sample_scene(np.random.default_rng(seed), 2, max_overlap=0.6)
        (masks,) = render([scene], 256, coverage=True).coverage
        drawn = np.minimum(masks[0], masks[1]).sum() / min(masks[0].sum(), masks[1].sum())
        assert shared_area(*scene.items) == pytest.approx(drawn, abs=0.03)
        overlapping += drawn > 0.1
    assert overlapping > 5


def test_in_front_means_that_something_is_hidden():
    for seed in range(60):
        scene = sample_scene(np.random.default_rng(seed), 3, max_overlap=0.5)
        drawn = render([scene], 128, coverage=True)
        for near, relation, far in scene.relations():
            if relation == "in front of":
                assert near > far
                hidden = (drawn.coverage[0][far] > 0.5) & (drawn.coverage[0][near] > 0.5)
                assert hidden.any()
                assert not np.any(drawn.visible[0][hidden] == far + 1)


def test_samples_are_uniform_inside_and_apart():
    scenes = [scene_at(7, k, (1, 4), max_overlap=0.0) for k in range(1500)]
    items = [item for scene in scenes for item in scene.items]
    for field, values in {"shape": SHAPES, "colour": COLOURS, "size": SIZES, "material": MATERIALS}.items():
        counts = [sum(getattr(item, field) == value for item in items) for value in values]
        assert max(abs(count / len(items) * len(values) - 1) for count in counts) < 0.2
    counts = np.bincount([len(scene.items) for scene in scenes], minlength=5)
    assert counts[0] == 0
    assert counts[1:].min() > 300
    for scene in scenes:
        for i, a in enumerate(scene.items):
            assert min(a.x, a.y, 1 - a.x, 1 - a.y) >= a.radius - 1e-4
            for b in scene.items[:i]:
                assert np.hypot(a.x - b.x, a.y - b.y) >= a.radius + b.radius - 1e-6


def test_a_crowd_shrinks_until_it_fits_and_keeps_small_below_large():
    scene = sample_scene(np.random.default_rng(0), 16, max_overlap=0.0)
    assert len(scene.items) == 16
    small, large = ([item.radius for item in scene.items if item.size == size] for size in ("small", "large"))
    assert max(small) < min(large) < 0.18


def test_bytes_do_not_depend_on_the_number_of_processes():
    sample = partial(scene_at, 11, count=(0, 5))
    scenes = [sample(index) for index in range(24)]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(sample, range(24), chunksize=5)) == scenes
        drawn = list(pool.map(render, [[scene] for scene in scenes], chunksize=5))
    alone = [render([scene]).images.tobytes() for scene in scenes]
    assert [result.images.tobytes() for result in drawn] == alone
    assert len(set(alone)) == 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 17}, "count = 17"),
        ({"count": (3, 2)}, r"count = \(3, 2\)"),
        ({"count": 1, "max_overlap": 1.5}, "max_overlap = 1.5"),
        ({"count": 1, "shapes": ()}, r"shapes = \[\]"),
        ({"count": 1, "colours": ("red", "mauve")}, "mauve"),
    ],
)
def test_wrong_choices_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_scene(np.random.default_rng(0), **arguments)
