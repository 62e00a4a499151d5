from __future__ import annotations

import io
import json
import pickle
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from eqben_builder.building import Made, build, read_records
from eqben_builder.building.builder import builder_of, certifier_of
from eqben_builder.video.gebc import GebcBuilder, has_action_word
from eqben_builder.video.grounding import ground_gebc
from eqben_builder.video.library import Library, shrunk
from eqben_builder.video.youcook2 import YouCook2Builder, face_detector

from ._clips import reasons, record_of, second, write_clip

# GEBC


def boundary(k, time, previous, following, before="standing", after="sitting", letter="A"):
    return {
        "boundary_id": f"SIbQ1aJ8eLM_{k}{letter}", "timestamp": time, "prev_timestamp": previous,
        "next_timestamp": following, "label": "Change of Action", "subject": "man", "status_before": before,
        "status_after": after, "action_of_cause": None, "caption": "",
    }  # fmt: skip


def chain(changes):
    """Boundaries at seconds 2, 4, 6, ..., with the states of `changes`."""
    return [
        boundary(k, 2.0 * (k + 1), 2.0 * k, 2.0 * (k + 2), before, after) for k, (before, after) in enumerate(changes)
    ]


def write_json(path, content):
    path.write_text(json.dumps(content))
    return path


def test_eq_gebc_skips_a_boundary_and_drops_action_words(tmp_path):
    rows = chain([("standing", "sits"), ("sitting", "reads"), ("reading", "looks up"), ("looking", "eats")])
    rows.insert(1, boundary(0, 2.0, 0.0, 4.0, "another", "annotation", letter="B"))
    annotations = write_json(tmp_path / "val.json", {"SIbQ1aJ8eLM": rows, "alone": chain([("a", "b")])})
    write_clip(tmp_path / "k400" / "SIbQ1aJ8eLM_000010_000020.mp4", 10)
    builder = GebcBuilder(annotations=annotations, videos=tmp_path / "k400")
    assert builder.count == 1
    first, other = builder.make(0)
    assert first.captions == ("man standing", "man reads")
    assert (second(first.images[0]), second(first.images[1])) == (1, 5)
    assert first.source["boundaries"] == ["SIbQ1aJ8eLM_0A", "SIbQ1aJ8eLM_1A"]
    assert first.source["times"] == [1.0, 5.0]
    assert other.captions == ("man reading", "man eats")
    assert certifier_of("gebc")(record_of(first, "gebc"), *first.images, None) == first.certificate
    assert build(builder, tmp_path / "out")["pairs"] == 2
    moved = record_of(first, "gebc")
    with pytest.raises(ValueError, match=r"frame 1 at 9 s lies outside"):
        certifier_of("gebc")(replace(moved, extra={"source": {**first.source, "times": [1.0, 9]}}), *first.images, None)


def test_gebc_boundaries_that_make_no_pair_say_why(tmp_path):
    word = chain([("standing", "x"), ("y", "moves towards us"), ("z", "w")])
    short = chain([("a", "b"), ("c", "d")])
    short[1]["next_timestamp"] = short[1]["timestamp"]
    content = {
        "word0000000": word, "short000000": short, "same0000000": chain([("Sitting", "x"), ("y", "sitting")]),
        "absent00000": chain([("a", "b"), ("c", "d")]), "ends0000000": chain([("a", "b"), ("c", "d")]),
    }  # fmt: skip
    annotations = write_json(tmp_path / "a.json", content)
    for name in ("word0000000", "short000000", "same0000000"):
        write_clip(tmp_path / "v" / f"{name}.mp4", 8)
    write_clip(tmp_path / "v" / "ends0000000.mp4", 3)
    builder = GebcBuilder(annotations=annotations, videos=tmp_path / "v")
    results = {video: builder.make(k) for k, (video, _) in enumerate(builder.jobs)}
    assert reasons(results["word0000000"]) == ["an action word in a caption"]
    assert isinstance(results["word0000000"][1], Made)
    assert reasons(results["short000000"]) == ["a segment of no length"]
    assert reasons(results["same0000000"]) == ["captions are the same"]
    assert reasons(results["absent00000"]) == ["no such video"]
    assert reasons(results["ends0000000"]) == ["a frame cannot be decoded"]
    assert has_action_word("lifts it UPWARD.")
    assert not has_action_word("a cup by the upstairs door, downtown")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected an object from videos to boundaries, found list"),
        ({"v": {}}, "video 'v': expected a list, found dict"),
        ({"v": [3]}, "boundary 0: expected an object, found int"),
        ({"v": [{**boundary(0, 1, 0, 2), "timestamp": "1"}]}, "field 'timestamp' should be seconds .* '1'"),
        ({"v": [{**boundary(0, 1, 0, 2), "prev_timestamp": -1}]}, "field 'prev_timestamp' .* -1"),
        ({"v": [{**boundary(0, 1, 0, 2), "subject": None}]}, "field 'subject' should be a text, found None"),
        ({"v": chain([("a", "b")])}, "none of 1 videos has two boundaries"),
    ],
)
def test_broken_gebc_files_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        GebcBuilder(annotations=write_json(tmp_path / "a.json", content), videos=tmp_path)


# YouCook2


def recipe(*steps):
    listed = [{"segment": list(segment), "id": k, "sentence": text} for k, (segment, text) in enumerate(steps)]
    return {"duration": 12.0, "subset": "training", "recipe_type": "101", "annotations": listed, "video_url": "x"}


@pytest.fixture
def own_faces():
    module = types.ModuleType("own_faces")
    module.count = lambda image: int(second(image) == 5)
    sys.modules["own_faces"] = module
    yield "own_faces:count"
    del sys.modules["own_faces"]


def test_eq_youcook2_takes_middle_frames_and_drops_faces(tmp_path, own_faces):
    steps = [((0, 1), "cut  the onion"), ((2, 4), "fry it"), ((5, 6), "smile"), ((7, 7), "wait"), ((8, 10), "Fry it")]
    content = {"database": {"GLd3aX16zBg": recipe(*steps), "gone0000000": recipe(((0, 1), "a"), ((2, 3), "b"))}}
    annotations = write_json(tmp_path / "trainval.json", content)
    write_clip(tmp_path / "raw" / "training" / "101" / "GLd3aX16zBg.mp4", 11)
    builder = YouCook2Builder(annotations=annotations, videos=tmp_path / "raw", faces=own_faces)
    results = builder.make(0)
    assert reasons(results) == ["a frame with a face", "a segment of no length", "captions are the same"]
    pairs = [result for result in results if isinstance(result, Made)]
    assert [result.captions for result in pairs] == [("cut the onion", "fry it"), ("cut the onion", "Fry it")]
    assert [(second(result.images[0]), second(result.images[1])) for result in pairs] == [(0, 3), (0, 9)]
    assert pairs[0].source["times"] == [0.5, 3.0]
    assert reasons(builder.make(1)) == ["no such video"]
    manifest = build(builder, tmp_path / "out")
    assert manifest["dropped"]["a frame with a face"] == 1
    unfiltered = YouCook2Builder(annotations=annotations, videos=tmp_path / "raw", faces="none").make(0)
    assert "a frame with a face" not in reasons(unfiltered)
    for record in read_records(tmp_path / "out"):
        images = [picture.load() for picture in record.pictures()]
        assert certifier_of("youcook2")(record, *images, None) == dict(record.certificate)


def test_one_step_beyond_the_end_does_not_cost_the_others(tmp_path):
    content = {"database": {"v": recipe(((0, 1), "a"), ((2, 3), "b"), ((90, 99), "c"))}}
    write_clip(tmp_path / "v.mp4", 4)
    builder = YouCook2Builder(annotations=write_json(tmp_path / "a.json", content), videos=tmp_path, faces="none")
    results = builder.make(0)
    assert reasons(results) == ["a frame cannot be decoded"]
    assert sum(isinstance(result, Made) for result in results) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "field 'database' should be an object"),
        ({"database": {"v": {}}}, "video 'v': field 'annotations' should be a list, found None"),
        ({"database": {"v": {"annotations": [{"segment": [1]}]}}}, r"step 0: field 'segment' .* \[1\]"),
        ({"database": {"v": {"annotations": [{"segment": [1, "2"]}]}}}, "field 'segment' should be seconds .* '2'"),
        ({"database": {"v": recipe(((0, 1), 5), ((2, 3), "b"))}}, "field 'sentence' should be a text, found 5"),
        (
            {"database": {"v": {"annotations": [{"segment": [0, 1], "sentence": "a", "id": None}]}}},
            r"step 0: field 'id' should be a whole number, found None",
        ),
        ({"database": {"v": recipe(((0, 1), "a"))}}, "none of 1 videos has two steps"),
    ],
)
def test_broken_youcook2_files_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        YouCook2Builder(annotations=write_json(tmp_path / "a.json", content), videos=tmp_path, faces="none")


def test_detectors_are_found_by_name(monkeypatch, own_faces):
    assert face_detector("none") is None
    assert face_detector(own_faces)(np.full((4, 4, 3), 110, np.uint8)) == 1
    with pytest.raises(ValueError, match="faces = 'yes': expected opencv"):
        face_detector("yes")
    with pytest.raises(ValueError, match="module 'own_faces' has no 'absent'"):
        face_detector("own_faces:absent")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"eqben-builder\[faces\]"):
        face_detector("opencv")
    five = types.ModuleType("cv2")
    five.__version__ = "5.0.0"
    monkeypatch.setitem(sys.modules, "cv2", five)
    with pytest.raises(ImportError, match=r"OpenCV 5\.0\.0 has no cascades"):
        face_detector("opencv")


def test_opencv_finds_no_face_where_there_is_none():
    pytest.importorskip("cv2")
    try:
        detect = face_detector("opencv")
    except ImportError as error:
        pytest.skip(str(error))
    assert detect(np.random.default_rng(0).integers(0, 255, (120, 160, 3), dtype=np.uint8)) == 0


# What they share


def test_videos_are_found_by_their_names(tmp_path):
    for name in ("a/001YG.mp4", "b/SIbQ1aJ8eLM_000001_000011.mkv", "b/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    library = Library(tmp_path)
    assert library.find("001YG") == library.find("001YG.mp4") == tmp_path / "a" / "001YG.mp4"
    assert library.find("SIbQ1aJ8eLM") == tmp_path / "b" / "SIbQ1aJ8eLM_000001_000011.mkv"
    assert library.find("notes") is None
    with pytest.raises(FileNotFoundError, match="no folder of videos"):
        Library(tmp_path / "absent")


def test_a_whole_name_goes_before_the_beginning_of_another(tmp_path):
    for name in ("kitchen-day-old.mp4", "kitchen-day.mp4", "a/kitchen-day_000001_000011.mp4", "kitchen-day.mp4.avi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    library = Library(tmp_path)
    assert library.find("kitchen-day") == library.find("kitchen-day.mp4") == tmp_path / "kitchen-day.mp4"
    assert library.find("kitchen-day-old") == tmp_path / "kitchen-day-old.mp4"
    digest = library.about(["kitchen-day"])
    (tmp_path / "kitchen-day-old.mp4").write_bytes(b"x")
    assert Library(tmp_path).about(["kitchen-day"]) == digest


@pytest.mark.parametrize("subset", ["ag", "gebc", "youcook2"])
def test_a_size_too_small_is_refused(tmp_path, subset):
    with pytest.raises(ValueError, match="size = 7"):
        builder_of(subset)(annotations=tmp_path, videos=tmp_path, size=7)


def test_pictures_shrink_but_do_not_grow():
    image = np.zeros((30, 41, 3), np.uint8)
    assert shrunk(image, 48) is image
    assert shrunk(image, None) is image
    assert shrunk(image, 10).shape == (10, 14, 3)


def test_builders_are_pickled_for_workers(tmp_path, own_faces):
    content = {"database": {"v": recipe(((0, 1), "a"), ((2, 3), "b"))}}
    write_clip(tmp_path / "v.mp4", 4)
    builder = YouCook2Builder(annotations=write_json(tmp_path / "a.json", content), videos=tmp_path, faces=own_faces)
    builder.make(0)
    copy = pickle.load(io.BytesIO(pickle.dumps(builder)))
    assert np.array_equal(copy.make(0)[0].images[1], builder.make(0)[0].images[1])


# Grounding


class Greys:
    """Captions name the grey that they mean; features are cosines of the distance between greys."""

    def encode_image(self, images):
        return [self._feature(second(image)) for image in images]

    def encode_text(self, captions):
        return [self._feature(int(text.split()[-1])) for text in captions]

    def _feature(self, level):
        angle = level * np.pi / 12
        return [np.cos(angle), np.sin(angle)]


def test_boundaries_are_grounded_in_their_videos(tmp_path):
    rows = [boundary(k, k + 1.0, float(k), k + 2.0, f"level {k}", f"level {k + 1}") for k in range(5)]
    content = {"SIbQ1aJ8eLM": rows, "absent00000": rows[:2], "short000000": rows[:3], "broken00000": rows[:1]}
    annotations = write_json(tmp_path / "a.json", content)
    write_clip(tmp_path / "v" / "SIbQ1aJ8eLM_000001_000011.mp4", 8)
    write_clip(tmp_path / "v" / "short000000.mp4", 2)
    (tmp_path / "v" / "broken00000.mp4").write_bytes(b"no frames")
    report = ground_gebc(annotations, tmp_path / "v", Greys())
    assert report.true == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert np.allclose(report.predicted, np.array(report.true) - 0.1)
    assert report.missing == 6
    assert any("broken00000" in reason for reason in report.reasons)
    assert report.accuracy[0.1] == 1.0
    assert report.average == 1.0
    coarse = ground_gebc(annotations, tmp_path / "v", Greys(), rate=0.5, thresholds=(0.1, 2.0))
    assert coarse.accuracy[0.1] < 1.0
    with pytest.raises(ValueError, match="rate = 0"):
        ground_gebc(annotations, tmp_path / "v", Greys(), rate=0)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="none of 11 boundaries has a video"):
        ground_gebc(annotations, tmp_path / "none", Greys())
    (tmp_path / "none" / "broken00000.mp4").write_bytes(b"no frames")
    with pytest.raises(ValueError, match=r"that can be decoded, such as .*broken00000.mp4"):
        ground_gebc(annotations, tmp_path / "none", Greys())


def test_a_build_is_by_the_videos_that_were_there(tmp_path):
    """One that was absent came, and the same command gave the build without its pairs."""
    boundaries = chain([("standing", "sits"), ("sitting", "reads"), ("reading", "looks up"), ("looking", "eats")])
    content = {"SIbQ1aJ8eLM": boundaries, "absent00000": boundaries}
    annotations = write_json(tmp_path / "val.json", content)
    write_clip(tmp_path / "v" / "SIbQ1aJ8eLM.mp4", 10)

    def built():
        return build(GebcBuilder(annotations=annotations, videos=tmp_path / "v"), tmp_path / "out")

    assert built()["pairs"] == 2
    write_clip(tmp_path / "v" / "of-others.mp4", 10)  # which no annotation asks for
    assert built()["pairs"] == 2
    (tmp_path / "v").rename(tmp_path / "moved")
    (tmp_path / "v").symlink_to(tmp_path / "moved")
    assert built()["pairs"] == 2
    write_clip(tmp_path / "v" / "absent00000.mp4", 10)
    with pytest.raises(ValueError, match=r"holds another build: its parameters\.videos is"):
        built()
