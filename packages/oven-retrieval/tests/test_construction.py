"""Building a benchmark: screening, linking in two stages, questions, splits, files that the evaluation reads."""

from __future__ import annotations

import errno
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval import Entity, EntityFileError, build_kb, build_linker
from oven_retrieval.construction import LabelledImage, SplitRules, link_labels, make, make_benchmark, read_labels
from oven_retrieval.construction.make import make_question, read_templates
from oven_retrieval.construction.screening import label_problem, question_problem, read_blocklist
from oven_retrieval.construction.splits import Example, split_examples
from oven_retrieval.evaluation import Prediction, evaluate_splits, outcomes, read_splits
from oven_retrieval.evaluation.files import read_references

KB = [
    Entity("Q1", "Tornado", description="A violent column of air.", category="weather", popularity=9),
    Entity("Q2", "Panavia Tornado", aliases=("Tornado",), category="aircraft"),
    Entity("Q3", "Mercury", description="Mercury may refer to: a planet, a god."),
    Entity("Q4", "Mercury planet", category="planet"),
    Entity("Q5", "Mandarin duck", aliases=("Aix galericulata",), category="bird"),
    Entity("Q6", "Sculptor", category="person"),
    Entity("Q7", "two"),
    *(Entity(f"P{i}", f"Plant number {chr(97 + i)}", category="plant") for i in range(20)),
]


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    return build_linker(build_kb(KB, tmp_path_factory.mktemp("kb") / "kb"))


def link(linker, label, category=""):
    label_link = link_labels(linker, [(label, category)])[0]
    return (
        linker.kb.ids[label_link.row] if label_link.row >= 0 else None,
        label_link.step,
        label_link.rivals,
        label_link.problem,
    )


def test_two_stages(linker):
    assert link(linker, "Aix galericulata") == ("Q5", "exact alias", 0, None)
    assert link(linker, "mandarin DUCK") == ("Q5", "folded name", 0, None)
    assert link(linker, "Tornado") == ("Q1", "exact name", 0, None)
    assert link(linker, "Tornado", "Aircraft") == ("Q2", "exact alias", 0, None)
    # the exact match is a disambiguation page: refused, and the second stage passes over it too
    assert link(linker, "Mercury") == ("Q4", "bm25", 0, None)
    assert link(linker, "wild mandarin duck") == ("Q5", "ngrams", 0, None)
    assert link(linker, "duck") == ("Q5", "bm25", 0, None)
    assert link(linker, "a very long text about some duck")[3] == "no entity with such a name"
    assert link(linker, "zzz")[3] == "no entity with such a name"
    assert link(linker, "two tornados")[3] == "no entity with such a name"  # and not the number
    assert link(linker, "two")[:2] == ("Q7", "exact name")  # whoever screens nothing gets what was asked for


def test_ambiguous_names(tmp_path):
    twins = [Entity("1", "Spring", category="season"), Entity("2", "Spring", category="device", popularity=5)]
    linker = build_linker(build_kb(twins, tmp_path / "kb"))
    assert link(linker, "Spring") == ("2", "exact name", 1, None)
    assert link(linker, "Spring", "season") == ("1", "exact name", 0, None)


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ("3.5", "number"), ("twenty-one", "number"), ("2,000", "number"), ("١٢", "number"), ("No", "verdict"),
        ("1990s", "date or time"), ("March 2011", "date or time"), ("5 pm", "date or time"), ("…", "no word"),
        ("B", "no word"), ("Boeing 737", None), ("One Direction", None), ("March", None), ("猫", None),
        ("X-ray", None), ("🦆", None),
    ],
)  # fmt: skip
def test_labels_that_are_no_entities(label, problem):
    assert label_problem(label) == problem


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("How many people are there?", "counting question"),
        ("what is the number of the bus?", "counting question"),
        ("Are these ducks?", "verification question"),
        ("Does it fly?", "verification question"),
        ("What time is it?", "attribute question"),
        ("When was this built?", "attribute question"),
        ("What is the color of the car?", "attribute question"),
        ("which year was this taken?", "attribute question"),
        ("What island is this?", None),
        ("What is the name of the bird?", None),
        ("which time-keeping device is this?", "attribute question"),
    ],
)
def test_questions_that_want_no_entity(question, problem):
    assert question_problem(question) == problem


def test_questions_from_categories():
    assert make_question("Aves") == "what is the species of the bird in this image?"
    assert make_question("") == "what is the main object in this image?"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"label": "x"}', r"labels.jsonl:2: image_id: missing"),
        ('{"image_id": "x"}', r"labels.jsonl:2: label: missing"),
        ('{"image_id": "x", "label": ""}', r"labels.jsonl:2: label: expected a text that is not blank"),
        ('{"image_id": "x", "label": ["y"]}', r"labels.jsonl:2: label: expected a text"),
        ("{", r"labels.jsonl:2: expected one JSON object"),
    ],
)
def test_bad_lines_name_file_line_and_field(tmp_path, line, message):
    path = tmp_path / "labels.jsonl"
    path.write_text('{"image_id": 1, "label": "ok"}\n' + line, encoding="utf-8")
    with pytest.raises(EntityFileError, match=message):
        list(read_labels(path))


def test_a_row_with_more_cells_than_the_header_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("image_id,label\n1,duck\n2,goose,extra\n", encoding="utf-8")
    with pytest.raises(EntityFileError, match=r"labels.csv:3: expected 2 cells, got more"):
        list(read_labels(tmp_path / "labels.csv"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('image_id,label\ni1,"duck\ni2,goose\ni3,disc 5"\ni4,swan\n', r":2: a quote opens .* holds the row 'i2,goose'"),
        ('label,image_id\n"duck,i1\ndisc 5",i3\nswan,i4\n', r":2: a quote opens .* holds the row 'duck,i1'"),
        ('image_id,label\na,"duck\nb,goose"\n', r":2: expected label on one line"),
        ("image_id,label,label\ni1,duck,goose\n", r":1: column 'label' comes twice"),
        ("i1,duck\n", r":1: expected a header with image_id and label; the first line is 'i1', 'duck'"),
        ("", r":1: expected a header with image_id and label; the first line is empty"),
    ],
)
def test_no_row_of_labels_is_lost_in_another_or_taken_for_the_header(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    with pytest.raises(EntityFileError, match=message):
        list(read_labels(tmp_path / "labels.csv"))


def test_half_a_letter_is_kept_as_an_escape(linker, tmp_path):
    labels = [LabelledImage("i1", "wood duck"), LabelledImage("i\ud800", "wood duck"), LabelledImage("i3", "a\udfff")]
    make_benchmark(labels, linker, tmp_path / "made")
    lines = [line for file in (tmp_path / "made").glob("*.jsonl") for line in file.read_text("utf-8").splitlines()]
    records = [json.loads(line) for line in lines]
    assert any(record.get("image_id") == "i\ud800" for record in records)
    assert any(record.get("label") == "a\udfff" for record in records)


def test_a_folder_of_the_users_that_is_called_like_an_unfinished_one_stays(linker, tmp_path):
    (tmp_path / "made.partial").mkdir()
    (tmp_path / "made.partial" / "thesis.txt").write_text("mine")
    make_benchmark([LabelledImage("i1", "wood duck")], linker, tmp_path / "made")
    with pytest.raises(ValueError, match="there are none"):
        make_benchmark([], linker, tmp_path / "other")
    assert (tmp_path / "made.partial" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(("name", "text"), [("labels.csv", "image_id,label\n"), ("labels.jsonl", "\n")])
def test_no_benchmark_is_made_of_no_labels(linker, tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="labels: expected labelled images, there are none"):
        make_benchmark(read_labels(tmp_path / name), linker, tmp_path / "made")
    assert [file.name for file in tmp_path.iterdir() if not file.name.endswith(".lock")] == [name]


examples = st.lists(
    st.builds(Example, st.integers(0, 12).map(str), st.integers(0, 9).map(str), st.sampled_from("ab")), max_size=40
)


@settings(max_examples=200, deadline=None)
@given(examples, st.floats(0.1, 0.9), st.integers(0, 5), st.randoms())
def test_the_rules_of_the_splits(items, unseen, seed, random):
    rules = SplitRules(unseen=unseen, unseen_val=0.4, val=0.2, test=0.3, seed=seed)
    splits = split_examples(items, rules)
    images, entities = defaultdict(set), defaultdict(set)
    for item, split in zip(items, splits, strict=True):
        if split:
            images[item.image_id].add(split.partition("_")[0])
            entities[split].add(item.entity_id)
    assert all(len(parts) == 1 for parts in images.values())
    assert not entities["train"] & (entities["val_unseen"] | entities["test_unseen"])
    assert not entities["val_unseen"] & entities["test_unseen"]
    assert entities["val_seen"] | entities["test_seen"] <= entities["train"]
    shuffled = list(range(len(items)))
    random.shuffle(shuffled)
    again = split_examples([items[i] for i in shuffled], rules)
    assert [splits[i] for i in shuffled] == again


def test_shares_of_the_splits():
    items = [Example(str(i), f"Q{i % 300}", "ab"[i % 300 < 60]) for i in range(6000)]
    splits = split_examples(items, SplitRules())
    by = defaultdict(set)
    for item, split in zip(items, splits, strict=True):
        by[split].add(item.entity_id)
    assert len(by["test_unseen"]) == 150
    assert len(by["val_unseen"]) == 30
    small = {f"Q{i}" for i in range(60)}
    assert abs(len((by["test_unseen"] | by["val_unseen"]) & small) - 36) <= 1
    assert 0.07 < np.mean([split == "test_seen" for split in splits]) / 0.4 < 0.13
    for options in ({"unseen": 0}, {"val": 1.0}, {"val": 0.6, "test": 0.5}):
        with pytest.raises(ValueError, match="expected"):
            SplitRules(**options)


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def labels():
    items = [
        LabelledImage(f"i{p}-{i}", f"plant number {chr(97 + p)}", "plant", source="flora", line=20 * p + i)
        for p in range(20)
        for i in range(20)
    ]
    return [
        *items,
        LabelledImage("v1", "mandarin duck", question="What bird  is this?"),
        LabelledImage("v2", "Mandarin duck", question="Is this a bird?"),
        LabelledImage("v3", "7"),
        LabelledImage("v4", "Sculptor"),
        LabelledImage("v5", "forbidden plant"),
        LabelledImage("v6", "zzz"),
        LabelledImage("v7", "Tornado", "aircraft"),
        LabelledImage("v7", "Tornado", "aircraft"),
        LabelledImage("v8", "Tornado", question="What do you see?"),
        LabelledImage("v8", "Mandarin duck", question="What do you see?"),
    ]


def test_a_benchmark_from_end_to_end(linker, tmp_path):
    blocked = {"forbidden plant"}
    report = make_benchmark(labels(), linker, tmp_path / "made", blocked=blocked)
    assert report["labelled_images"] == 410
    dropped = rows_of(tmp_path / "made" / "dropped.jsonl")
    reasons = {
        "blocklist": 1,
        "number": 1,
        "verification question": 1,
        "no entity with such a name": 1,
        "repeated example": 1,
        "several answers to one question": 2,
    }
    assert report["dropped"] == reasons
    assert len(dropped) == sum(reasons.values())
    references = []
    for name in ("entity_val", "entity_test"):
        references += read_references(tmp_path / "made" / f"{name}.jsonl")
    train = rows_of(tmp_path / "made" / "entity_train.jsonl")
    assert len({r.data_id for r in references}) == len(references)
    assert not {r["entity_id"] for r in train} & {r.entity_id for r in references if "_unseen" in r.data_split}
    assert references[0].question == "what is the species of the plant in this image?"
    test = tmp_path / "made" / "entity_test.jsonl"
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(
            json.dumps({"data_id": r.data_id, "pred_entity_id": r.entity_id}) + "\n" for r in read_references(test)
        ),
        encoding="utf-8",
    )
    assert evaluate_splits(read_splits(entity=(test, answers)))["honest"]["entity"]["harmonic"].value == 100
    assert outcomes(references, [Prediction(r.data_id, "") for r in references]).correct.sum() == 0
    make_benchmark(reversed(labels()), linker, tmp_path / "again", blocked=blocked)
    files = sorted((tmp_path / "made").glob("*_*.jsonl"))
    assert len(files) >= 4
    for file in files:
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()
    with pytest.raises(FileExistsError, match="expected a new folder"):
        make_benchmark([], linker, tmp_path / "made")


def test_rare_entities_are_left_out_and_nothing_is_half_made(linker, tmp_path, monkeypatch):
    report = make_benchmark(labels(), linker, tmp_path / "made", least_examples=20)
    assert report["dropped"]["entity with fewer than 20 examples"] == 3
    with pytest.raises(ValueError, match="least_examples: expected at least 1, got 0"):
        make_benchmark([], linker, tmp_path / "other", least_examples=0)

    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        make_benchmark(labels(), linker, tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_blocklist_from_a_file(tmp_path):
    (tmp_path / "block.txt").write_text("# reasons\n\nBad Word\n", encoding="utf-8")
    assert read_blocklist(tmp_path / "block.txt") == {"bad word"}


def test_a_model_is_the_second_stage(linker, tmp_path):
    kb, requests = linker.kb, []

    def second(texts):
        requests.extend(texts)
        return [[-1], [0, 1], []][: len(texts)]

    names = [("mandarin duck", ""), ("zzz", ""), ("a bird of the lake", ""), ("yyy", "")]
    links = link_labels(linker, names, second=second)
    assert requests == ["zzz", "a bird of the lake", "yyy"]  # not what has an exact name
    assert links[0].step in ("exact name", "folded name", "exact alias", "folded alias")
    assert [(link.row, link.step, link.problem) for link in links[1:]] == [
        (-1, "", "no entity with such a name"),
        (0, "second stage", None),
        (-1, "", "no entity with such a name"),
    ]
    with pytest.raises(ValueError, match="second: expected candidates for 3 labels, got 1"):
        link_labels(linker, names, second=lambda texts: [[0]])
    with pytest.raises(ValueError, match=rf"second: 'zzz': expected rows below {len(kb)}, got {len(kb)}"):
        link_labels(linker, names, second=lambda texts: [[len(kb)]] * len(texts))
    report = make_benchmark(
        [*labels(), *(LabelledImage(f"w{n}", "gadget", "plant", source="web") for n in range(4))],
        linker,
        tmp_path / "made",
        second=lambda texts: [[kb.rows(["P3"])[0]] if text == "gadget" else [] for text in texts],
    )
    assert report["links"]["second stage"] == 1


def test_templates_categories_and_statistics(linker, tmp_path):
    file = tmp_path / "templates.json"
    file.write_text('{"Plant": "which plant grows here?", "*": "which {category} is it?"}')
    report = make_benchmark(
        labels(),
        linker,
        tmp_path / "made",
        templates=read_templates(file),
        blocked_categories=["Aircraft"],
    )
    questions = {row["question"] for row in rows_of(tmp_path / "made" / "entity_train.jsonl")}
    assert "which plant grows here?" in questions
    assert report["dropped"]["blocked category"] == 2  # the label's own category, of two examples
    assert report["sources"]["flora"] == {"entity": {"labels": 20, "entities": 20}}
    assert report["sources"][""]["query"]["labels"] == 3
    assert report["super_categories"]["plant"] == 20
    assert sum(report["super_categories"].values()) == len(
        {row["entity_id"] for file in (tmp_path / "made").glob("*_*.jsonl") for row in rows_of(file)}
    )
    assert make_question("bird") == "what is the species of the bird in this image?"
    for text, message in (
        ('{"*": "what is it?"}', r"'\*': expected {category} in the question, got 'what is it\?'"),
        ('{"plant": " "}', "'plant': expected a question, got ' '"),
        ('["plant"]', "expected a JSON object of super-category and question"),
        ("{", "expected a JSON object of super-category and question"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_templates(file)


def test_groups_are_those_of_the_papers_figure(tmp_path):
    kinds = ["Lake"] * 3 + ["park"] * 2 + ["bird"] * 5 + ["moth"] * 4 + ["object"] * 9
    kb = build_kb((Entity(f"Q{i}", f"thing {i}", category=kind) for i, kind in enumerate(kinds)), tmp_path / "kb")
    items = [make._Item(LabelledImage(str(row), "x"), row, "?") for row in range(len(kb)) for _ in range(2)]
    assert make.super_categories(items, kb) == {"others": 13, "location": 5, "bird": 5}


def test_the_command_takes_what_the_library_does(tmp_path, capsys):
    pytest.importorskip("typer")
    from oven_retrieval.cli import main
    from oven_retrieval.workspace import build_workspace

    rows = [{"id": f"Q{i}", "name": f"plant {chr(97 + i)}", "category": "plant"} for i in range(12)]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_workspace(tmp_path / "kb.jsonl", tmp_path / "kb")
    images = [
        {"image_id": f"i{i}-{n}", "label": f"plant {chr(97 + i)}"} for i in range(12) for n in range(9 if i else 2)
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(image) + "\n" for image in images))
    (tmp_path / "templates.json").write_text('{"plant": "which plant?"}')
    arguments = ["make", str(tmp_path / "labels.jsonl"), "--kb", str(tmp_path / "kb")]
    options = ["--least-examples", "5", "--templates", str(tmp_path / "templates.json"), "--block-category", "bird"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--output", str(tmp_path / "made"), *options])
    assert not ended.value.code
    out = capsys.readouterr().out
    assert "entities by super-category: plant 11" in out
    assert "left out: 2 entity with fewer than 5 examples" in out
