"""Outcomes, text-only baselines, averages and retrieval against slow definitions, and against published arithmetic."""

from __future__ import annotations

import csv
import itertools
import json
import math
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from eqben_builder.formats import Picture
from eqben_builder.scoring.blind import _DISCOUNT, _WORD
from eqben_builder.suites import (
    SUITES,
    Gallery,
    Similarities,
    SuiteData,
    SuiteRow,
    gallery_table,
    micro_suite,
    similarities_of,
    suite_records,
    suite_table,
    write_records,
)
from eqben_builder.suites.blind import blind_outcomes, paired_difference
from eqben_builder.suites.features import Features, similarities
from eqben_builder.suites.galleries import _resampled, _values, right_ranks
from eqben_builder.suites.outcomes import folds_of, outcomes_of
from eqben_builder.suites.published import published_scores, published_table
from eqben_builder.suites.results import COLUMNS

NOTHING = Picture(content=b"")


def question(k, subset="swap_obj", captions=("a", "b"), cluster=None, **options):
    return SuiteRow(str(k), subset, "captions", (NOTHING,), captions, cluster or f"image {k}", **options)


def data_of(suite, rows):
    return SuiteData(SUITES[suite], rows, {}, {}, ())


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def test_a_choice_is_right_only_when_it_beats_every_other():
    rng = np.random.default_rng(3)
    rows = [question(k, captions=tuple("abcdef")) for k in range(300)]
    scores = [column(*rng.integers(0, 5, 6)) for _ in rows]
    outcomes = outcomes_of(rows, Similarities(scores, [None] * 300))
    for k, s in enumerate(scores):
        values = s.ravel().tolist()
        assert outcomes["accuracy"].right[k] == all(values[0] > other for other in values[1:])
        assert outcomes["accuracy"].tied[k] == (values[0] == max(values[1:]))
        rank = 1 + sum(other >= values[0] for other in values[1:])
        assert outcomes["mean rank"].right[k] == rank
        assert [outcomes[f"R@{n}"].right[k] for n in (3, 5, 10)] == [rank <= 3, rank <= 5, True]
    assert outcomes["accuracy"].chance[0] == pytest.approx(1 / 6)


def test_chance_is_what_independent_scores_get():
    rng = np.random.default_rng(4)
    n = 30_000
    shapes = {
        "captions": (1, 3), "pairs": (2, 2), "paraphrases": (1, 3), "images": (4, 1),
    }  # fmt: skip
    for shape, (pictures, texts) in shapes.items():
        row = SuiteRow("0", "s", shape, (NOTHING,) * pictures, tuple("abc"[:texts]), "c")
        own = [rng.standard_normal((texts, texts)) for _ in range(n)] if shape == "paraphrases" else [None] * n
        own = [None if matrix is None else (matrix + matrix.T) for matrix in own]
        outcomes = outcomes_of([row] * n, Similarities(list(rng.standard_normal((n, texts, pictures))), own))
        for measure, outcome in outcomes.items():
            mean = outcome.right.mean()
            assert mean == pytest.approx(outcome.chance.mean(), abs=4 * 0.5 / math.sqrt(n)), (shape, measure)


def test_a_tie_is_wrong_and_the_authors_way_stands_beside():
    rows = [question(k, "coco_order", tuple("abcde")) for k in range(10)]
    scores = [column(1, 1, 0, 0, 0) if k < 4 else column(2, 1, 0, 0, 0) for k in range(10)]
    line = suite_table(data_of("aro", rows), Similarities(scores, [None] * 10)).line("coco_order")
    assert (line.score.value, line.ties, line.authors) == (0.6, 4, 1.0)
    line = suite_table(data_of("sugarcrepe", [question(k) for k in range(10)]), Similarities(
        [column(1, 1)] * 10, [None] * 10)).line("swap_obj")  # fmt: skip
    assert (line.score.value, line.authors) == (0.0, None)


def test_macro_averages_and_their_least_number_of_questions():
    rows = [question(f"r{k}", "vg_relation", group="on" if k < 30 else "under") for k in range(40)]
    rows += [question(f"a{k}", "vg_attribution", group="big" if k < 30 else "rare") for k in range(40)]
    scores = [column(1.0, 0.0) if k % 40 < 30 else column(0.0, 1.0) for k in range(80)]
    table = suite_table(data_of("aro", rows), Similarities(scores, [None] * 80))
    assert table.line("vg_relation").score.value == pytest.approx(0.5)  # mean of 1 and 0, not 30 of 40
    assert table.line("vg_attribution").score.value == 1.0  # the group of ten does not count


def test_a_mean_rank_has_an_interval_around_it():
    rows = [question(f"r{k}", "s", captions=tuple("abcdef")) for k in range(60)]
    scores = [column(0.5, *(1.0 if j < k % 4 else 0.0 for j in range(5))) for k in range(60)]
    line = suite_table(data_of("aro", rows), Similarities(scores, [None] * 60)).line("s", "mean rank")
    assert line.score.value == pytest.approx(2.5)
    assert 2.0 < line.score.low < 2.5 < line.score.high < 3.0


def test_the_papers_vg_relation_leaves_symmetric_relations_out():
    groups = ["on"] * 10 + ["near"] * 20 + ["under"] * 10
    rows = [question(f"r{k}", "vg_relation", group=group) for k, group in enumerate(groups)]
    scores = [column(0.0, 1.0) if group == "near" or k < 5 else column(1.0, 0.0) for k, group in enumerate(groups)]
    table = suite_table(data_of("aro", rows), Similarities(scores, [None] * 40))
    assert table.line("vg_relation").score.value == pytest.approx((0.5 + 0 + 1) / 3)
    line = table.line("vg_relation, paper")
    assert line.score.value == pytest.approx((0.5 + 1) / 2)
    assert line.score.low < line.score.value < line.score.high


def test_published_averages_come_out_of_published_subsets():
    """The averages of the first model's row, formed by our rules from its subsets, are those that were published."""
    checked = 0
    for suite in ("sugarcrepe", "valse", "whatsup", "svo-probes", "aro"):
        definition = SUITES[suite]
        average = next(a for a in definition.averages if a.name == "vl_compo")
        for model in ("ViT-B-32/openai", "ViT-L-14/openai", "NegCLIP"):

            def value(part, definition=definition, model=model):
                if isinstance(part, str):
                    return published_scores(definition.id, part, "accuracy")[model]
                if isinstance(part, tuple) and hasattr(part, "subsets"):
                    names = [n for n in definition.counts if any(n.startswith(p.rstrip("*")) for p in part.subsets)]
                    weights = [definition.counts[n] for n in names]
                    return np.average(
                        [published_scores(definition.id, n, "accuracy")[model] for n in names], weights=weights
                    )
                return np.mean([value(p) for p in part])

            published = published_scores(suite, "vl_compo", "accuracy")[model]
            assert value(average.part) == pytest.approx(published, abs=0.0006), (suite, model)
            checked += 1
    assert checked == 15
    keys = ("suite", "name", "measure", "model", "source")
    assert len({tuple(row[key] for key in keys) for row in published_table()}) == len(published_table())


def test_averages_of_fewer_subsets_are_not_printed():
    rows = [question(k) for k in range(4)]
    table = suite_table(data_of("sugarcrepe", rows), Similarities([column(1, 0)] * 4, [None] * 4))
    assert [average.name for average in table.averages] == ["pooled"]


def reference_bigram(rows, seed=0):
    """In dictionaries and loops."""
    fold = folds_of([row.cluster for row in rows], seed)
    outcomes = []
    for k, row in enumerate(rows):
        models = []
        for side in (0, 1):
            texts = [
                text
                for j, other in enumerate(rows)
                if fold[j] != fold[k]
                for text in (other.captions[:1] if side == 0 else other.captions[1:])
            ]
            words = [["<s>", *_WORD.findall(text.lower()), "</s>"] for text in texts]
            models.append((
                Counter(word for sentence in words for word in sentence[1:]),
                Counter(pair for sentence in words for pair in itertools.pairwise(sentence)),
                Counter(word for sentence in words for word in sentence[:-1]),
            ))  # fmt: skip
        scores = []
        for text in row.captions:
            words = ["<s>", *_WORD.findall(text.lower()), "</s>"]
            total = 0.0
            for v, w in itertools.pairwise(words):
                for sign, (unigram, bigram, before) in zip((1, -1), models, strict=True):
                    p = (unigram[w] + 1) / (sum(unigram.values()) + len(unigram) + 1)
                    if before[v]:
                        followers = sum(1 for pair in bigram if pair[0] == v)
                        discounted = max(bigram[v, w] - _DISCOUNT, 0) / before[v]
                        p = discounted + _DISCOUNT * followers / before[v] * p
                    total += sign * math.log(p)
            scores.append(total / (len(words) - 1))
        outcomes.append(float(scores[0] > max(scores[1:])))
    return outcomes


def test_the_bigram_line_is_its_definition():
    rng = np.random.default_rng(5)
    words = ["cup", "hat", "red", "blue", "on", "a"]

    def text():
        return " ".join(rng.choice(words, rng.integers(2, 7)))

    rows = [question(k, captions=(text(), text(), text()), cluster=f"i{k // 2}") for k in range(40)]
    assert blind_outcomes(rows)["bigram"].right.tolist() == reference_bigram(rows)


def test_captions_that_leak_nothing_leave_the_bigram_at_chance():
    rng = np.random.default_rng(6)
    words = list("abcdefghij")
    rows = []
    for k in range(1500):
        text = list(rng.permutation(words)[:5])
        rows.append(question(k, captions=(" ".join(text), " ".join(rng.permutation(text)))))
    right = blind_outcomes(rows)["bigram"]
    assert right.right[~right.tied].mean() == pytest.approx(0.5, abs=0.05)


def test_a_model_no_better_than_the_shorter_caption_is_not_better():
    rows = [question(k, "add_obj", ("a cup", "a cup and a hat"), cluster=f"i{k}") for k in range(100)]
    scores = [column(1, 0) if k % 10 else column(0, 1) for k in range(100)]
    line = suite_table(data_of("sugarcrepe", rows), Similarities(scores, [None] * 100)).line("add_obj")
    assert line.blind["shorter"].value == 1.0
    assert line.better.value == pytest.approx(-0.1)
    assert line.better.p < 0.01
    assert line.better.high < 0


def test_a_users_scorer_is_a_line_of_its_own():
    rows = [question(k, captions=("good", "bad")) for k in range(10)]
    outcomes = blind_outcomes(rows, {"lm": lambda texts: [float(text == "good") for text in texts]})
    assert outcomes["lm"].right.mean() == 1.0
    with pytest.raises(ValueError, match="lm gave"):
        blind_outcomes(rows, {"lm": lambda texts: [1.0]})


def test_a_users_scorer_says_nothing_of_statements():
    rows = [SuiteRow(f"{k}", "s", "statement", (NOTHING,), ("a",), f"{k}", label=k % 2 == 0) for k in range(10)]
    assert set(blind_outcomes(rows, {"lm": lambda texts: [0.0 for _ in texts]})) == {"bigram"}


def test_the_sign_flip_test_is_uniform_under_no_difference():
    rng = np.random.default_rng(7)
    p_values = []
    for _ in range(200):
        first, second = (rng.integers(0, 2, 60).astype(float) for _ in range(2))
        p_values.append(paired_difference(first, second, [f"{k // 3}" for k in range(60)], resamples=200, seed=1).p)
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=0.07)


def test_intervals_take_questions_of_a_picture_together_and_have_width_at_one():
    rows = [question(k, cluster=f"{k // 10}") for k in range(200)]
    rng = np.random.default_rng(8)
    side = np.repeat(rng.integers(0, 2, 20), 10)
    scores = [column(value, 0.5) for value in side]
    together = suite_table(data_of("sugarcrepe", rows), Similarities(scores, [None] * 200)).line("swap_obj").score
    apart = [question(k, cluster=f"own {k}") for k in range(200)]
    alone = suite_table(data_of("sugarcrepe", apart), Similarities(scores, [None] * 200)).line("swap_obj").score
    assert together.high - together.low > 2.5 * (alone.high - alone.low)
    rows = rows[:6]
    sure = suite_table(data_of("sugarcrepe", rows), Similarities([column(1, 0)] * 6, [None] * 6)).line("swap_obj")
    assert sure.score.high == 1.0
    assert sure.score.low < 0.6


def test_an_averages_interval_counts_the_pictures_of_its_own_questions():
    """All is right: Wilson's interval ends at 1 / (1 + z^2 / n), with n the images of the average's subsets."""

    def lower_end(n):
        return 1 / (1 + 1.959964**2 / n)

    def table_of(sizes, shared):
        rows = [
            question(f"{name}{k}", name, cluster=f"{k}" if shared else f"{name}{k}")
            for name, size in sizes.items()
            for k in range(size)
        ]
        scores = Similarities([column(1.0, 0.0)] * len(rows), [None] * len(rows))
        return suite_table(data_of("sugarcrepe", rows), scores, resamples=5)

    def seven(**sizes):
        return dict.fromkeys(SUITES["sugarcrepe"].counts, 20) | sizes

    sizes = seven(swap_obj=10, add_att=500)
    table = table_of(sizes, shared=False)
    assert table.line("pooled").score.low == pytest.approx(lower_end(sum(sizes.values())))
    assert table.line("mean of 7").score.low == pytest.approx(lower_end(49 / sum(1 / n for n in sizes.values())))
    table = table_of(seven(), shared=True)  # the same 20 images in each subset
    assert table.line("mean of 7").score.low == pytest.approx(lower_end(20))
    sizes = {"prod/atom/4": 30, "prod/swap/4": 40, "syst/seen/laion/comp": 300}
    rows = [question(f"{name}{k}", name, cluster=f"{name}{k}") for name, size in sizes.items() for k in range(size)]
    table = suite_table(data_of("crepe", rows), Similarities([column(1.0, 0.0)] * 370, [None] * 370), resamples=5)
    lines = [line for line in table.averages if line.measure == "accuracy"]
    assert lines
    assert all(line.score.low < lower_end(100) for line in lines), "the other 300 images are not this average's"


def test_sets_are_right_when_all_of_them_are():
    rows = [question(k, "a", tuple("abcd"), sets={"pair": f"p{k // 2}", "set of four": "s"}) for k in range(4)]
    scores = [column(1, 0, 0, 0)] * 3 + [column(0, 1, 0, 0)]
    table = suite_table(data_of("whatsup", rows), Similarities(scores, [None] * 4))
    assert table.line("a", "pair").score.value == 0.5
    assert table.line("a", "pair").score.chance == pytest.approx(1 / 16)
    assert table.line("a", "set of four").score.value == 0.0


def test_statements_are_cut_where_the_other_folds_say():
    rows = [
        SuiteRow(str(k), "random", "statement", (NOTHING,), ("text",), f"i{k}", label=bool(k % 2)) for k in range(50)
    ]
    scores = [np.array([[0.30 + 0.01 * (k % 2)]]) for k in range(50)]
    outcomes = outcomes_of(rows, Similarities(scores, [None] * 50))
    assert outcomes["accuracy"].right.mean() == 1.0
    assert outcomes["accuracy"].chance[0] == 0.5


def test_statements_of_neighbouring_scores_are_told_apart():
    """Half way between two neighbouring floats may be the larger one, which must stay above the threshold."""
    low = np.nextafter(0.1, 1.0)  # of an odd last bit, so that the half rounds upwards
    high = np.nextafter(low, 1.0)
    assert (low + high) / 2 == high
    rows = [SuiteRow(f"{k}", "s", "statement", (NOTHING,), ("a",), f"{k}", label=k % 2 == 0) for k in range(20)]
    scores = [np.array([[high if k % 2 == 0 else low]]) for k in range(20)]
    assert outcomes_of(rows, Similarities(scores, [None] * 20))["accuracy"].right.all()


def reference_retrieval(similar, right, k):
    recall, precision, average = [], [], []
    for query, answers in right.items():
        # Wrong answers first among equals: a tie counts against.
        order = sorted(range(similar.shape[1]), key=lambda a: (-similar[query, a], a in answers))
        hits = [a in answers for a in order]
        size = len(answers)
        recall.append(any(hits[:k]))
        precision.append(sum(hits[:size]) / size)
        average.append(sum(hits[r] * sum(hits[: r + 1]) / (r + 1) for r in range(size)) / size)
    return np.mean(recall), np.mean(precision), np.mean(average)


def cosines(first, second):
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second)]
    return unit[0] @ unit[1].T


def test_retrieval_is_its_definition_with_ties():
    rng = np.random.default_rng(9)
    queries, answers = rng.integers(0, 2, (30, 4)).astype(float), rng.integers(0, 2, (50, 4)).astype(float)
    queries[:, 0] = answers[:, 0] = 1
    right = {q: sorted(rng.choice(50, rng.integers(1, 6), replace=False).tolist()) for q in range(0, 30, 2)}
    values, sizes = _values(right_ranks(queries, answers, right))
    assert sizes == [len(right[query]) for query in sorted(right)]
    for column, k in enumerate((1, 5, 10)):
        recall, precision, average = reference_retrieval(cosines(queries, answers), right, k)
        assert values.mean(axis=0)[[column, 3, 4]] == pytest.approx([recall, precision, average])


def test_a_gallery_is_searched_in_both_directions_by_every_set_of_judgements():
    rng = np.random.default_rng(3)
    images, texts = rng.standard_normal((30, 4)), rng.standard_normal((90, 4))
    own = {k: [3 * k, 3 * k + 1, 3 * k + 2] for k in range(30)}, {k: [k // 3] for k in range(90)}
    more = {k: [*own[0][k], (3 * k + 7) % 90] for k in range(0, 30, 2)}, {5: [1, 2, 9]}
    gallery = Gallery("own", (None,) * 30, ("",) * 90, {"original": own, "eccv": more})
    lines = {
        (line.judgements, line.direction, line.measure): line
        for line in gallery_table(gallery, images, texts, resamples=20)
    }
    assert len(lines) == 20
    for judgements, (captions_of, images_of) in gallery.right.items():
        for direction, similar, right in (
            ("image to text", cosines(images, texts), captions_of),
            ("text to image", cosines(texts, images), images_of),
        ):
            for k in (1, 5, 10):
                measured = reference_retrieval(similar, right, k)
                for measure, value in zip((f"R@{k}", "R-precision", "mAP@R"), measured, strict=True):
                    line = lines[judgements, direction, measure]
                    assert (line.score.value, line.queries) == (pytest.approx(value), len(right))
    with pytest.raises(ValueError, match="5 and 90 features for 30 images"):
        gallery_table(gallery, images[:5], texts)


def test_a_gallerys_chance_is_what_random_features_get():
    rng = np.random.default_rng(10)
    own = {k: [3 * k, 3 * k + 1, 3 * k + 2] for k in range(300)}, {k: [k // 3] for k in range(900)}
    gallery = Gallery("own", (None,) * 300, ("",) * 900, {"original": own})
    for line in gallery_table(gallery, rng.standard_normal((300, 64)), rng.standard_normal((900, 64)), resamples=20):
        right, size = (3, 900) if line.direction == "image to text" else (1, 300)
        if line.measure.startswith("R@"):
            k = int(line.measure.removeprefix("R@"))
            assert line.score.chance == pytest.approx(1 - math.comb(size - right, k) / math.comb(size, k))
        assert line.score.value == pytest.approx(line.score.chance, abs=0.03)


def test_random_orders_get_the_chance_of_map_at_r():
    rng = np.random.default_rng(11)
    right = {q: list(range(4)) for q in range(2000)}
    gallery = Gallery("own", (None,) * 2000, ("",) * 20, {"original": (right, {0: [0]})})
    lines = gallery_table(gallery, rng.standard_normal((2000, 30)), np.eye(30)[:20], resamples=1)
    (line,) = (line for line in lines if (line.direction, line.measure) == ("image to text", "mAP@R"))
    assert line.score.value == pytest.approx(line.score.chance, abs=0.01)


def test_bad_numbers_are_refused():
    rows = [question(0)]
    with pytest.raises(ValueError, match="level = 1"):
        suite_table(data_of("sugarcrepe", rows), Similarities([column(1, 0)], [None]), level=1)
    places = {k: [k] for k in range(12)}
    gallery = Gallery("pets", (None,) * 12, ("",) * 12, {"original": (places, places)})
    for score in (
        lambda **numbers: gallery_table(gallery, np.eye(12), np.eye(12), **numbers),
        lambda **numbers: paired_difference(np.ones(2), np.ones(2), ["a", "b"], **numbers),
    ):
        for numbers, message in (({"level": 1.0}, "level = 1.0"), ({"resamples": 0}, "resamples = 0")):
            with pytest.raises(ValueError, match=message):
                score(**numbers)
    with pytest.raises(ValueError, match="0 similarities for 1 questions"):
        outcomes_of(rows, Similarities([], []))
    with pytest.raises(KeyError, match="no line 'x'"):
        suite_table(data_of("sugarcrepe", rows * 1), Similarities([column(1, 0)], [None])).line("x")


def test_the_micro_suite_has_every_shape_and_holds_what_it_says():
    from eqben_builder.suites import micro_suite

    data = micro_suite(pairs=4, size=24)
    assert len(data.rows) == 4 * 3 * 5
    assert len({row.id for row in data.rows}) == len(data.rows)
    again = micro_suite(pairs=4, size=24)
    assert [row.captions for row in again.rows] == [row.captions for row in data.rows]
    assert all((a.images[0].content == b.images[0].content) for a, b in zip(data.rows, again.rows, strict=True))
    for row in data.rows:
        if row.shape == "captions":
            assert len(set(row.captions)) == 4
        if row.shape == "paraphrases":
            assert row.captions[0] != row.captions[1]
    with pytest.raises(ValueError, match="pairs = 0"):
        micro_suite(pairs=0)


def test_a_model_of_both_is_asked_for_each_combination_once_and_scored_by_shape():
    data, requests = micro_suite(pairs=2, size=16), []

    def mixed(image, text):
        return (image.astype(float).mean() * 7 + len(text) * 3.3) % 1

    def p_yes(images, captions):
        requests.extend((image.tobytes(), text) for image, text in zip(images, captions, strict=True))
        return [mixed(image, text) for image, text in zip(images, captions, strict=True)]

    expected = [[[mixed(image.load(), text) for image in row.images] for text in row.captions] for row in data.rows]
    calls = []
    for batch in (1, 5, 1000):
        requests.clear()
        similar = similarities_of(data.rows, p_yes, batch=batch, progress=lambda *step: calls.append(step))
        assert [s.tolist() for s in similar.values] == expected
        assert len(requests) == sum(len(row.captions) * len(row.images) for row in data.rows)
        assert calls[-1] == ("combinations", len(requests), len(requests))
    table = suite_table(data, similar)
    assert "both" in table.outcomes  # paraphrases
    assert "text only" not in table.outcomes
    with pytest.raises(ValueError, match=r"the model gave \(1,\) scores for \d+ combinations"):
        similarities_of(data.rows, lambda images, captions: [0.0])


def test_scores_of_a_suite_are_records(tmp_path):
    data = micro_suite(pairs=4, size=16)
    table = suite_table(data, similarities_of(data.rows, lambda images, captions: [float(len(c)) for c in captions]))
    records = suite_records("longest", table)
    assert len(records) == 1 + len(table.averages) + len(table.lines)
    for record, line in zip(records, (table.overall, *table.averages, *table.lines), strict=True):
        assert (record["score"], record["low"], record["high"], record["chance"]) == tuple(line.score)
        assert (record["name"], record["measure"], record["ties"]) == (line.name, line.measure, line.ties)
        assert set(record["blind_lines"]) == set(line.blind)
    assert json.loads(write_records(tmp_path / "s.json", records).read_text()) == json.loads(json.dumps(records))
    rows = list(csv.DictReader(write_records(tmp_path / "s.csv", records).read_text().splitlines()))
    assert [float(row["score"]) for row in rows] == [record["score"] for record in records]
    assert all(row["better"] == "" for row, record in zip(rows, records, strict=True) if record["better"] is None)
    with pytest.raises(ValueError, match=r"s.txt: expected a file that ends in .json or .csv"):
        write_records(tmp_path / "s.txt", records)


def test_resamples_of_a_gallery_are_drawn_in_parts_and_stay_the_same():
    values = np.random.default_rng(1).random((300, 5))
    whole = np.random.default_rng(7).multinomial(300, np.full(300, 1 / 300), 120) @ values / 300
    assert np.array_equal(_resampled(values, 120, np.random.default_rng(7)), whole)
    tracemalloc.start()
    _resampled(np.zeros((25_010, 5)), 1000, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all at once are 200 MB


def features_of(texts, images):
    """Features of captions "0", "1", … and of as many images as there are rows."""
    pictures = [Picture(content=bytes([k])) for k in range(len(images))]
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, texts)]
    numbers = {str(k): k for k in range(len(texts))}
    return Features(*units, {picture: k for k, picture in enumerate(pictures)}, numbers), pictures


@pytest.mark.parametrize("captions", [2, 3, 5, 9, 17])
def test_captions_of_equal_features_tie_wherever_they_stand(captions):
    rng = np.random.default_rng(captions)
    for width in (3, 64, 100, 512, 768):
        texts, images = (rng.standard_normal((count, width)).astype(np.float32) for count in (captions, 20))
        texts[-1] = texts[0]
        features, pictures = features_of(texts, images)
        names = tuple(map(str, range(captions)))
        rows = [SuiteRow(str(k), "s", "captions", (picture,), names, "0") for k, picture in enumerate(pictures)]
        outcome = outcomes_of(rows, similarities(rows, features))["accuracy"]
        assert not outcome.right.any()


def test_answers_of_equal_features_tie_in_a_gallery():
    rng = np.random.default_rng(0)
    for count, width in itertools.product((13, 100, 1003), (3, 17, 64, 100, 512)):
        answers = rng.standard_normal((count, width)).astype(np.float32)
        answers[-1] = answers[count // 2] = answers[0]
        for queries in range(1, 8):
            near = np.repeat(answers[:1] * 1.01 + 0.01, queries, axis=0)
            for right in (0, count - 1):
                assert [
                    ranks.tolist() for ranks in right_ranks(near, answers, {k: [right] for k in range(queries)})
                ] == [[3]] * queries


def test_paraphrases_keep_their_own_measure_beside_other_questions_of_their_size():
    texts, images = np.eye(3, dtype=np.float32) + 0.1, np.ones((2, 3), np.float32)
    features, pictures = features_of(texts, images)
    names = ("0", "1", "2")
    rows = [
        SuiteRow(str(k), "s", shape, (pictures[k],), names, "0") for k, shape in enumerate(("captions", "paraphrases"))
    ]
    own = similarities(rows, features).texts
    assert own[0] is None
    assert own[1] is not None
    assert own[1].shape == (3, 3)


def test_names_of_a_suites_file_are_no_formulas_of_a_table(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", 'a, "b"', "\x1b[2J", "plain", "x\ny"]
    write_records(tmp_path / "scores.csv", [dict.fromkeys(COLUMNS, 1) | {"name": name} for name in names])
    with (tmp_path / "scores.csv").open(newline="") as file:
        held = [row["name"] for row in csv.DictReader(file)]
    assert held == ["'=HYPERLINK(1)", 'a, "b"', "\\x1b[2J", "plain", "x\ny"]
