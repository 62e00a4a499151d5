"""What builders make and suites score stays as it is: stored captions, means of pictures, and scores of made-up models.

`python packages/eqben-builder/tests/test_unchanged.py` writes the stored values anew, which a release has to announce.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eqben_builder.formats import Picture
from eqben_builder.kubric import KubricBuilder
from eqben_builder.micro.builder import MicroBuilder
from eqben_builder.suites import SUITES, Similarities, SuiteData, SuiteRow, micro_suite, suite_table

STORED = Path(__file__).with_name("unchanged.json")
WORDS = ("a", "red", "blue", "cup", "on", "table", "dog", "two")
#: Shape of a suite's questions where it is not "captions": pictures and captions of a question.
SHAPES = dict.fromkeys(
    ("winoground", "eqben", "bivlc", "colorswap", "naturalbench", "vismin", "mmvp", "cola"), ("pairs", 2, 2)
) | {
    "sugarcrepe-pp": ("paraphrases", 1, 3),
    "svo-probes": ("images", 3, 1),
    "imagecode": ("images", 10, 1),
    "vsr": ("statement", 1, 1),
}


def named_in(part):
    """The subsets that an average is made of, `x` for what a pattern leaves open."""
    if isinstance(part, str):
        return [part.replace("*", "x")]
    if hasattr(part, "subset"):
        return [part.subset]
    return [name for member in getattr(part, "subsets", part) for name in named_in(member)]


def questions_of(suite):
    rng = np.random.default_rng(len(suite.id))
    named = [name for average in suite.averages for name in named_in(average.part)]
    subsets = list(dict.fromkeys([*named, *suite.counts]))[:12] or ["all"]
    shape, pictures, texts = SHAPES.get(suite.id, ("captions", 1, 3))
    rows, cosines, among_texts = [], [], []
    for number in range(15 * len(subsets)):
        subset = subsets[number % len(subsets)]
        captions = tuple(" ".join(rng.choice(WORDS, rng.integers(3, 7))) for _ in range(texts))
        group = ("on", "near", "under")[number % 3] if subset in suite.macro else ""
        sets = {"pair": f"pair {number // 2}"} if suite.id == "whatsup" else {}
        label = bool(rng.integers(2)) if shape == "statement" else None
        images = (Picture(content=b""),) * pictures
        rows.append(SuiteRow(str(number), subset, shape, images, captions, f"{number // 2}", group, sets, label))
        # Tenths, so that there are ties.
        cosines.append(np.round(rng.standard_normal((texts, pictures)) + 0.3, 1))
        own = np.round(rng.standard_normal((texts, texts)), 1)
        among_texts.append(own + own.T if shape == "paraphrases" else None)
    return SuiteData(suite, rows, {}, {}, ()), Similarities(cosines, among_texts)


def scores_of(suite):
    table = suite_table(*questions_of(suite), resamples=200, seed=1)
    lines = (table.overall, *table.averages, table.lines[0])
    return {f"{line.name}, {line.measure}": [line.score.value, line.score.low, line.score.high] for line in lines}


def made_by(builder):
    pairs = [pair for pair in map(builder.make, range(6)) if hasattr(pair, "captions")]
    return [[*pair.captions, *(round(float(image.mean()), 3) for image in pair.images)] for pair in pairs]


def captions_of_the_micro_suite():
    return [list(row.captions) for row in micro_suite(pairs=1, size=32).rows]


BUILDERS = {
    "micro": lambda: MicroBuilder(size=64, seed=3),
    "kubric": lambda: KubricBuilder(engine="raster", size=64, seed=2),
}


@pytest.mark.parametrize("name", SUITES)
def test_a_suites_scores_are_as_they_were(name):
    stored = json.loads(STORED.read_text())["scores"][name]
    scores = scores_of(SUITES[name])
    assert scores.keys() == stored.keys()
    for line, values in scores.items():
        assert values == pytest.approx(stored[line], rel=1e-12), line


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_make_what_they_made(name):
    stored = json.loads(STORED.read_text())["pairs"][name]
    pairs = made_by(BUILDERS[name]())
    assert [pair[:2] for pair in pairs] == [pair[:2] for pair in stored]
    # Not to the byte: sines differ in their last digit from processor to processor.
    assert np.allclose([pair[2:] for pair in pairs], [pair[2:] for pair in stored], atol=0.02)


def test_the_micro_suite_asks_what_it_asked():
    assert captions_of_the_micro_suite() == json.loads(STORED.read_text())["micro suite"]


if __name__ == "__main__":
    values = {
        "scores": {name: scores_of(suite) for name, suite in SUITES.items()},
        "pairs": {name: made_by(builder()) for name, builder in BUILDERS.items()},
    }
    parts = [
        f'"{kind}": {{\n' + ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in named.items()) + "\n}"
        for kind, named in values.items()
    ]
    parts.append(f'"micro suite": {json.dumps(captions_of_the_micro_suite())}')
    STORED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
