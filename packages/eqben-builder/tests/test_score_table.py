from __future__ import annotations

import numpy as np
import pytest

from eqben_builder import winoground_scores
from eqben_builder.scoring import equivariance_scores, ground_boundary, score_table, valse_scores


def test_a_hundred_thousand_random_quadruples(reference):
    scores = np.random.default_rng(0).standard_normal((100_000, 2, 2))
    plain, ties = reference.winoground(scores.tolist())
    table = score_table(scores, resamples=200)
    assert np.array_equal(table.outcomes, np.array(plain))
    row = table.row("all")
    assert row.ties == ties == 0
    for share, expected in ((row.text, 1 / 4), (row.image, 1 / 4), (row.group, 1 / 6)):
        assert abs(share.value - expected) < 4 * np.sqrt(expected * (1 - expected) / 100_000)
        assert share.low < share.value < share.high


def test_the_macro_average_is_the_mean_of_fifteen_columns(reference):
    rng = np.random.default_rng(1)
    subsets = rng.choice(["ag", "gebc", "youcook2", "kubric", "sd"], 900, p=[0.6, 0.1, 0.1, 0.15, 0.05]).tolist()
    aspects = [str(rng.choice(["location", "counting", "attribute"], p=[0.7, 0.2, 0.1])) for _ in subsets]
    aspects = [aspect if subset == "kubric" else "" for subset, aspect in zip(subsets, aspects, strict=True)]
    scores = rng.integers(0, 6, (900, 2, 2)) / 5
    outcomes, _ = reference.winoground(scores.tolist())

    def mean(metric, subset, aspect):
        picked = [
            right[metric]
            for right, row_subset, row_aspect in zip(outcomes, subsets, aspects, strict=True)
            if row_subset == subset and aspect in (None, row_aspect)
        ]
        return sum(picked) / len(picked)

    columns = []
    for metric in range(3):
        columns += [mean(metric, subset, None) for subset in ("ag", "gebc", "youcook2", "sd")]
        columns.append(sum(mean(metric, "kubric", aspect) for aspect in ("location", "counting", "attribute")) / 3)
    table = score_table(scores, subsets, aspects, resamples=300)
    assert table.average.value == pytest.approx(sum(columns) / 15, abs=1e-12)
    assert table.average.chance == pytest.approx(2 / 9)
    assert table.row("kubric/counting").group.value == pytest.approx(mean(2, "kubric", "counting"), abs=1e-12)
    assert [row.name for row in table.rows] == [
        "ag", "gebc", "kubric", "kubric/attribute", "kubric/counting", "kubric/location", "sd", "youcook2", "macro",
        "all",
    ]  # fmt: skip
    alone = winoground_scores(scores, resamples=20_000).text
    assert table.row("all").text.value == alone.value
    assert table.row("all").text.low == pytest.approx(alone.low, abs=0.01)
    assert table.row("ag").ties == sum(
        len({s[0][0], s[1][1]} & {s[0][1], s[1][0]}) > 0
        for s, subset in zip(scores.tolist(), subsets, strict=True)
        if subset == "ag"
    )
    with pytest.raises(KeyError, match="there are ag, gebc"):
        table.row("nothing")


def test_intervals_equal_a_plain_stratified_bootstrap():
    rng = np.random.default_rng(2)
    subsets = ["ag"] * 80 + ["sd"] * 40
    scores = rng.standard_normal((120, 2, 2)) + np.eye(2)
    table = score_table(scores, subsets, resamples=20_000)
    outcomes = table.outcomes
    draws = []
    for _ in range(4000):
        means = [outcomes[rng.integers(0, 80, 80)].mean(axis=0), outcomes[80 + rng.integers(0, 40, 40)].mean(axis=0)]
        draws.append(np.mean(means))
    low, high = np.quantile(draws, (0.025, 0.975))
    assert table.average.low == pytest.approx(low, abs=0.012)
    assert table.average.high == pytest.approx(high, abs=0.012)
    again = score_table(scores, subsets, resamples=20_000)
    assert again.rows == table.rows
    assert again.average == table.average


def test_draws_keep_text_and_image_apart():
    text_only = [[[0.9, 0.8], [0.1, 0.85]], [[0.9, 0.95], [0.1, 0.96]]]
    table = score_table(text_only * 30, ["ag"] * 60, resamples=400)
    for row in (table.row("ag"), table.row("macro")):
        assert 0.9 < row.text.low < row.text.high == 1
        assert row.image.high < 0.7
        assert row.group.high == row.image.high
    turned = score_table(np.swapaxes(text_only * 30, 1, 2), ["ag"] * 60, resamples=400).row("macro")
    assert 0.9 < turned.image.low < turned.image.high == 1
    assert turned.text.high < 0.7


RIGHT, WRONG = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]


def shares_of(table):
    return [*table.rows[0][4:], *table.row("macro")[4:], *table.row("all")[4:], table.average]


@pytest.mark.parametrize("clusters", [None, [f"video{k}" for k in range(12)]], ids=["pairs", "clusters"])
def test_twelve_of_twelve_and_none_of_twelve_leave_room(clusters):
    for scores, value in (([RIGHT] * 12, 1.0), ([WRONG] * 12, 0.0)):
        for share in shares_of(score_table(scores, ["ag", "sd"] * 6, clusters=clusters)):
            assert share.value == value
            width = share.high - share.low
            assert 0.05 < width < 0.5
            assert value == (share.high if value else share.low)
    apart = score_table([RIGHT] * 12, clusters=["a"] * 6 + ["b"] * 6).row("all").group
    together = score_table([RIGHT] * 12, clusters=[f"{k}" for k in range(12)]).row("all").group
    assert apart.low < together.low  # two videos say less than twelve


@pytest.mark.parametrize("n", [5, 12, 40])
@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_intervals_of_every_row_cover_the_truth(n, p):
    rng, trials = np.random.default_rng(n), 200
    covered = np.zeros(len(shares_of(score_table([RIGHT]))), dtype=int)
    for _ in range(trials):
        right = rng.random(n) < p
        scores = np.where(right[:, None, None], RIGHT, WRONG)
        table = score_table(
            scores, ["ag"] * (n // 2) + ["sd"] * (n - n // 2), resamples=200, seed=int(rng.integers(1e6))
        )
        alone = winoground_scores(scores, resamples=200, seed=int(rng.integers(1e6)))
        shares = shares_of(table)
        assert all(share.low < share.high for share in (*shares, alone.text, alone.image, alone.group))
        covered += [share.low <= p <= share.high for share in shares]
    # Wilson's own coverage oscillates: it is .886 for 12 of p = .99, of which three standard errors are taken.
    assert covered.min() >= 0.82 * trials


def test_pairs_of_one_cluster_are_resampled_together():
    rng = np.random.default_rng(6)
    clusters = [f"video{k}" for k in rng.integers(0, 25, 300)]
    right = {name: rng.random() < 0.5 for name in clusters}
    scores = np.array([np.eye(2) if right[name] else 1 - np.eye(2) for name in clusters])
    table = score_table(scores, clusters=clusters, resamples=20_000)
    members = {name: [k for k, cluster in enumerate(clusters) if cluster == name] for name in set(clusters)}
    names, draws = sorted(members), []
    for _ in range(4000):
        drawn = [k for j in rng.integers(0, len(names), len(names)) for k in members[names[j]]]
        draws.append(table.outcomes[drawn, 2].mean())
    low, high = np.quantile(draws, (0.025, 0.975))
    for row in (table.row("pairs"), table.row("all")):
        assert row.group.low == pytest.approx(low, abs=0.02)
        assert row.group.high == pytest.approx(high, abs=0.02)
    apart = score_table(scores, resamples=2000).row("all").group
    assert high - low > 2 * (apart.high - apart.low)
    with pytest.raises(ValueError, match="1 clusters for 300 pairs"):
        score_table(scores, clusters=["a"])


def test_a_subset_without_aspects_is_pooled_and_lengths_must_agree():
    scores = np.random.default_rng(3).standard_normal((30, 2, 2))
    pooled = score_table(scores, ["kubric"] * 30, ["location"] * 29 + [""])
    assert pooled.row("kubric").text.value == pytest.approx(pooled.row("all").text.value)
    with pytest.raises(ValueError, match="29 subsets for 30 pairs"):
        score_table(scores, ["ag"] * 29)


def test_equivariance_scores_follow_their_definition():
    scores = np.random.default_rng(4).standard_normal((50, 2, 2))
    equivariance = equivariance_scores(scores)
    for k, ((s00, s01), (s10, s11)) in enumerate(scores.tolist()):
        plain = abs((s00 - s10) - (s11 - s01)) + abs((s00 - s01) - (s11 - s10))
        assert equivariance[k] == pytest.approx(plain, abs=1e-14)
        assert equivariance[k] == pytest.approx(2 * max(abs(s00 - s11), abs(s10 - s01)), abs=1e-14)
    assert np.allclose(equivariance_scores(scores, scale="spread"), equivariance_scores(9 * scores, scale="spread"))
    with pytest.raises(ValueError, match="no spread"):
        equivariance_scores(np.ones((2, 2, 2)), scale="spread")
    with pytest.raises(ValueError, match="'raw' is neither"):
        equivariance_scores(scores, scale="raw")


SCORES = np.random.default_rng(0).standard_normal((40, 2, 2))
MEASURES = {
    "winoground": winoground_scores,
    "table": score_table,
    "equivariance": equivariance_scores,
    "valse": lambda scores: valse_scores(scores[:, 0], scale="calibrated"),
    "grounding": lambda scores: ground_boundary(scores[:, 0].T, np.arange(40.0)),
}


@pytest.mark.parametrize("name", MEASURES)
def test_masked_scores_are_refused_and_of_other_forms_score_the_same(name):
    mask = np.zeros(SCORES.shape, bool)
    mask[3, 0, 1] = True
    with pytest.raises(ValueError, match=r"the value at \[.*\] is masked; leave its sample out"):
        MEASURES[name](np.ma.masked_array(SCORES, mask))
    with pytest.raises(ValueError, match="expected numbers, got"):
        MEASURES[name](np.where(mask, "0.5", SCORES))
    plain = MEASURES[name](SCORES)
    for held in (SCORES.astype(object), np.ma.masked_array(SCORES), SCORES.astype(">f8")):
        assert repr(MEASURES[name](held)) == repr(plain)


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT")])
def test_pairs_without_a_cluster_a_subset_or_an_aspect_are_refused(missing):
    # as texts, all without one were of the one cluster, subset or aspect "None"
    names = ["a", "b"] * 18 + [missing] * 4
    for column in ("clusters", "subsets", "aspects"):
        with pytest.raises(ValueError, match=rf"{column}: sample 36 has the label"):
            score_table(SCORES, resamples=20, **{column: names})


def test_clusters_are_labels_of_any_kind():
    numbers = np.arange(40) // 4
    expected = score_table(SCORES, clusters=[f"v{number:02}" for number in numbers], resamples=50).row("all")
    for labels in (numbers, numbers.tolist(), [(number, "video") for number in numbers.tolist()]):
        assert score_table(SCORES, clusters=labels, resamples=50).row("all") == expected


@pytest.mark.parametrize(
    ("subsets", "aspects", "name"),
    [
        (["all", "hard"], None, "all"),
        (["macro", "hard"], None, "macro"),
        (["kubric", "kubric/location"], ["location", ""], "kubric/location"),
    ],
)
def test_subsets_that_are_called_as_another_row_are_refused(
    subsets: list[str], aspects: list[str] | None, name: str
) -> None:
    good, bad = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(ValueError, match=f"called '{name}'"):
        score_table([good, bad], subsets, aspects)


@pytest.mark.parametrize("kind", ["subsets", "aspects"])
def test_names_that_a_reader_cannot_tell_are_refused(kind: str) -> None:
    """1 and "1" were one row of both."""
    with pytest.raises(ValueError, match=f"{kind}: 1 and '1' are both called '1'"):
        score_table(np.eye(2)[None].repeat(2, 0), **{kind: [1, "1"]})  # type: ignore[arg-type]
