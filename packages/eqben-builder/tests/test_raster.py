from __future__ import annotations

import math

import numpy as np
import pytest

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, render, sample_scene
from eqben_builder.micro.attributes import RGB
from eqben_builder.micro.scene import AREA, signed_distance


@pytest.mark.parametrize("shape", SHAPES)
def test_inside_agrees_with_the_outline(reference, shape):
    points = np.random.default_rng(0).uniform(-1.1, 1.1, (2000, 2)).astype(np.float32)
    distance = signed_distance(shape, points[:, 0], points[:, 1])
    for (x, y), d in zip(points.tolist(), distance.tolist(), strict=True):
        if abs(d) > 1e-5:
            assert (d < 0) == reference.inside(shape, x, y), (x, y)
    assert np.all(distance[np.hypot(points[:, 0], points[:, 1]) > 1.0] > 0)


@pytest.mark.parametrize("shape", ["square", "triangle", "diamond", "cross", "star"])
def test_area_is_that_of_the_outline(reference, shape):
    assert AREA[shape] == pytest.approx(reference.polygon_area(reference.OUTLINES[shape]), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [33, 64])
def test_coverage_sums_to_the_area(shape, size):
    rng = np.random.default_rng(1)
    for _ in range(20):
        scale = rng.uniform(0.1, 0.25)
        item = Item(shape, "red", "large", "plain", *rng.uniform(0.3, 0.7, 2), scale, rng.uniform(-math.pi, math.pi))
        (mask,) = render([Scene((item,))], size, coverage=True).coverage
        # Corners are blunted by at most half a pixel: the error goes with the outline's corners, not its area.
        assert mask.sum() == pytest.approx(AREA[shape] * (scale * size) ** 2, abs=1.5)


@pytest.mark.parametrize("shape", SHAPES)
def test_edges_are_soft_and_angles_turn_clockwise(shape):
    upright, turned = (
        Scene((Item(shape, "red", "large", "plain", 0.5, 0.5, angle=angle),)) for angle in (0.0, math.pi / 2)
    )
    drawn = render([upright, turned], 65, coverage=True)
    assert np.any((drawn.coverage[0] > 0.2) & (drawn.coverage[0] < 0.8))
    np.testing.assert_allclose(np.rot90(drawn.coverage[0][0], -1), drawn.coverage[1][0], atol=1e-3)


def test_painting_is_alpha_over_in_order_and_masks_say_who_is_seen():
    scene = sample_scene(np.random.default_rng(5), 5, materials=("plain",), max_overlap=0.5)
    drawn = render([scene], 96, coverage=True)
    picture = np.tile(np.float64(scene.background) * 255, (96, 96, 1))
    visible = np.zeros((96, 96), dtype=int)
    for i, item in enumerate(scene.items):
        alpha = drawn.coverage[0][i].astype(np.float64)
        picture = picture * (1 - alpha[..., None]) + alpha[..., None] * 255 * np.float64(RGB[item.colour])
        visible[alpha >= 0.5] = i + 1
    assert np.abs(picture - drawn.images[0]).max() <= 0.51
    assert np.array_equal(visible, drawn.visible[0])
    assert set(np.unique(visible)) == set(range(6))


def test_masks_match_the_pictures():
    # Where a plain item is seen and fully covers, the image has exactly its colour.
    for seed in range(20):
        scene = sample_scene(np.random.default_rng(seed), 3, materials=("plain",))
        drawn = render([scene], 64, coverage=True)
        for i, item in enumerate(scene.items):
            solid = (drawn.visible[0] == i + 1) & (drawn.coverage[0][i] == 1)
            for other in range(i + 1, 3):
                solid &= drawn.coverage[0][other] == 0
            assert solid.any()
            assert np.all(drawn.images[0][solid] == np.rint(255 * np.array(RGB[item.colour], dtype=np.float32)))
        untouched = (drawn.coverage[0] == 0).all(0)
        assert np.all(drawn.images[0][untouched] == np.rint(np.float32(scene.background) * np.float32(255)))


def test_colours_and_materials_look_different():
    values = np.array([RGB[colour] for colour in COLOURS])
    gaps = np.linalg.norm(values[:, None] - values[None], axis=-1)
    assert gaps[~np.eye(len(values), dtype=bool)].min() >= 0.3
    for size in ("small", "large"):
        items = [Scene((Item("heart", "pink", size, material, 0.5, 0.5),)) for material in MATERIALS]
        pictures = render(items).images.astype(float)
        mask = render(items).visible[0] == 1
        for i in range(len(MATERIALS)):
            for j in range(i):
                assert np.abs(pictures[i][mask] - pictures[j][mask]).mean() > 8


def test_a_scene_does_not_depend_on_what_is_drawn_beside_it():
    scenes = [sample_scene(np.random.default_rng(k), (0, 6)) for k in range(17)]
    rendered = render(scenes, 64)
    for k in (0, 8, 16):
        alone = render([scenes[k]], 64)
        assert alone.images.tobytes() == rendered.images[k].tobytes()
        assert alone.visible.tobytes() == rendered.visible[k].tobytes()


def test_items_may_leave_the_picture_and_a_list_may_be_empty():
    scene = Scene(
        (Item("circle", "red", "large", "plain", 0.0, 1.0), Item("ring", "blue", "large", "dotted", 1.0, 0.4))
    )
    drawn = render([scene], 40, coverage=True)
    assert drawn.visible[0, 39, 0] == 1
    assert drawn.coverage[0].sum() < (AREA["circle"] + AREA["ring"]) * (0.2 * 40) ** 2
    assert render([], 64).images.shape == (0, 64, 64, 3)


def test_sizes_and_crowds_out_of_range_are_refused():
    with pytest.raises(ValueError, match="size = 4"):
        render([], 4)
    item = Item("circle", "red", "small", "plain", 0.5, 0.5)
    with pytest.raises(ValueError, match="scene 1 has 128 items"):
        render([Scene(()), Scene((item,) * 128)])
