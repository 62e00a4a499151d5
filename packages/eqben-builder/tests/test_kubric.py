from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.engines.raster_engine import RasterEngine
from eqben_builder.engines.scene import FloorScene, Stage, Thing, outline, scene_changes
from eqben_builder.kubric import ASPECTS, KubricBuilder
from eqben_builder.kubric.pairs import Choices, check_pair, parse, plural, scene_pair
from eqben_builder.micro import generator_at
from eqben_builder.micro.minimal import Difference, Pair

CUBE = Thing("cube", "red", "small", "rubber", -1.0, 0.1, 0.2)
VASE = Thing("vase", "blue", "large", "metal", 1.0, 0.0, 0.0)
SCENE = FloorScene((CUBE, VASE))
CHOICES = Choices(("cube", "vase", "toy car", "cross"))


def pairs(aspect, n=150, choices=CHOICES):
    return [scene_pair(generator_at(11, k), aspect, choices) for k in range(n)]


@pytest.mark.parametrize("aspect", ASPECTS)
def test_pairs_differ_in_one_thing_and_captions_in_one_run_of_words(aspect):
    for pair in pairs(aspect):
        assert check_pair(pair).kind == pair.kind == aspect
        assert pair.scene0.stage == pair.scene1.stage
        (edit,) = token_edits(pair.caption0, pair.caption1)
        if aspect != "location":
            assert len(edit["from"]) == len(edit["to"]) == 1
        for scene in (pair.scene0, pair.scene1):
            assert FloorScene.from_dict(scene.to_dict()) == scene
            assert all(outline(thing, scene.stage).inside for thing in scene.things)


def test_a_pair_is_checked_once(monkeypatch):
    passed = []

    def counted(pair):
        change = check_pair(pair)
        passed.append(change)
        return change

    for module in ("pairs", "builder"):
        monkeypatch.setattr(f"eqben_builder.kubric.{module}.check_pair", counted)
    result = KubricBuilder(engine=RasterEngine(), seed=11).make(0)
    assert result is not None
    assert len(passed) == 1


def test_what_changes_is_as_the_aspect_says():
    for pair in pairs("attribute"):
        ((a, b),) = [(a, b) for a, b in zip(pair.scene0.things, pair.scene1.things, strict=True) if a != b]
        field = check_pair(pair).field
        assert replace(b, **{field: getattr(a, field)}) == a
    for pair in pairs("counting"):
        more, less = sorted((pair.scene0.things, pair.scene1.things), key=len, reverse=True)
        assert sum((Counter(more) - Counter(less)).values()) == 1
        assert not Counter(less) - Counter(more)
    for pair in pairs("location"):
        (a, b), (c, d) = pair.scene0.things, pair.scene1.things
        assert ((a.x, a.y), (b.x, b.y)) == ((d.x, d.y), (c.x, c.y))
        assert (a.shape, a.colour, a.turn) == (c.shape, c.colour, c.turn)
    fields = Counter(check_pair(pair).field for pair in pairs("attribute", 300))
    assert set(fields) == {"size", "colour", "material"}
    relations = Counter(check_pair(pair).field for pair in pairs("location", 300))
    assert len(relations) == 4
    assert min(relations.values()) > 30


def test_neither_caption_can_be_told_from_its_words_alone():
    for aspect in ASPECTS:
        drawn = pairs(aspect, 500)
        first = Counter(word for pair in drawn for word in set(pair.caption0.split()))
        second = Counter(word for pair in drawn for word in set(pair.caption1.split()))
        for word in first | second:
            assert abs(first[word] - second[word]) <= 4.5 * math.sqrt(first[word] + second[word]), word


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SCENE, []),
        (FloorScene((CUBE, VASE), Stage("tiles")), [("other", "stage", ())]),
        (FloorScene((replace(CUBE, colour="pink"), VASE)), [("attribute", "colour", (0,))]),
        (FloorScene((CUBE, replace(VASE, size="small"))), [("attribute", "size", (1,))]),
        (FloorScene((replace(CUBE, x=-0.9), VASE)), [("other", "x", (0,))]),
        (FloorScene((CUBE,)), [("counting", "removed", (1,))]),
        (FloorScene((CUBE, VASE, replace(CUBE, y=1.0))), [("counting", "added", (2,))]),
        (FloorScene(()), [("other", "2 objects against 0", ())]),
        (
            FloorScene((replace(CUBE, x=1.0, y=0.0), replace(VASE, x=-1.0, y=0.1))),
            [("location", "to the left of", (0, 1))],
        ),
        (
            FloorScene((replace(CUBE, x=1.0, y=0.0, turn=0.3), replace(VASE, x=-1.0, y=0.1))),
            [("other", name, (k,)) for k in (0, 1) for name in ("x", "y")] + [("other", "turn", (0,))],
        ),
    ],
)
def test_changes_are_named(other, expected):
    assert sorted(scene_changes(SCENE, other)) == sorted(Difference(*row) for row in expected)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("There is a red cube on the floor.", True),
        ("There is a small rubber cube and a large blue metal vase on the floor.", True),
        ("There is a cube and a cube on the floor.", False),
        ("There is a large cube on the floor.", False),
        ("There are two cubes on the floor.", False),
        ("The cube is to the left of the vase.", True),
        ("The blue vase is to the right of the small red cube.", True),
        ("The cube is in front of the vase.", False),
    ],
)
def test_captions_are_read_and_checked(text, truth):
    statement = parse(text, ["cube", "vase"])
    assert statement.holds(SCENE) is truth
    assert statement.text() == text


def test_depth_is_read_from_the_camera():
    near, far = replace(CUBE, x=0.0, y=-1.0), replace(VASE, x=0.1, y=1.0)
    assert parse("The cube is in front of the vase.", ["cube", "vase"]).holds(FloorScene((near, far)))
    assert parse("The vase is behind the cube.", ["cube", "vase"]).holds(FloorScene((near, far)))
    assert outline(near, Stage()).y > outline(far, Stage()).y


def test_nouns_of_several_words_and_regular_plurals_are_read():
    assert parse("There are three red toy cars on the floor.", ["car", "toy car"]).phrase.named == (
        ("colour", "red"),
        ("shape", "toy car"),
    )
    assert [plural(noun) for noun in ("box", "dish", "berry", "toy", "glass")] == [
        "boxes", "dishes", "berries", "toys", "glasses",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "a red cube",
        "There is a red dog on the floor.",
        "There is a red large cube on the floor.",
        "There is a shiny cube on the floor.",
        "There are one cubes on the floor.",
        "There are two cube on the floor.",
        "The cube is under the vase.",
    ],
)
def test_what_is_no_caption_is_refused_with_its_words(text):
    with pytest.raises(ValueError, match="caption '"):
        parse(text, ["cube", "vase"])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (Pair(SCENE, SCENE, "The cube is behind the vase.", "x", "location"), "differ in 0 things"),
        (
            Pair(SCENE, FloorScene((CUBE,)), "There is a vase on the floor.", "x", "attribute"),
            "says attribute, its scenes differ in counting",
        ),
        (
            Pair(
                SCENE,
                FloorScene((replace(CUBE, colour="pink"), VASE)),
                "There is a red cube on the floor.",
                "There is a cube on the floor.",
                "attribute",
            ),
            "'There is a cube on the floor.' is true of the other scene too",
        ),
        (
            Pair(
                SCENE,
                FloorScene((replace(CUBE, colour="pink"), VASE)),
                "There is a green cube on the floor.",
                "There is a pink cube on the floor.",
                "attribute",
            ),
            "is false of its own scene",
        ),
    ],
)
def test_a_pair_that_is_not_minimal_is_refused(pair, message):
    with pytest.raises(ValueError, match=message):
        check_pair(pair)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["things"][0].update(colour="mauve"), r"things\[0\]: colour 'mauve' is not one of red"),
        (lambda g: g["things"][1].pop("x"), r"things\[1\]: missing fields \['x'\]"),
        (lambda g: g["things"][1].update(x=float("nan")), r"x = nan is not a finite number"),
        (lambda g: g["things"].append(3), r"things\[2\] should be an object"),
        (lambda g: g["relations"].pop(), "field 'relations' is not what follows"),
        (lambda g: g.pop("things"), "field 'things' should be a list"),
        (lambda g: g.update(stage=None), "stage should be an object"),
    ],
)
def test_a_broken_graph_is_refused_by_field(change, message):
    graph = SCENE.to_dict()
    change(graph)
    with pytest.raises(ValueError, match=message):
        FloorScene.from_dict(graph)


def test_silhouettes_stand_where_the_graph_says():
    drawn = RasterEngine().draw((SCENE_FLAT, SCENE_FLAT), 128, 0)
    assert np.array_equal(drawn.images[0], drawn.images[1])
    for k, thing in enumerate(SCENE_FLAT.things):
        rows, columns = np.nonzero(drawn.seen[0] == k)
        disc = outline(thing, SCENE_FLAT.stage)
        assert abs(columns.mean() / 128 - disc.x) < 0.02
        assert abs(rows.mean() / 128 - disc.y) < 0.03


SCENE_FLAT = FloorScene(
    (replace(CUBE, shape="sphere"), replace(VASE, shape="cube", size="small"), replace(CUBE, y=1.0))
)


def test_an_object_that_is_hidden_is_said():
    behind = replace(CUBE, x=1.0, y=0.3)
    assert RasterEngine().draw((FloorScene((behind, replace(VASE, shape="cube"))),) * 2, 96, 0) == "an object is hidden"


def test_a_made_pair_changes_inside_its_mask_only():
    builder = KubricBuilder(engine="raster", size=96, seed=2)
    for index in range(60):
        pair = builder.make(index)
        if not hasattr(pair, "mask"):
            assert pair.reason
            continue
        pixels = pair.certificate["pixels"]
        assert pixels == pixel_change(*pair.images, pair.mask)
        assert pixels["changed_outside"] == 0
        assert pixels["moved_inside"] >= 0.25
        scenes = [FloorScene.from_dict(pair.source[name]) for name in ("scene0", "scene1")]
        changed = pair.certificate["difference"]["things"]
        largest = max(len(scene.things) for scene in scenes)
        near = np.zeros_like(pair.mask)
        row, column = np.mgrid[0:96, 0:96] + 0.5
        for scene in scenes:
            for k in changed if len(scene.things) == largest else ():
                disc = outline(scene.things[k], scene.stage)
                near |= np.hypot(column - 96 * disc.x, row - 96 * disc.y) < 96 * disc.radius + 4
        assert not (pair.mask & ~near).any()


def test_pixel_shares_are_those_of_the_loop():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)
    b = a.copy()
    b[:3] = np.clip(b[:3].astype(int) + rng.integers(-20, 21, (3, 9, 3)), 0, 255)
    mask = rng.random((7, 9)) < 0.4
    shares = pixel_change(a, b, mask)
    cells = [(i, j) for i in range(7) for j in range(9)]
    apart = {(i, j): max(abs(int(a[i, j, c]) - int(b[i, j, c])) for c in range(3)) for i, j in cells}
    for name, bar in (("changed", 0), ("moved", 10)):
        for where, chosen in (
            ("", cells),
            ("_inside", [c for c in cells if mask[c]]),
            ("_outside", [c for c in cells if not mask[c]]),
        ):
            expected = sum(apart[c] > bar for c in chosen) / len(chosen)
            assert shares[f"{name}{where}"] == round(expected, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "rasta"}, "engine 'rasta' is not one of mitsuba, raster"),
        ({"aspects": ["colour"]}, "aspect 'colour' is not one of attribute"),
        ({"shapes": ["mug"]}, "'mug' is none of the raster engine's"),
        ({"materials": ["glass"]}, "'glass' is none of the raster engine's"),
        ({"colours": ["black"]}, "'black' is none of the raster engine's"),
        ({"fields": ["mood"]}, "'mood' is none of the raster engine's fields: size, colour"),
        ({"size": 8}, "64 to 2048"),
        ({"seed": -1}, "seed = -1"),
        ({"meshes": "somewhere"}, "draws no meshes"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        KubricBuilder(**{"engine": "raster"} | options)


def test_choices_in_which_nothing_can_change_are_refused_at_the_door():
    options = {"engine": "raster", "colours": ["red"], "fields": ["colour"]}
    with pytest.raises(ValueError, match="no attribute can change: of colour red there is one each"):
        KubricBuilder(**options)
    assert KubricBuilder(**options, aspects=["counting"], size=64).make(0).aspect == "counting"


def test_choices_that_give_no_scene_are_a_drop_with_its_reason(monkeypatch):
    from eqben_builder.kubric import pairs

    monkeypatch.setattr(pairs, "ROOM", (0.01, 0.01))
    assert KubricBuilder(engine="raster", aspects=["counting"]).make(0).reason == "these choices give no scene"
