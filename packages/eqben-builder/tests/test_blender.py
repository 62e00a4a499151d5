"""Blender's engine: how it is found and spoken to, and, where there is one, whether it draws what Mitsuba draws."""

from __future__ import annotations

import pickle
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from eqben_builder.build import build, verify
from eqben_builder.building.lock import LOCK
from eqben_builder.engines import blender_engine, meshes
from eqben_builder.engines.blender_engine import BlenderEngine, BlenderMissingError, find_blender
from eqben_builder.engines.workspace import Workspace
from eqben_builder.kubric import FloorScene, KubricBuilder, Stage, Thing

BALL = Thing("sphere", "red", "large", "rubber", -0.9, 0.2)
BOX = Thing("cube", "cyan", "small", "rubber", 0.5, -0.6, 0.3)
VASE = Thing("vase", "yellow", "large", "metal", 0.9, 0.9)
RING = Thing("ring", "green", "large", "glass", -0.2, -1.0, 0.5)
SCENE = FloorScene((BALL, BOX, VASE, RING), Stage("tiles", (0.5, 0.45, 0.4)))
RECOLOURED = FloorScene((BALL, replace(BOX, colour="yellow"), VASE, RING), SCENE.stage)

# In Blender's place: a grey picture, and each object on a band of its own.
STAND_IN = """
import json, sys
import numpy as np
from PIL import Image
print("Blender 9.9 (hash 0123)", flush=True)
print(json.dumps({"ready": "9.9"}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    if order["seed"] == 13:
        print(json.dumps({"error": "ValueError: no such light"}), flush=True)
        continue
    if order["seed"] == 14:
        sys.exit("out of memory")
    if order["seed"] == 15:
        import time
        time.sleep(60)
    if order["seed"] == 16:
        while True:
            print("Fra:1 Mem:12M " * 1000, flush=True)
    if order["seed"] == 17:
        print(json.dumps({"done": 1})[:-1] + "x", flush=True)
    print("Fra:1 Mem:12M", flush=True)
    for thing in order["things"]:
        assert np.load(thing["mesh"])["faces"].shape[1] == 3
    size = order["size"]
    Image.new("RGB", (size, size), (order["samples"], 9, len(order["things"]))).save(order["picture"])
    seen = np.repeat(np.arange(size) * len(order["things"]) // size, size).reshape(size, size)
    np.save(order["seen"], seen.astype(np.int16))
    print(json.dumps({"done": 0.1}), flush=True)
"""


@pytest.fixture
def stand_in(tmp_path):
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    program = tmp_path / "blender"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "stand_in.py"}"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def engine():
    try:
        return BlenderEngine()
    except BlenderMissingError as error:
        pytest.skip(str(error))


def test_what_is_sent_and_what_comes_back(stand_in):
    engine = BlenderEngine(blender=stand_in, samples=7)
    assert engine.versions() == {"blender": "9.9"}
    drawn = engine.draw((SCENE, FloorScene((BALL,), SCENE.stage)), 32, 3)
    assert [image[5, 5].tolist() for image in drawn.images] == [[7, 9, 4], [7, 9, 1]]
    assert drawn.seen[0][[0, 8, 16, 24], 4].tolist() == [0, 1, 2, 3]
    assert drawn.notes == {"samples": 7, "denoised": True}
    copied = pickle.loads(pickle.dumps(engine))
    assert copied.draw((SCENE, SCENE), 16, 3).images[0].shape == (16, 16, 3)
    assert engine.parameters() == copied.parameters()
    process, folder = engine._running.process, engine._running.folder
    del engine
    assert process.poll() is not None
    assert not folder.exists()


def test_an_error_is_told_and_a_death_too(stand_in):
    engine = BlenderEngine(blender=stand_in)
    with pytest.raises(RuntimeError, match="Blender cannot render the scene: ValueError: no such light"):
        engine.draw((SCENE, SCENE), 32, 13)
    engine.draw((SCENE, SCENE), 32, 1)
    with pytest.raises(RuntimeError, match="Blender cannot render the scene: it ended with status 1: out of memory"):
        engine.draw((SCENE, SCENE), 32, 14)


@pytest.mark.parametrize(
    ("seed", "why"),
    [(15, "no answer within 0.5 s"), (16, "bytes and gave no answer"), (17, "it answered no JSON")],
)
def test_a_silent_or_babbling_blender_is_ended_and_leaves_nothing(stand_in, seed, why):
    engine = BlenderEngine(blender=stand_in)
    engine.versions()
    running = engine._running
    if seed == 15:  # the one that waits; the others end as soon as they are read
        running._worker.deadline = 0.5
    with pytest.raises(RuntimeError, match=f"Blender cannot render the scene: .*{why}.*; it was ended") as caught:
        engine.draw((SCENE, SCENE), 32, seed)
    assert "\n" not in str(caught.value)
    process, folder = running.process, running.folder
    assert process.poll() is not None
    del running, caught
    assert not folder.exists()
    assert engine.draw((SCENE, SCENE), 16, 1).images[0].shape == (16, 16, 3)


def test_folders_of_killed_engines_are_cleared_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "eqben-work-old"
    left.mkdir()
    (left / LOCK).write_text("{}")
    held = Workspace()
    space = Workspace()
    assert not left.exists()
    assert held.folder.exists()
    assert space.folder.exists()


def test_no_blender_and_one_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(blender_engine.VARIABLE, raising=False)
    monkeypatch.setattr(blender_engine, "find_spec", lambda name: None)
    with pytest.raises(BlenderMissingError, match="`blender` is on the path, or set EQBEN_BLENDER"):
        KubricBuilder(engine="blender")
    monkeypatch.setenv(blender_engine.VARIABLE, "nowhere/blender")
    with pytest.raises(BlenderMissingError, match="nowhere/blender is no program"):
        KubricBuilder(engine="blender")
    monkeypatch.setenv(blender_engine.VARIABLE, "")
    monkeypatch.setattr(blender_engine, "find_spec", lambda name: object())
    assert find_blender()[0] == sys.executable
    with pytest.raises(ValueError, match="samples = 0"):
        BlenderEngine(samples=0)


@pytest.mark.skipif(find_spec("bpy") is not None, reason="this Python has bpy")
def test_a_python_without_bpy_is_named():
    with pytest.raises(BlenderMissingError, match=r"cannot be used as Blender: .*No module named"):
        BlenderEngine(blender=sys.executable).versions()


def test_it_draws_what_mitsuba_draws(engine):
    pytest.importorskip("mitsuba")
    from eqben_builder.engines.mitsuba_engine import MitsubaEngine

    ours, theirs = (one.draw((SCENE, RECOLOURED), 96, 5) for one in (engine, MitsubaEngine(samples=64)))
    for k in (0, 1):
        assert (ours.seen[k] == theirs.seen[k]).mean() > 0.98
        assert ours.images[k].mean((0, 1)) == pytest.approx(theirs.images[k].mean((0, 1)), rel=0.02)
        error = np.mean((ours.images[k].astype(float) - theirs.images[k]) ** 2)
        assert 10 * np.log10(255**2 / error) > 25


def test_a_change_of_colour_stays_where_it_is(engine):
    drawn = engine.draw((SCENE, RECOLOURED), 96, 5)
    moved = np.abs(drawn.images[0].astype(int) - drawn.images[1]).max(axis=-1) > 10
    inside = drawn.seen[0] == 1
    near = sum(np.roll(inside, (i, j), (0, 1)) for i in (-2, 0, 2) for j in (-2, 0, 2)) > 0
    assert moved[inside].mean() > 0.9
    assert moved[~near].mean() < 0.01


def test_a_build_is_the_same_with_two_workers_and_verified(engine, tmp_path):
    made = [build(KubricBuilder(engine="blender", size=64), tmp_path / str(w), pairs=2, workers=w) for w in (1, 2)]
    assert made[0]["hash"] == made[1]["hash"]
    found = verify(tmp_path / "2")
    assert (found.certified, found.failures) == (6, ())


def test_objects_of_a_folder(engine, tmp_path):
    square = "v 0 0 0\nv 2 0 0\nv 0 2 0\nv 0 0 3\nvt 0 0\nvt 1 0\nvt 0 1\n"
    faces = "f 1/1 3/3 2/2\nf 1/1 2/2 4/3\nf 1/1 4/3 3/2\nf 2/1 3/2 4/3\n"
    (tmp_path / "toy_car.obj").write_text(square + faces)
    Image.new("RGB", (8, 8), (200, 30, 30)).save(tmp_path / "toy_car.png")
    (tmp_path / "box.ply").write_bytes(meshes.ply(meshes.bundled_mesh("cube")))
    own = BlenderEngine(meshes=tmp_path)
    car, box = Thing("toy car", "", "large", "", -0.7, 0.0), Thing("box", "blue", "large", "rubber", 0.7, 0.0)
    drawn = own.draw((FloorScene((car, box)),) * 2, 64, 0)
    red, blue = (drawn.images[0][drawn.seen[0] == k].mean(axis=0) for k in (0, 1))
    assert red[0] > 1.5 * red[1]
    assert blue[2] > 1.5 * blue[0]
    bundled = engine.draw((FloorScene((replace(box, shape="cube"),)),) * 2, 64, 0)
    alone = own.draw((FloorScene((box,)),) * 2, 64, 0)
    assert np.abs(bundled.images[0].astype(int) - alone.images[0]).mean() < 3
    (tmp_path / "bad.ply").write_bytes(b"ply\nnothing")
    with pytest.raises(RuntimeError, match=r"bad\.ply is no mesh that Blender reads: .*No end_header"):
        BlenderEngine(meshes=tmp_path).draw((FloorScene((replace(box, shape="bad"),)),) * 2, 64, 0)
