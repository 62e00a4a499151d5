"""Nearest neighbours, retrieval and clustering as task types: of known benchmarks and of folders of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn import metrics as sk

import gate_runner
from gate_runner.errors import DataError
from gate_runner.runs.stored import read_run
from paired_scores.paired import paired_test
from vision_features.encoders.encoder import Encoder


@pytest.fixture(scope="module")
def means() -> Encoder:
    return Encoder("channel means", image_size=32, image=lambda images: images.mean(dim=(2, 3)) + 3.0)


def test_a_known_benchmark_is_scored_without_a_probe(means: Encoder, tmp_path: Path) -> None:
    names = ["digits@knn", "digits@image-retrieval", "digits@clustering"]
    done = gate_runner.run(names, encoder=means, output=tmp_path / "a", limit=150, show=False)
    knn, retrieval, clustering = done.results
    assert [result.status for result in done.results] == ["ok"] * 3
    assert [score.metric for score in retrieval.scores] == ["map", "recall@1", "recall@5", "recall@10"]
    assert all(score.chance < 1 and score.low <= score.value <= score.high for score in retrieval.scores)
    assert retrieval.training["gallery"] == retrieval.data["test"] - 1
    assert knn.training["k"] in (1, 3, 5, 10, 20, 50, 100)  # 150 training images
    stored = read_run(tmp_path / "a")
    clusters, classes = stored.outcomes(clustering).T
    assert clustering.scores[0].value == pytest.approx(sk.adjusted_mutual_info_score(classes, clusters), abs=1e-9)
    assert clustering.scores[1].value == pytest.approx(sk.v_measure_score(classes, clusters), abs=1e-9)


def test_pairs_in_a_table_find_one_another(tmp_path: Path, means: Encoder) -> None:
    rng = np.random.default_rng(0)
    rows = ["image,image2"]
    for number in range(30):
        colour = rng.integers(0, 256, 3)
        for side in "ab":
            pixels = np.clip(colour + rng.normal(0, 4, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{number}{side}.png")
        rows.append(f"{number}a.png,{number}b.png")
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    toml = tmp_path / "benchmark.toml"
    toml.write_text(
        '[benchmark]\nid = "twins"\ntask = "image-retrieval"\n[data]\nkind = "table"\ntable = "pairs.csv"\n'
        "[splits]\ntest_share = 0.5\n"
    )
    (result,) = gate_runner.run(str(toml), encoder=means, output=tmp_path / "r", show=False).results
    assert (result.status, result.reason) == ("ok", "")
    assert result.scores[1].metric == "recall@1"
    assert result.scores[1].value > 0.8 > result.scores[1].chance
    assert result.training["queries_without_relevant"] == 0  # pairs are drawn whole
    assert result.data["test"] % 2 == 0


def test_a_table_of_neither_pairs_nor_classes_is_refused_at_the_door(tmp_path: Path, means: Encoder) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("image,other\na.png,1\n")
    toml = tmp_path / "benchmark.toml"
    toml.write_text('[benchmark]\nid = "t"\ntask = "image-retrieval"\n[data]\nkind = "table"\ntable = "t.csv"\n')
    with pytest.raises(DataError, match="label"):
        gate_runner.run(str(toml), encoder=means, output=tmp_path / "r", show=False)


def test_samples_that_do_not_count_are_left_out_of_paired_tests() -> None:
    """A query with nothing to find is NaN: the difference of two runs became NaN, and p 1."""
    rng = np.random.default_rng(0)
    first = rng.random(50)
    second = first + 0.2
    test = paired_test("map", [first], [second], permutations=199)
    first[3] = second[3] = np.nan
    comparison = paired_test("map", [first], [second], permutations=199)
    assert comparison.samples == 49
    assert comparison.difference == pytest.approx(0.2)
    assert comparison.p == test.p
