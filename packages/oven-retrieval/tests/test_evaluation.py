"""Official numbers, honest numbers, popularity and size of the knowledge base."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import Entity, EntityFileError, build_kb
from oven_retrieval.cli import main
from oven_retrieval.evaluation import (
    Estimate,
    Line,
    Prediction,
    Reference,
    accuracy,
    accuracy_by_popularity,
    accuracy_by_size,
    bar_figure,
    effective_size,
    evaluate_splits,
    harmonic_mean,
    line_figure,
    model_table,
    outcomes,
    read_splits,
    report_lines,
    split_scores,
    wilson,
)
from oven_retrieval.evaluation.files import read_predictions, read_references
from oven_retrieval.evaluation.scores import final_score, official_means, official_split
from oven_retrieval.vectors import ArrayRows


def references(seen, unseen, prefix="val"):
    kinds = [f"{prefix}_seen"] * seen + [f"{prefix}_unseen"] * unseen
    return [Reference(f"{prefix}{i}", f"Q{i}", kind) for i, kind in enumerate(kinds)]


def answers(reference_list, right):
    return [Prediction(r.data_id, r.entity_id if i in right else "Q-1") for i, r in enumerate(reference_list)]


def test_official_numbers_round_before_the_mean():
    reference_list = references(3, 7)
    query = answers(reference_list, {0, 3, 4})  # 33.33 and 28.57, whose mean is not that of 1/3 and 2/7
    entity = answers(reference_list, {0, 1, 3, 4, 5, 6, 7, 8})
    splits = official_split(reference_list, query), official_split(reference_list, entity)
    assert splits == ((33.33, 28.57), (66.67, 85.71))
    q, e = 2 / (1 / 33.33 + 1 / 28.57), 2 / (1 / 66.67 + 1 / 85.71)
    final = round(2 / (1 / q + 1 / e), 2)
    assert official_means(*splits) == {
        "query_score": round(q, 2), "entity_score": round(e, 2), "final_score": final
    }  # fmt: skip


def test_official_numbers_of_a_published_row():
    """The released zero-shot BLIP-2 row: 24.63 and 17.68, 8.55 and 3.4 give 20.58, 4.87 and 7.87."""
    assert round(harmonic_mean(24.63, 17.68), 2) == 20.58
    assert round(harmonic_mean(8.55, 3.4), 2) == 4.87
    assert round(harmonic_mean(harmonic_mean(24.63, 17.68), harmonic_mean(8.55, 3.4)), 2) == 7.87


def test_official_quirks_and_the_honest_numbers_beside_them():
    reference_list = references(4, 2)
    prediction_list = [*answers(reference_list, {0, 4}), Prediction("val0", "Q0"), Prediction("val0", "Q0")]
    without = [p for p in prediction_list if p.data_id not in {"val2", "val3"}]
    assert official_split(reference_list, without) == (75.0, 50.0)  # 3 of 4 answers, though 1 of 4 questions
    marked = outcomes(reference_list, without)
    honest = split_scores(marked)
    assert (honest.seen.value, honest.unseen.value) == (25.0, 50.0)
    assert (honest.questions, honest.missing, honest.duplicates, honest.unknown) == (6, 2, 2, 0)
    assert official_split(reference_list, answers(reference_list, set())) == (0.0, 0.0)
    right = official_split(reference_list, answers(reference_list, {0, 4}))
    assert official_means(official_split(reference_list, answers(reference_list, set())), right)["final_score"] == 0.0


def test_of_several_seen_splits_the_last_counts():
    reference_list = [*references(2, 1, "val"), *references(2, 1, "test")]
    prediction_list = answers(reference_list, {0, 1, 2, 5})
    assert official_split(reference_list, prediction_list) == (0.0, 100.0)
    assert official_split(reference_list, prediction_list[::-1]) == (100.0, 100.0)


@pytest.mark.parametrize(
    ("prediction_list", "expected"),
    [
        ([Prediction("other", "Q1")], "data_id: 'other' is predicted and not among the references"),
        ([Prediction("val0", "Q1")], "expected some for unseen questions, got none"),
        ([], "expected some for seen and unseen questions, got none"),
    ],
)
def test_official_refusals(prediction_list, expected):
    with pytest.raises(ValueError, match=expected):
        official_split(references(1, 1), prediction_list)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60), st.randoms(use_true_random=False))
def test_complete_files_give_the_same_accuracies_in_any_order(questions, random):
    kinds = [True, False, *(seen for seen, _ in questions)]
    right = [True, True, *(correct for _, correct in questions)]
    references = [Reference(str(i), f"Q{i}", "test_seen" if seen else "test_unseen") for i, seen in enumerate(kinds)]
    prediction_list = answers(references, {i for i, correct in enumerate(right) if correct})
    random.shuffle(prediction_list)
    official, honest = official_split(references, prediction_list), split_scores(outcomes(references, prediction_list))
    assert official == (round(honest.seen.value, 2), round(honest.unseen.value, 2))
    assert honest.missing == honest.duplicates == honest.unknown == 0


def test_a_question_answered_twice_is_right_only_if_both_are():
    reference_list = references(3, 0)
    prediction_list = [
        Prediction("val0", "Q0"),
        Prediction("val0", "Q0"),
        Prediction("val1", "Q1"),
        Prediction("val1", "Q9"),
    ]
    assert outcomes(reference_list, prediction_list).correct.tolist() == [True, False, False]
    with pytest.raises(ValueError, match="data_id: 'val0' occurs twice among the references"):
        outcomes([reference_list[0], reference_list[0]], [])


def test_intervals_cover_the_truth_and_repeat():
    rng, covered, repeats = np.random.default_rng(5), 0, 200
    truth = harmonic_mean(40.0, 20.0)
    reference_list = references(300, 300)
    for _ in range(repeats):
        right = {
            *np.flatnonzero(rng.random(300) < 0.4).tolist(),
            *(300 + np.flatnonzero(rng.random(300) < 0.2)).tolist(),
        }
        interval = split_scores(outcomes(reference_list, answers(reference_list, right))).harmonic
        covered += interval.low <= truth <= interval.high
    assert 0.89 <= covered / repeats <= 0.99
    marked = outcomes(reference_list, answers(reference_list, right))
    assert final_score(marked, marked) == final_score(marked, marked)


def test_nothing_right_and_all_right_are_not_certain():
    reference_list = references(17, 17)
    nothing = split_scores(outcomes(reference_list, []))
    assert nothing.seen == pytest.approx((0.0, 0.0, 18.43), abs=0.01)  # SciPy's Wilson: 0.1843
    assert nothing.harmonic.low < 1e-11
    assert 1 < nothing.harmonic.high < 18.43
    everything = split_scores(outcomes(reference_list, answers(reference_list, range(34))))
    assert everything.unseen == pytest.approx((100.0, 81.57, 100.0), abs=0.01)
    assert 80 < everything.harmonic.low < everything.harmonic.high == 100
    marked = outcomes(reference_list, [])
    assert final_score(marked, marked).high > 1


@pytest.mark.parametrize("field", ["entity_id", "image_id"])
def test_questions_of_one_entity_or_image_are_not_independent(field):
    rng, covered, naive, repeats, groups, size = np.random.default_rng(3), 0, 0, 200, 60, 20
    labels = [f"g{i // size}" for i in range(groups * size)]
    truth = 100 / 3
    for _ in range(repeats):
        right = rng.random(groups * size) < np.repeat(rng.beta(0.5, 1.0, groups), size)
        rows = [
            Reference(str(i), *((label, "val_seen") if field == "entity_id" else (str(i), "val_seen", label)))
            for i, label in enumerate(labels)
        ]
        rows.append(Reference("last", "last", "val_unseen"))
        marked = outcomes(
            rows, [Prediction(r.data_id, r.entity_id) for r, hit in zip(rows, right, strict=False) if hit]
        )
        seen = split_scores(marked).seen
        covered += seen.low <= truth <= seen.high
        independent = wilson(int(right.sum()), len(right))
        naive += independent.low <= truth <= independent.high
    assert 0.9 <= covered / repeats <= 0.99
    assert naive / repeats < 0.7


def test_effective_sizes_at_the_ends():
    none, labels = np.zeros(12, np.bool_), ["a"] * 6 + ["b"] * 6
    assert effective_size(none) == 12
    assert effective_size(none, labels) == 2
    assert effective_size(none, labels, [""] * 12) == 2  # without a label each is alone
    assert effective_size(np.array([True, False] * 6), ["a"] * 12) == 1
    assert accuracy(none, labels).high == wilson(0, 2).high
    bins = accuracy_by_popularity(none, [5.0] * 12, labels)
    assert bins[0].accuracy == accuracy(none, labels)
    with pytest.raises(ValueError, match="entities: expected one per question, 12, got 1"):
        accuracy_by_popularity(none, [5.0] * 12, ["a"])


def test_a_split_without_unseen_questions_is_refused():
    with pytest.raises(ValueError, match="references: expected questions of unseen entities, got none"):
        split_scores(outcomes(references(1, 0), []))


def test_files(tmp_path):
    path = tmp_path / "ref.jsonl"
    record = {
        "data_id": "d1",
        "image_id": "i",
        "question": "q?",
        "entity_id": "Q1",
        "entity_text": "T",
        "data_split": "val_seen",
    }
    path.write_text(json.dumps(record) + "\n\n", encoding="utf-8")
    assert read_references(path) == [Reference("d1", "Q1", "val_seen", "i", "q?", "T")]
    path.write_text(
        '{"data_id": "d1", "pred_entity_id": "Q1", "extra": [1]}\n{"data_id": "d2", "pred_entity_id": null}\n'
    )
    assert read_predictions(path) == [Prediction("d1", "Q1"), Prediction("d2", "")]


@pytest.mark.parametrize(
    ("read", "line", "expected"),
    [
        (read_references, '{"data_id": "1", "entity_id": "Q1", "data_split": "val"}',
         "data_split: expected a name with _seen or _unseen in it, got 'val'"),
        (read_references, '{"data_id": "1", "entity_id": " ", "data_split": "val_seen"}',
         "entity_id: expected a text that is not blank"),
        (read_references, '{"data_id": 1, "entity_id": "Q1", "data_split": "val_seen"}',
         "data_id: expected a text, got 1"),
        (read_predictions, '{"data_id": "1"}', r"pred_entity_id: missing; the fields are \['data_id'\]"),
        (read_predictions, '{"pred_entity_id": "Q1"}', "data_id: expected a text, missing"),
        (read_predictions, "nonsense", "expected one JSON object per line"),
    ],
)  # fmt: skip
def test_bad_rows_name_file_line_and_field(tmp_path, read, line, expected):
    path = tmp_path / "x.jsonl"
    path.write_text("\n" + line + "\n", encoding="utf-8")
    with pytest.raises(EntityFileError, match=f"x.jsonl:2: {expected}"):
        read(path)


def test_popularity_bins():
    bins = accuracy_by_popularity([1, 1, 0, 1], [0, 99.9, 100, 5000])
    assert [(b.low, b.high, b.questions, b.accuracy.value) for b in bins] == [
        (0, 100, 2, 100), (100, 1000, 1, 0), (5000, float("inf"), 1, 100)]  # fmt: skip
    with pytest.raises(ValueError, match=r"popularity: expected at least 0, got nan"):
        accuracy_by_popularity([1], [float("nan")])
    with pytest.raises(ValueError, match="one value per question"):
        accuracy_by_popularity([1], [1, 2])
    with pytest.raises(ValueError, match="got 3, 2"):
        wilson(3, 2)


@pytest.mark.parametrize("depth", [60, 7])
def test_accuracy_by_size_equals_searching_each_sample(depth):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(60, 5)).astype(np.float32)
    truth = rng.integers(0, 60, 25)
    reference_list = base[truth] + rng.normal(size=(25, 5)).astype(np.float32)
    positives = np.unique(truth)
    sizes = [len(positives), 40, 60]
    points = accuracy_by_size(reference_list, truth, ArrayRows(base), sizes, draws=2, depth=depth, seed=4)
    for point in points:
        values = []
        for draw in range(2):
            distractors = np.setdiff1d(np.arange(60), positives)
            order = np.random.default_rng([4, draw]).permutation(distractors)
            sample = np.concatenate([positives, order[: point.size - len(positives)]])
            best = sample[np.argmax(reference_list @ base[sample].T, axis=1)]
            values.append(100 * np.mean(best == truth))
        if depth == 60:
            assert point.accuracy == (np.mean(values), min(values), max(values))
        else:
            assert point.accuracy.value <= np.mean(values)
    assert points[-1].accuracy.value == 100 * np.mean(np.argmax(reference_list @ base.T, axis=1) == truth)
    with pytest.raises(ValueError, match=r"sizes: expected from \d+ \(the right entities\) to 60, got 61"):
        accuracy_by_size(reference_list, truth, ArrayRows(base), [61])
    with pytest.raises(ValueError, match="truth: expected 25 rows from 0 to 59"):
        accuracy_by_size(reference_list, truth + 60, ArrayRows(base), [60])


def test_files_are_scored_side_by_side(tmp_path):
    reference_list = references(4, 4)
    (tmp_path / "ref").write_text(
        "".join(
            json.dumps({"data_id": r.data_id, "entity_id": r.entity_id, "data_split": r.data_split}) + "\n"
            for r in reference_list
        )
    )
    for name, right, left_out in (("whole", {0, 1, 4}, 8), ("part", {0, 1, 4}, 6), ("seen", {0}, 3)):
        rows = [
            {"data_id": p.data_id, "pred_entity_id": p.entity_id} for p in answers(reference_list, right)[:left_out]
        ]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole, part, seen = ((tmp_path / "ref", tmp_path / name) for name in ("whole", "part", "seen"))
    result = evaluate_splits(read_splits(query=whole, entity=part))
    assert result["official"]["query"] == {"seen": 50.0, "unseen": 25.0}
    assert result["official"]["entity"] == {"seen": 50.0, "unseen": 50.0}
    assert result["honest"]["entity"]["unseen"][0] == 25.0
    assert result["official"]["final_score"] == round(harmonic_mean(harmonic_mean(50.0, 25.0), 50.0), 2)
    lines = report_lines(result)
    assert any("2 without an answer" in line for line in lines)
    assert lines[-1].startswith("both    harmonic  33.33 [")
    assert lines[-1].endswith("official 40.00")
    alone = evaluate_splits(read_splits(entity=seen))
    assert report_lines(alone)[-1] == "official numbers: predictions: expected some for unseen questions, got none"
    assert "final" not in alone["honest"]
    with pytest.raises(ValueError, match="expected the files of at least one split, got none"):
        read_splits()


def test_outcomes_are_compared_and_hashed():
    marked = [outcomes([Reference("a", "Q1", "val_seen")], [Prediction("a", "Q1", 0.9)]) for _ in range(2)]
    assert marked[0] == marked[0]
    assert len(set(marked)) == 2


def test_figures_show_every_model_and_refuse_what_cannot_be_drawn():
    svg = line_figure([Line("a <b>", [(100, 20.0), (1000, 10.0)]), Line("c", [(100, 5.0)])], "entities", log=True)
    root = ElementTree.fromstring(svg)  # our own text
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (names.count("polyline"), names.count("circle")) == (2, 3)
    places = [element.attrib["points"] for element in root.iter() if element.tag.endswith("polyline")]
    (x0, y0), (x1, y1) = (map(float, pair.split(",")) for pair in places[0].split())
    assert x0 < x1
    assert y0 < y1  # accuracy falls, and SVG counts downwards
    assert "a &lt;b&gt;" in svg
    for lines, log, message in (
        ([], False, "expected finite points"),
        ([Line("a", [(1, float("nan"))])], False, "expected finite points"),
        ([Line("a", [(0, 1.0)])], True, "expected x above 0 on a logarithmic axis, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            line_figure(lines, "x", log=log)
    bars = {"one model": [Estimate(20.0, 15.0, 26.0), None], "other": [Estimate(0.0, 0.0, 3.0)] * 2}
    root = ElementTree.fromstring(bar_figure(["from 0", "from 100"], bars, "page views"))
    heights = [float(e.attrib["height"]) for e in root.iter() if e.tag.endswith("rect") and len(e)]
    assert len(heights) == 3
    assert heights[0] > 100 > 1e-9 >= heights[1]
    with pytest.raises(ValueError, match=r"expected one estimate for each of 1 groups, got \{'a': 2\}"):
        bar_figure(["g"], {"a": [None, None]}, "x")


def test_bins_of_popularity_of_ones_own():
    bins = accuracy_by_popularity([1, 0, 1], [5, 50, 9000], edges=(0, 10, 1000))
    assert [(each.low, each.high, each.questions) for each in bins] == [(0, 10, 1), (10, 1000, 1), (1000, np.inf, 1)]
    for edges in ((), (1, 2), (0, 5, 5)):
        with pytest.raises(ValueError, match="edges: expected numbers that rise from 0"):
            accuracy_by_popularity([1], [1], edges=edges)


def write_split(folder, name, right_of):
    rows = references(4, 4, name)
    lines = [{"data_id": r.data_id, "entity_id": r.entity_id, "data_split": r.data_split} for r in rows]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for model, right in right_of.items():
        given = [{"data_id": a.data_id, "pred_entity_id": a.entity_id} for a in answers(rows, right)]
        (folder / f"{model}-{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in given))


def run_eval(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    printed = capsys.readouterr()
    return ended.value.code or 0, printed.out, printed.err


def test_several_models_three_splits_and_a_figure(tmp_path, capsys, monkeypatch):
    pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    for split in ("query", "entity", "human"):
        write_split(tmp_path, split, {"clip": {0, 4}, "pali": {0, 1, 4, 5, 6}})
    build_kb((Entity(f"Q{i}", f"name {i}", popularity=10.0**i) for i in range(8)), "project/kb")
    given = []
    for split in ("query", "entity", "human"):
        given += [f"--{split}-reference", f"{split}.jsonl"]
        given += [part for model in ("clip", "pali") for part in (f"--{split}-predictions", f"{model}-{split}.jsonl")]
    names = ["--name", "CLIP", "--name", "PaLI"]
    status, out, err = run_eval(capsys, "eval", *given, *names, "--kb", "project", "--figure", "f.svg")
    assert status == 0, err
    table = [line.split() for line in out.splitlines()[-4:-1]]
    assert table[0][0] == "model"
    assert table[1] == ["CLIP", *["25.0"] * 6, "25.0", "25.0", "25.0", "25.0"]
    assert table[2][:4] == ["PaLI", "50.0", "75.0", "60.0"]
    root = ElementTree.fromstring((tmp_path / "f.svg").read_text())
    assert sum(e.tag.endswith("rect") and len(e) > 0 for e in root.iter()) == 8  # four bins, two models
    status, out, _ = run_eval(capsys, "eval", *given, *names, "--json")
    results = json.loads(out)
    assert results["PaLI"]["honest"]["human"]["unseen"][0] == 75.0
    assert results["PaLI"]["official"]["human_score"] == 60.0
    assert results["PaLI"]["official"]["final_score"] == 60.0
    for arguments, message in (
        (["--human-reference", "human.jsonl"], "expected both --human-reference and --human-predictions"),
        (
            [*given, "--query-predictions", "clip-query.jsonl"],
            "for each split, got 3 of query, 2 of entity",
        ),
        ([*given, "--name", "CLIP"], "expected a --name for each of 2 models, got 1"),
        ([*given, "--name", "a", "--name", "a"], "two models are called 'a'"),
        ([*given, "--page", "p.html"], "--page shows one model, got 2"),
        ([*given, "--figure", "f.svg"], "--figure needs --kb"),
        ([*given, "--edges", "0,x"], "--edges: expected numbers with commas"),
    ):
        status, _, err = run_eval(capsys, "eval", *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert message in err
    part = {"honest": {"query": dict.fromkeys(("seen", "unseen", "harmonic"), (0,))}}
    with pytest.raises(ValueError, match="b: expected the splits query, got human"):
        model_table({"a": part, "b": {"honest": {"human": {}}}})


def test_groups_named_by_whole_numbers_are_groups() -> None:
    """0 was no label, and 3 that of the question at place 3."""
    correct = np.repeat([True, False, True, False], 4)
    numbers = np.repeat([0, 3, 2, 5], 4).tolist()
    named = [f"group {number}" for number in numbers]
    assert effective_size(correct, numbers) == effective_size(correct, named) < 4  # type: ignore[arg-type]


def test_answers_and_clusters_that_do_not_fit_are_refused() -> None:
    """Labels of one of four questions gave an interval; a list with clusters ended in a TypeError."""
    labels = ["a", "a", "b", "b"]
    assert accuracy([1, 0, 1, 1], labels) == accuracy(np.array([True, False, True, True]), labels)  # type: ignore[arg-type]
    for take in (accuracy, effective_size):
        with pytest.raises(ValueError, match="clusters: 1 labels for 4 questions; expected one for each"):
            take(np.ones(4, np.bool_), ["a"])
        with pytest.raises(ValueError, match=r"correct: the value at \[0\] is 0\.5; expected 0 or 1"):
            take(np.array([0.5, 1.0]))
        with pytest.raises(ValueError, match="expected one value for each question, at least one"):
            take(np.zeros(0, np.bool_))
    for values in ((), (-1.0, 1.0)):
        with pytest.raises(ValueError, match="values: expected numbers of at least 0"):
            harmonic_mean(*values)


def test_edges_of_popularity_may_be_an_array() -> None:
    expected = accuracy_by_popularity([1, 0, 1], [5, 50, 9000], edges=(0, 10, 1000))
    assert accuracy_by_popularity([1, 0, 1], [5, 50, 9000], edges=np.array([0, 10, 1000])) == expected
    for edges in (np.array([]), np.array([0, np.nan]), np.array([1, 2])):
        with pytest.raises(ValueError, match="edges: expected numbers that rise from 0"):
            accuracy_by_popularity([1], [1], edges=edges)


@pytest.mark.parametrize("missing", [None, "", float("nan"), np.float64("nan")])
def test_questions_without_an_entity_are_each_on_their_own(missing: object) -> None:
    """NaN, as pandas holds what is missing, was one entity of them all."""
    right = [True, True, False, False, True, False]
    labels = ["a", "a", "b", "b", missing, missing]
    expected = effective_size(np.array(right), ["a", "a", "b", "b", "c", "d"])
    assert effective_size(np.array(right), labels) == expected


def test_questions_without_an_entity_in_a_column_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    right = np.array([True, True, False, False, True, False])
    labels = pandas.Series(["a", "a", "b", "b", pandas.NA, pandas.NA], dtype="string")
    assert effective_size(right, labels) == effective_size(right, ["a", "a", "b", "b", "", ""])
