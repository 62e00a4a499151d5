from __future__ import annotations

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from knowledge_prompts import concept_map, concept_spread
from knowledge_prompts.encoding.diversity import concept_features, draw_map


def reference_spread(features):
    rows = [[value / sum(v * v for v in row) ** 0.5 for value in row] for row in features.tolist()]
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    squares = [sum((value - m) ** 2 for value, m in zip(row, mean, strict=True)) for row in rows]
    return (sum(squares) / len(rows)) ** 0.5


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 7), (2, 3), (37, 5), (5, 63)])
def test_spread_is_the_definition(n, d):
    features = np.random.default_rng(n * 100 + d).normal(size=(n, d)) + 0.3
    assert concept_spread(features) == pytest.approx(reference_spread(features), abs=1e-14)
    assert concept_spread(features * 7) == pytest.approx(concept_spread(features), abs=1e-14)
    rotated = features @ np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))[0]
    assert concept_spread(rotated) == pytest.approx(concept_spread(features), abs=1e-13)


def test_map_is_the_eigenvectors_of_the_joint_covariance():
    generator = np.random.default_rng(0)
    sets = {"a": generator.normal(size=(31, 6)) * [5, 3, 1, 1, 1, 1], "b": generator.normal(size=(9, 6)) + 1}
    result = concept_map(sets)
    together = np.concatenate([rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sets.values()])
    values, vectors = np.linalg.eigh(np.cov(together.T, bias=True))
    points = np.concatenate(list(result.points.values()))
    expected = (together - together.mean(axis=0)) @ vectors[:, [-1, -2]]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-12)
    np.testing.assert_allclose(result.explained, values[[-1, -2]] / values.sum(), atol=1e-12)
    assert result.spread == {name: concept_spread(rows) for name, rows in sets.items()}


@pytest.mark.parametrize("seed", range(6))
def test_axes_point_to_where_their_largest_component_is_positive(seed):
    rows = np.random.default_rng(seed).normal(size=(30, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    axes = np.linalg.lstsq(unit - unit.mean(axis=0), concept_map({"a": rows}).points["a"], rcond=None)[0].T
    assert all(axis[np.abs(axis).argmax()] > 0 for axis in axes)


@pytest.mark.parametrize("rows", [[[1.0, 2.0, 3.0]], [[2.0], [5.0]]])
def test_map_of_one_concept_or_one_feature(rows):
    result = concept_map({"a": rows})
    np.testing.assert_allclose(result.points["a"], 0, atol=1e-15)
    assert result.explained == (0.0, 0.0)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({}, "there is no data set"),
        ({"a": [[1.0]], "b": [[1.0, 2.0]]}, "different numbers of features, {'a': 1, 'b': 2}"),
        ({"a": [1.0]}, r"a has shape \(1,\)"),
        ({"a": np.zeros((0, 3))}, r"a has shape \(0, 3\)"),
        ({"a": [[1.0], [0.0]]}, r"a, row 1: length 0\.0"),
        ({"a": [[float("nan")]]}, "a, row 0: length nan"),
    ],
)
def test_map_refuses(sets, message):
    with pytest.raises(ValueError, match=message):
        concept_map(sets)


def test_the_picture_has_every_point_on_one_scale_and_names_as_they_are():
    pytest.importorskip("matplotlib")
    generator = np.random.default_rng(3)
    concepts = concept_map({"$cats$ & <dogs>": generator.normal(size=(5, 3)), "b": generator.normal(size=(4, 3))})
    figure = draw_map(concepts)
    for axes, (name, points) in zip(figure.axes, concepts.points.items(), strict=True):
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), points)
        assert (np.abs(points) < axes.get_xlim()[1]).all()
        assert axes.get_xlim() == axes.get_ylim() == figure.axes[0].get_xlim()
        assert axes.get_title().startswith(f"{name}: {len(points)} concepts, spread 0.")
    svg = io.StringIO()
    figure.savefig(svg, format="svg")
    assert ET.fromstring(svg.getvalue()).tag == "{http://www.w3.org/2000/svg}svg"


def test_concept_features_count_a_name_once():
    features = concept_features(lambda texts: np.array([[len(t), 1.0] for t in texts]), ["owl", "tench", "owl"])
    assert features.shape == (2, 2)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-6)


def test_masked_features_of_a_concept_are_refused():
    features = np.ma.masked_array(np.eye(3, 4), [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(ValueError, match="row 1: a value is masked"):
        concept_spread(features)
    assert concept_spread(np.ma.masked_array(np.eye(3, 4))) == concept_spread(np.eye(3, 4))
