from __future__ import annotations

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import Made, build
from eqben_builder.building.builder import certifier_of
from eqben_builder.formats import read_any
from eqben_builder.video.action_genome import (
    ActionGenomeBuilder,
    Seen,
    different_relations,
    graph_captions,
    read_action_genome,
    sparse_pairs,
)
from wary_files import pickles

from ._clips import reasons, record_of, second, write_clip

# Pickle files


def load_at(path):
    return pickles.load(path.read_bytes(), str(path))


class Evil:
    def __reduce__(self):
        return (os.system, ("touch harm",))


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_are_read_and_others_are_not(tmp_path, protocol, monkeypatch):
    monkeypatch.chdir(tmp_path)
    boxes = {
        "a/000001.png": {"bbox": np.array([[1.5, 2, 3, 4]], np.float32), "size": (480, 270), "score": np.float64(3)}
    }
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(boxes, protocol))
    loaded = load_at(tmp_path / "a.pkl")
    assert np.array_equal(loaded["a/000001.png"]["bbox"], boxes["a/000001.png"]["bbox"])
    assert loaded["a/000001.png"]["size"] == (480, 270)
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps({"x": Evil()}, protocol))
    with pytest.raises(ValueError, match=r"evil\.pkl is no pickle of arrays: it asks for (posix|nt)\.system"):
        load_at(tmp_path / "evil.pkl")
    assert not (tmp_path / "harm").exists()
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps(boxes, protocol)[:-20])
    with pytest.raises(ValueError, match=r"cut\.pkl"):
        load_at(tmp_path / "cut.pkl")


@pytest.mark.parametrize("name", ["numpy.load", "numpy._core.multiarray.fromfile", "builtins.eval", "_codecs.lookup"])
def test_names_that_data_has_no_need_of_are_refused(tmp_path, name):
    module, _, attribute = name.rpartition(".")
    (tmp_path / "a.pkl").write_bytes(f"c{module}\n{attribute}\n.".encode())
    with pytest.raises(ValueError, match=rf"asks for {module}\.{attribute}"):
        load_at(tmp_path / "a.pkl")


TWICE: list[object] = [1]
for _ in range(60):
    TWICE = [TWICE, TWICE]
NESTED = b"]K\x01a\x94" + b"".join(b"0](" + 2 * (b"h" + bytes([level])) + b"e\x94" for level in range(60))


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\ndtype\n}X\x04\x00\x00\x00makecnumpy\nndarray\nsb.",  # the state of a name
        b"cnumpy\ndtype\n.",  # a name as the value
        b"cnumpy\ndtype\n(Vf4\nI0\nI1\ntR.",  # a dtype as the value
        b"cnumpy\ndtype\n)\x81.",  # a class made anew
        b"cnumpy\nndarray\n(tR.",  # an array without its values
        b"}(cnumpy\ndtype\nNu.",  # a name as a key
        b"(lp0\n)\x85a.",  # a tuple in a tuple
        b"\x80\x04\x8f.",  # a set
        b"})" + b"\x85" * 1_000_000 + b"Ns.",  # a key whose hash would end the process; in a set, too
        b"\x80\x04()" + b"\x85" * 1_000_000 + b"\x91.",
        b"\x80\x04cnumpy\ndtype\n" + NESTED + b"\x85R.",  # a list that nobody can print
        b"\x80\x04cnumpy.core.numeric\n_frombuffer\n(C\x01acnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R" + NESTED
        + b"\x85X\x01\x00\x00\x00CtR.",
        b"\x80\x04X\x10\x27\x00\x00" + b"a" * 10_000 + b"\x940](" +  # the same text, copied again and again
        b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 5000 + b"e.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",  # bytes that are not there
        b"\x82\x01.", b"Pa\n.", b"",
    ],
)  # fmt: skip
def test_hostile_opcodes_are_refused_and_change_nothing(content, tmp_path):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(ValueError, match="is no"):
        load_at(tmp_path / "a.pkl")
    assert pickles.load(b"\x80\x02]r\xff\xff\xff\x7f.", "far.pkl") == []  # no room is made for what is claimed
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"far\.pkl is no"):
        pickles.load(b"\x80\x05\x96" + (1 << 28).to_bytes(8, "little") + b"12345.", "far.pkl")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    again = pickles.load(pickle.dumps({"x": np.arange(3.0)}), "b.pkl")
    assert again["x"].tolist() == [0.0, 1.0, 2.0]


# Action Genome


def annotated(number, attention="looking_at", spatial="in_front_of", contacting="holding"):
    return Seen(
        number,
        f"v.mp4/{number:06d}.png",
        *((x,) if isinstance(x, str) else x for x in (attention, spatial, contacting)),
    )


def plain_rule(track):
    """The rule in its slowest form: every pair in order, kept if no frame of it is too close to one chosen before."""
    chosen = []
    for i in range(len(track)):
        for j in range(i + 1, len(track)):
            fits = different_relations(track[i], track[j]) >= 2
            for a, b in chosen:
                if a == i and track[j].position - track[b].position <= 2:
                    fits = False
                if a != i and track[i].position - track[a].position <= 2:
                    fits = False
            if fits:
                chosen.append((i, j))
    return chosen


@pytest.mark.parametrize("case", range(40))
def test_sparse_pairs_follow_the_plain_rule(case):
    rng = np.random.default_rng(case)
    places = np.flatnonzero(rng.random(30) < 0.7).tolist()
    track = [annotated(number, *(str(x) for x in rng.integers(0, 2 + case % 2, 3))) for number in places]
    pairs = sparse_pairs(track)
    assert pairs == plain_rule(track)
    assert all(different_relations(track[i], track[j]) >= 2 for i, j in pairs)


def test_two_of_three_relations_must_differ():
    base = annotated(0)
    assert different_relations(base, annotated(1, "not_looking_at")) == 1
    assert sparse_pairs([base, annotated(1, "not_looking_at")]) == []
    assert sparse_pairs([base, annotated(1, "not_looking_at", contacting="touching")]) == [(0, 1)]
    assert (
        different_relations(annotated(0, spatial=("behind", "beneath")), annotated(1, spatial=("beneath", "behind")))
        == 0
    )


def test_captions_read_like_english():
    assert graph_captions("cup/glass/bottle", ["not_looking_at"], ["on_the_side_of", "in"]) == [
        "The person is not looking at the cup or glass or bottle which is on the side of him/her.",
        "The person is not looking at the cup or glass or bottle which is around him/her.",
    ]


def ag_object(name="table", attention="looking_at", spatial="in_front_of", contacting="touching", visible=True):
    labels = {"attention": attention, "spatial": spatial, "contacting": contacting}
    lists = {f"{key}_relationship": list(x) if isinstance(x, tuple) else [x] for key, x in labels.items()}
    box = (1.0, 2.0, 3.0, 4.0) if visible else None
    return {"class": name, "bbox": box, "visible": visible, "metadata": {"set": "train"}, **lists}


def write_ag(folder, frames, people=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "object_bbox_and_relationship.pkl").write_bytes(pickle.dumps(frames))
    boxes = {name: {"bbox": np.ones((1, 4), np.float32)} for name in frames} | (people or {})
    (folder / "person_bbox.pkl").write_bytes(pickle.dumps(boxes))
    return folder


A, B = ("looking_at", "in_front_of", "touching"), ("not_looking_at", "behind", "holding")


def ag_frames(video="001YG.mp4"):
    """The last frame of each second, counted from 1."""
    kinds = [A, B, A, B, A, B]
    return {f"{video}/{10 * (k + 1):06d}.png": [ag_object("table", *kind)] for k, kind in enumerate(kinds)}


def test_eq_ag_from_videos_and_from_frames(tmp_path):
    annotations = write_ag(tmp_path / "annotations", ag_frames())
    write_clip(tmp_path / "videos" / "001YG.mp4", 7)
    builder = ActionGenomeBuilder(annotations=annotations, videos=tmp_path / "videos")
    results = builder.make(0)
    assert all(isinstance(result, Made) for result in results)
    assert [(second(result.images[0]), second(result.images[1])) for result in results] == [(0, 1), (0, 5), (3, 4)]
    assert results[0].captions == (
        "The person is looking at the table which is in front of him/her.",
        "The person is not looking at the table which is behind him/her.",
    )
    assert results[0].certificate["relations_differ"] == 3
    for pair in results:
        assert certifier_of("ag")(record_of(pair, "ag"), *pair.images, None) == pair.certificate
    for name in ag_frames():
        path = tmp_path / "frames" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48), (20 * ((int(path.stem) - 1) // 10) + 10,) * 3).save(path)
    stored = ActionGenomeBuilder(annotations=annotations, videos=tmp_path / "frames", size=24)
    results = stored.make(0)
    assert [(second(result.images[0]), second(result.images[1])) for result in results] == [(0, 1), (0, 5), (3, 4)]
    assert results[0].images[0].shape == (24, 32, 3)
    manifest = build(stored, tmp_path / "out")
    assert manifest["counts"] == {"ag": 3}
    flat = list(read_any(tmp_path / "out"))
    assert {row.subset for row in flat} == {"ag"}
    assert flat[0].extra["source"]["video"] == "001YG.mp4"


def test_frames_that_make_no_pair_are_dropped_with_their_reason(tmp_path):
    frames = {
        "a.mp4/000001.png": [ag_object("table", *A), ag_object("door", "unsure", "behind", "touching")],
        "a.mp4/000011.png": [ag_object("table", *B), ag_object("door", *A)],
        "b.mp4/000001.png": [ag_object("cup", "looking_at", ("behind", "beneath"), "holding")],
        "b.mp4/000002.png": [ag_object("cup", "looking_at", "behind", "touching")],
        "c.mp4/000001.png": [ag_object("table", *A)],
        "c.mp4/000900.png": [ag_object("table", *B)],
        "d.mp4/000001.png": [ag_object("table", *A)],
        "d.mp4/000002.png": [ag_object("table", *B)],
        "e.mp4/000001.png": [ag_object("table", *A)],
        "e.mp4/000002.png": [ag_object("table", *B, visible=False)],
        "f.mp4/000001.png": [ag_object("table", *A)],
        "f.mp4/000002.png": [ag_object("table", *B)],
    }
    nobody = {"f.mp4/000002.png": {"bbox": np.zeros((0, 4), np.float32)}}
    annotations = write_ag(tmp_path / "annotations", frames, nobody)
    for name in "abc":
        write_clip(tmp_path / "videos" / f"{name}.mp4", 2)
    builder = ActionGenomeBuilder(annotations=annotations, videos=tmp_path / "videos")
    assert [video for video, _ in builder.jobs] == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]
    assert reasons(builder.make(0)) == ["attention is unsure"]
    assert reasons(builder.make(1)) == ["a caption is true of both frames"]
    assert reasons(builder.make(2)) == ["a frame cannot be decoded"]
    assert reasons(builder.make(3)) == ["no such video"]
    with pytest.raises(ValueError, match="in none of 1 videos do two frames differ"):
        ActionGenomeBuilder(annotations=write_ag(tmp_path / "x", {"a.mp4/000001.png": []}), videos=tmp_path)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ({"000001.png": []}, "frame '000001.png' is not named like"),
        ({"../000001.png": []}, "is not named like"),
        ({"a.mp4/x.png": []}, "is not named like"),
        ({"a.mp4/000001.png": {}}, r"expected a list of objects, found dict"),
        ({"a.mp4/000001.png": [{"bbox": None}]}, "an object without a field 'class'"),
        ({"a.mp4/000001.png": [TWICE]}, "an object without a field 'class'"),
        ({"a.mp4/000001.png": [{"class": "x", "attention_relationship": "y"}]}, "'attention_relationship' should list"),
        ([], "should hold dictionaries"),
    ],
)
def test_broken_ag_files_are_refused(tmp_path, frames, message):
    folder = tmp_path / "annotations"
    folder.mkdir()
    (folder / "object_bbox_and_relationship.pkl").write_bytes(pickle.dumps(frames))
    with pytest.raises(FileNotFoundError, match=r"holds no person_bbox\.pkl"):
        read_action_genome(folder)
    names = frames if isinstance(frames, dict) else {}
    (folder / "person_bbox.pkl").write_bytes(pickle.dumps({name: {"bbox": np.ones((1, 4))} for name in names}))
    with pytest.raises(ValueError, match=message):
        read_action_genome(folder)
