from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from eqben_builder.engines import meshes
from eqben_builder.engines.meshes import assets_digest, read_assets
from eqben_builder.engines.mitsuba_engine import floor_texture
from eqben_builder.engines.scene import FLOORS, FloorScene, Stage, Thing, outline
from eqben_builder.kubric import KubricBuilder

BALL = Thing("sphere", "red", "large", "rubber", -0.7, 0.0)
BOX = Thing("cube", "cyan", "small", "rubber", 0.6, 0.4, 0.3)
SCENE = FloorScene((BALL, BOX), Stage("tiles", (0.5, 0.45, 0.4)))
RECOLOURED = FloorScene((BALL, replace(BOX, colour="yellow")), SCENE.stage)


@pytest.fixture(scope="module")
def engine():
    pytest.importorskip("mitsuba")
    from eqben_builder.engines.denoise import DenoiserMissingError
    from eqben_builder.engines.mitsuba_engine import MitsubaEngine

    try:
        return MitsubaEngine()
    except DenoiserMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("noun", meshes.BUNDLED)
def test_bundled_objects_stand_on_the_floor_and_face_outwards(noun):
    mesh = meshes.bundled_mesh(noun)
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    assert abs(low[2]) < 1e-6
    assert np.allclose(low[:2] + high[:2], 0, atol=1e-5)
    assert np.linalg.norm(high - low) == pytest.approx(2, rel=1e-5)
    corners = mesh.vertices.astype(np.float64)[mesh.faces]
    # The divergence theorem: a closed surface that faces outwards encloses a positive volume.
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    assert 0.01 < volume < 4 * math.pi / 3
    assert (mesh.faces >= 0).all()
    assert (mesh.faces < len(mesh.vertices)).all()


def test_volumes_of_solids_are_those_of_the_formula():
    def volume(mesh):
        corners = mesh.vertices.astype(np.float64)[mesh.faces]
        return np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6

    side = 2 / math.sqrt(3)
    assert volume(meshes.bundled_mesh("cube")) == pytest.approx(side**3, rel=1e-5)
    ball = meshes.bundled_mesh("sphere")
    radius = float(np.ptp(ball.vertices[:, 2])) / 2
    assert volume(ball) == pytest.approx(4 / 3 * math.pi * radius**3, rel=0.01)


def test_an_unknown_object_and_an_unknown_floor_are_named():
    with pytest.raises(ValueError, match="object 'dog' is not one of sphere"):
        meshes.bundled_mesh("dog")
    with pytest.raises(ValueError, match="floor 'lava'"):
        floor_texture("lava", (0.5, 0.5, 0.5))
    for kind in FLOORS[1:]:
        assert floor_texture(kind, (0.4, 0.5, 0.6)).mean(axis=(0, 1)) == pytest.approx((0.4, 0.5, 0.6), rel=0.1)


OBJ = """
v 0 0 0
v 2 0 0
v 0 2 0
v 0 0 3
vt 0 0
vt 1 0
vt 0 1
f 1/1 3/3 2/2
f 1/1 2/2 4/3
f 1/1 4/3 3/2
f 2/1 3/2 4/3
"""


@pytest.fixture
def folder(tmp_path):
    car = tmp_path / "Toy_Car_42"
    (car / "meshes").mkdir(parents=True)
    (car / "materials" / "textures").mkdir(parents=True)
    (car / "meshes" / "model.obj").write_text(OBJ)
    Image.new("RGB", (8, 8), (200, 30, 30)).save(car / "materials" / "textures" / "texture.png")
    (tmp_path / "BlueBox.ply").write_bytes(meshes.ply(meshes.bundled_mesh("cube")))
    return tmp_path


def test_objects_of_a_folder_are_called_after_it(folder):
    assert [(asset.noun, asset.mesh.name, asset.texture is not None) for asset in read_assets(folder)] == [
        ("blue box", "BlueBox.ply", False),
        ("toy car", "model.obj", True),
    ]
    before = assets_digest(read_assets(folder))
    assert assets_digest(read_assets(folder)) == before
    (folder / "Toy_Car_42" / "meshes" / "model.obj").write_text(OBJ.replace("v 0 0 3", "v 0 0 4"))
    assert assets_digest(read_assets(folder)) != before


def test_folders_that_do_not_do_are_refused(folder, tmp_path):
    (folder / "blue_box.obj").write_text(OBJ)
    with pytest.raises(ValueError, match="are both called 'blue box'"):
        read_assets(folder)
    (folder / "blue_box.obj").rename(folder / "77.obj")
    with pytest.raises(ValueError, match="no noun can be read from the name '77'"):
        read_assets(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="holds no OBJ or PLY"):
        read_assets(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        read_assets(tmp_path / "nowhere")


def test_a_change_of_colour_leaves_the_rest_untouched(engine):
    drawn = engine.draw((SCENE, RECOLOURED), 96, 5)
    assert drawn.notes["untouched_before_denoising"] > 0.8
    inside = drawn.seen[0] == 1
    moved = np.abs(drawn.images[0].astype(int) - drawn.images[1]).max(axis=-1) > 10
    assert moved[inside].mean() > 0.8
    near = sum(np.roll(inside, (i, j), (0, 1)) for i in (-2, 0, 2) for j in (-2, 0, 2)) > 0
    assert moved[~near].mean() < 0.01
    other = engine.draw((SCENE, SCENE), 96, 6)
    assert np.array_equal(*other.images)
    assert not np.array_equal(other.images[0], drawn.images[0])


def test_a_glass_mug_has_its_colour_throughout(engine):
    """Its body is seen through four sheets: with too few bounces it was dark grey, and its colour at the rim alone."""
    mugs = [Thing("mug", colour, "large", "glass", 0.0, 0.0) for colour in ("white", "yellow")]
    drawn = engine.draw([FloorScene((mug,), SCENE.stage) for mug in mugs], 96, 5)
    white, yellow = (drawn.images[k][drawn.seen[k] == 0].astype(float) for k in (0, 1))
    floor = drawn.images[0][drawn.seen[0] == -1].mean()
    assert np.percentile(white.mean(axis=1), 10) > 0.6 * floor
    assert np.percentile(yellow[:, 0] - yellow[:, 2], 25) > 30


def test_objects_are_seen_where_the_graph_says(engine):
    drawn = engine.draw((SCENE, SCENE), 96, 5)
    for k, thing in enumerate(SCENE.things):
        rows, columns = np.nonzero(drawn.seen[0] == k)
        disc = outline(thing, SCENE.stage)
        assert abs((columns.min() + columns.max() + 1) / 192 - disc.x) < 0.03
        assert abs((rows.min() + rows.max() + 1) / 192 - disc.y) < 0.06
        assert (np.ptp(columns) + 1) / 192 <= disc.radius * 1.05
    red = drawn.images[0][drawn.seen[0] == 0].mean(axis=0)
    assert red[0] > 2 * red[1]


def test_the_denoiser_comes_nearer_to_the_truth(engine):
    from eqben_builder.engines.mitsuba_engine import MitsubaEngine

    truth, noisy, clean = (
        MitsubaEngine(samples=samples, denoise=denoise).draw((SCENE, SCENE), 64, 1).images[0].astype(float)
        for samples, denoise in ((256, False), (16, False), (16, True))
    )
    assert np.mean((clean - truth) ** 2) < 0.5 * np.mean((noisy - truth) ** 2)


_ONE = """
import sys, hashlib
from eqben_builder.kubric import KubricBuilder
if __name__ == "__main__":
    made = KubricBuilder(size=64, seed=4).make(int(sys.argv[1]))
    print(hashlib.sha256(b"".join(image.tobytes() for image in made.images)).hexdigest())
"""


def test_another_process_gives_the_same_bytes(engine, tmp_path):
    import hashlib

    pair = KubricBuilder(size=64, seed=4).make(1)
    script = tmp_path / "one.py"
    script.write_text(_ONE)
    digest = subprocess.run([sys.executable, script, "1"], capture_output=True, text=True, check=True).stdout.strip()
    assert digest == hashlib.sha256(b"".join(image.tobytes() for image in pair.images)).hexdigest()


def test_objects_of_a_folder_are_rendered(engine, folder):
    builder = KubricBuilder(size=64, meshes=folder, aspects=["location"], seed=1)
    assert builder.choices.textured == {"toy car"}
    pair = next(pair for pair in map(builder.make, range(20)) if hasattr(pair, "images"))
    assert {thing["shape"] for thing in pair.source["scene0"]["things"]} <= {"toy car", "blue box"}
    car = Thing("toy car", "", "large", "", 0.0, 0.0)
    drawn = builder.engine.draw((FloorScene((car,)), FloorScene((car,))), 64, 0)
    red = drawn.images[0][drawn.seen[0] == 0].mean(axis=0)
    assert red[0] > 1.5 * red[1]
    assert builder.engine.draw((FloorScene((replace(car, size="small", x=9.0),)),) * 2, 64, 0) == "an object is hidden"


def test_a_mesh_that_is_none_is_named(engine, tmp_path):
    (tmp_path / "bad.ply").write_bytes(b"ply\nnothing")
    builder = KubricBuilder(size=64, meshes=tmp_path, aspects=["counting"])
    with pytest.raises(ValueError, match=r"bad\.ply is no mesh that Mitsuba reads"):
        builder.make(0)


def test_a_missing_extra_is_named(monkeypatch):
    from eqben_builder.engines import denoise, mitsuba_engine

    def cleared():
        mitsuba_engine._mitsuba.cache_clear()
        denoise._library.cache_clear()

    cleared()
    monkeypatch.setitem(sys.modules, "oidn", None)
    with pytest.raises(
        ImportError, match=r"Open Image Denoise is not installed: pip install 'eqben-builder\[mitsuba\]'"
    ):
        denoise.Denoiser(16, 16)
    if importlib.util.find_spec("mitsuba"):
        with pytest.raises(ImportError, match=r"eqben-builder\[mitsuba\]'\. Or render without it .*--no-denoise"):
            KubricBuilder()
    cleared()
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    with pytest.raises(ImportError, match=r"Mitsuba is not installed: pip install 'eqben-builder\[mitsuba\]'"):
        KubricBuilder()
    monkeypatch.undo()
    cleared()


def test_no_file_of_a_mesh_is_left(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine.draw((SCENE, RECOLOURED), 64, 5)
    assert not list(tmp_path.iterdir())


def test_samples_out_of_range_are_refused(engine):
    with pytest.raises(ValueError, match="samples = 0"):
        KubricBuilder(samples=0)
    assert (engine.samples, type(engine)(denoise=False).samples) == (12, 256)
