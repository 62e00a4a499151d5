"""What captions of a gallery retrieve: the sequence, the place of the right image, and the page that shows both."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("typer")

from eqben_builder.cli import main
from eqben_builder.suites import Gallery, rankings, ranks_of, telling_captions

MODELS = """
import numpy as np

COLOURS = np.arange(12)

class Knows:
    def __init__(self, shift):
        self.shift = shift
    def encode_image(self, images):
        return np.eye(12)[[round(float(image.mean()) / 20) for image in images]] + 0.01
    def encode_text(self, captions):
        numbers = [int(text.split()[1]) for text in captions]
        return np.eye(12)[[(n + self.shift if n == 3 else n) % 12 for n in numbers]] + 0.01

def right():
    return Knows(0)

def wrong():
    return Knows(5)
"""


def gallery_of(pictures: int, captions: int) -> Gallery:
    """Each caption's image is the one of its number, captions beyond the images have the first."""
    right = {caption: [caption if caption < pictures else 0] for caption in range(captions)}
    return Gallery("own", (None,) * pictures, tuple(map(str, range(captions))), {"original": ({}, right)})


def test_a_sequence_is_the_sorted_row_of_cosines():
    rng = np.random.default_rng(0)
    images, texts = rng.standard_normal((17, 5)), rng.standard_normal((23, 5))
    gallery = gallery_of(17, 23)
    ranks = ranks_of(gallery, images, texts)
    for row in rankings(gallery, images, texts, [3, 20, 0], first=6):
        cosines = [float(image @ texts[row.caption] / np.linalg.norm(image) / np.linalg.norm(texts[row.caption]))
                   for image in images]  # fmt: skip
        order = sorted(range(17), key=lambda place: -cosines[place])
        assert list(row.pictures) == order[:6]
        assert row.scores == pytest.approx([cosines[place] for place in order[:6]])
        own = gallery.right["original"][1][row.caption][0]
        assert row.rank == 1 + order.index(own) == ranks[row.caption]
        assert row.right == tuple(place == own for place in order[:6])


def test_a_tie_counts_against_the_right_picture_and_captions_without_one_have_no_rank():
    gallery = Gallery("own", (None,) * 3, ("a", "b"), {"original": ({}, {0: [1]})})
    assert ranks_of(gallery, np.ones((3, 2)), np.ones((2, 2))).tolist() == [3, 0]


def test_captions_are_shown_on_which_models_differ_or_a_single_one_is_worst():
    first, second = np.array([1, 50, 7, 0, 2]), np.array([1, 60, 1, 9, 2])
    assert telling_captions({"a": first, "b": second}, 3) == [2, 1, 0]
    assert telling_captions({"a": first}, 2) == [1, 2]
    assert telling_captions({"a": first}, 0) == []
    with pytest.raises(ValueError, match="at least one model"):
        telling_captions({}, 3)


@pytest.mark.parametrize(("captions", "first", "message"), [([9], 3, "caption 9 of 4"), ([0], 0, "at least 1 image")])
def test_what_there_is_not_is_refused(captions, first, message):
    with pytest.raises(ValueError, match=message):
        rankings(gallery_of(4, 4), np.eye(4), np.eye(4), captions, first=first)


def test_a_page_shows_what_two_models_retrieve(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_ranking_models.py").write_text(MODELS)
    folder = tmp_path / "flickr30k" / "flickr30k-images"
    folder.mkdir(parents=True)
    rows = []
    for number in range(12):
        Image.new("RGB", (8, 8), (20 * number,) * 3).save(folder / f"{number}.png")
        rows.append({"image": f"flickr30k-images/{number}.png", "caption": [f"grey {number} & <level>"]})
    (tmp_path / "flickr30k" / "flickr30k_test.json").write_text(json.dumps(rows))
    with pytest.raises(SystemExit) as ended:
        main(["score", "flickr30k", "--data-root", ".", "--page", "page.html",
              "--encoder", "own_ranking_models:right", "--encoder", "own_ranking_models:wrong"])  # fmt: skip
    sys.modules.pop("own_ranking_models", None)
    assert not ended.value.code, capsys.readouterr().err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "what captions retrieve" in text
    queries = re.findall(r"<h3>grey (\d+) &amp; &lt;level&gt;</h3>", text)
    assert (len(queries), queries[0]) == (6, "3")
    section = text[text.index("<h3>grey 3 ") : text.index(f"<h3>grey {queries[1]} ")]
    (first, best), (second, worse) = re.findall(r"own_ranking_models:(\w+): rank (\d+)", section)
    assert (first, best, second) == ("right", "1", "wrong")
    assert int(worse) > 1
    assert section.count("<figure") == 16
    assert section.count("1.000 right") == 1
    assert section.index('class="own"') < section.index("own_ranking_models:wrong")
