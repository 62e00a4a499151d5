"""``gate-runner oven`` on the command line: names from a file or a pipe, entities that come and go, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ._command import call_here

pytest.importorskip("oven_retrieval")

ENTITIES = [
    {"id": "Q1", "name": "Mandarin duck", "aliases": ["鴛鴦"], "category": "bird", "description": "A kind of duck."},
    {"id": "Q2", "name": "🦆"},
    {"id": "Q3", "name": "Wood"},
]


def call(*arguments: str, cwd: Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return call_here("oven", *arguments, cwd=cwd, text=text)


def piped(*arguments: str, cwd: Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """In a process of its own, whose streams are the system's."""
    return subprocess.run(
        [sys.executable, "-c", "from gate_runner.cli import main; main()", "oven", *arguments],
        cwd=cwd, input=text, capture_output=True, timeout=120, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


def write(path: Path, *records: dict) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "kb.jsonl", *ENTITIES)
    done = call("build", "kb.jsonl", "--output", "kb", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_names_in_any_script_and_lines_without_an_answer(project: Path) -> None:
    done = piped("link", "--kb", "kb", "--typos", cwd=project, text="鴛鴦\n🦆\n\nmadnarin duck\nzzz".encode())
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[1] for row in rows] == ["Q1", "Q2", "", "Q1", ""]
    assert [row[2] for row in rows if not row[1]] == ["", ""]
    assert [row[3] for row in rows] == ["exact alias", "exact name", "none", "typo", "none"]
    assert [row[5:] for row in rows] == [[], [], ["empty line"], [], ["no name is like it"]]


def test_names_of_one_language(tmp_path: Path) -> None:
    write(
        tmp_path / "kb.jsonl",
        {"id": "Q1", "name": "Gift", "language": "de", "aliases": {"en": ["Poison"]}},
        {"id": "Q2", "name": "Gift", "language": "en", "popularity": 9},
    )
    assert call("build", "kb.jsonl", "--output", "kb", "--tokenizer", "bigrams", cwd=tmp_path).returncode == 0
    for more, expected in ((("--language", "de"), "Q1"), (("--language", "en"), "Q2"), ((), "Q2")):
        done = call("link", "--kb", "kb", *more, cwd=tmp_path, text=b"gift\n")
        assert done.stdout.decode().split("\t")[1] == expected, done.stderr
    done = call("link", "--kb", "kb", "--language", "xx", cwd=tmp_path, text=b"gift\n")
    assert done.returncode == 2
    assert "languages: no name of kb/kb belongs to xx; they have de, en" in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("link", "--kb", "kb"), b"a\n\xff\n", "standard input:2: expected UTF-8"),
        (("link", "--kb", "kb", "-k", "4"), b"a\n", "k: expected at most 3, the entities of kb/kb, got 4"),
        (("link", "--kb", "kb", "--typos", "--bm25-only"), b"", "expected one of them"),
        (("add", "kb.jsonl", "--kb", "kb"), b"", "kb.jsonl:1: id: 'Q1' is in kb/kb already"),
        (("add", "bad.jsonl", "--kb", "kb"), b"", "bad.jsonl:2: expected one JSON object per line"),
        (("remove", "Q1", "Q9", "--kb", "kb"), b"", "ids: 1 of 2 are not in kb/kb: ['Q9']"),
        (("remove", "--kb", "kb"), b"", "expected ids or --ids-from"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(project: Path, arguments, text, message) -> None:
    (project / "bad.jsonl").write_text('{"id": "Q7", "name": "x"}\n{"id"', encoding="utf-8")
    done = call(*arguments, cwd=project, text=text)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
    assert b"Q1" in call("link", "--kb", "kb", cwd=project, text=b"mandarin duck").stdout


def test_entities_come_and_go(project: Path) -> None:
    write(project / "more.jsonl", {"id": "Q4", "name": "Golden Gate"})
    assert call("add", "more.jsonl", "--kb", "kb", cwd=project).stdout.decode().split("\n")[0] == "4 entities in kb"
    (project / "ids.txt").write_text("Q2\n", encoding="utf-8")
    done = call("remove", "Q3", "--ids-from", "ids.txt", "--kb", "kb", cwd=project)
    assert done.stdout.decode() == "2 entities in kb\n"
    done = call("link", "--kb", "kb", "--json", cwd=project, text=b"golden\nwood\n")
    records = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [len(record["entities"]) for record in records] == [1, 0]
    assert records[0]["entities"][0]["id"] == "Q4"


def test_links_are_refused_as_calibration_has_learnt(tmp_path: Path) -> None:
    """Half the names are in the knowledge base; the others share a word with one that is."""
    write(tmp_path / "kb.jsonl", *({"id": f"Q{at}", "name": f"grey bird number{at}"} for at in range(60)))
    assert call("build", "kb.jsonl", "--output", "kb", cwd=tmp_path).returncode == 0
    refused = call("link", "--kb", "kb", "--refuse", cwd=tmp_path, text=b"grey bird number1\n")
    assert refused.returncode == 2
    assert b"link --refuse: kb has no calibration.json; expected `oven calibrate` before" in refused.stderr
    known_birds = [{"name": f"grey bird number{at}", "entity_id": f"Q{at}"} for at in range(60)]
    strangers = [{"name": f"grey fish of kind{at}", "entity_id": None} for at in range(60)]
    write(tmp_path / "labelled.jsonl", *known_birds, *strangers)
    done = call("calibrate", "labelled.jsonl", "--kb", "kb", "--precision", "0.9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("on 30 names of other entities: ")
    assert "AUROC 1.000 for being in here" in done.stdout.decode()
    content = b"grey bird number7\ngrey fish of kind99\n"
    plain = call("link", "--kb", "kb", "--json", cwd=tmp_path, text=content).stdout.decode().splitlines()
    assert [len(json.loads(line)["entities"]) for line in plain] == [1, 1]
    answered = call("link", "--kb", "kb", "--refuse", "--json", cwd=tmp_path, text=content)
    right, wrong = map(json.loads, answered.stdout.decode().splitlines())
    assert answered.stderr == b""
    assert [entity["id"] for entity in right["entities"]] == ["Q7"]
    assert wrong["entities"] == []
    assert wrong["problem"]
    assert right["probability"] > wrong["probability"]
    write(tmp_path / "more.jsonl", {"id": "Q99", "name": "a blue bird"})
    assert call("add", "more.jsonl", "--kb", "kb", cwd=tmp_path).returncode == 0
    later = call("link", "--kb", "kb", "--refuse", cwd=tmp_path, text=content)
    assert b"calibration.json was learnt on other entities than kb holds now: calibrate again" in later.stderr


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"name": 5, "entity_id": None}], (), "labelled.jsonl:1: expected a name and an entity_id"),
        ([{"name": "Wood", "entity_id": "Q3"}], (), "expected"),
        (
            [{"name": "Wood", "entity_id": "Q3"}] * 40,
            ("--precision", "0.9"),
            "right and wrong ones, got 40 with 40 right",
        ),
    ],
)
def test_labels_that_teach_nothing_are_one_line(project: Path, rows, options, message) -> None:
    write(project / "labelled.jsonl", *rows)
    done = call("calibrate", "labelled.jsonl", "--kb", "kb", *options, cwd=project)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
    assert not (project / "kb" / "calibration.json").exists()


def test_a_benchmark_is_made_and_evaluated(project: Path) -> None:
    names = ["mandarin duck", "wood", "🦆"]
    labels = [{"image_id": f"{name}{i}", "label": name} for name in names for i in range(12)]
    write(project / "labels.jsonl", *labels, {"image_id": "x", "label": "12"})
    done = call(
        "make", "labels.jsonl", "--kb", "kb", "--output", "made", "--test", "0.3", "--unseen", "0.4", cwd=project
    )
    assert done.returncode == 0, done.stderr
    assert "left out: 1 number" in done.stdout.decode()
    rows = [
        json.loads(line) for line in (project / "made" / "entity_test.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    write(project / "answers.jsonl", *({"data_id": r["data_id"], "pred_entity_id": r["entity_id"]} for r in rows))
    scored = call(
        "eval", "--entity-reference", "made/entity_test.jsonl", "--entity-predictions", "answers.jsonl", cwd=project
    )
    assert "harmonic  100.00" in scored.stdout.decode(), scored.stderr
    again = call("make", "labels.jsonl", "--kb", "kb", "--output", "made", cwd=project)
    assert again.returncode == 2
    assert b"expected a new folder" in again.stderr


def test_a_generative_model_answers_with_names_that_exist(project: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<pad>", "</s>", "<unk>", "what", "Mandarin", "duck", "Wood"]
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(project / "model")
    config = transformers.GPT2Config(
        vocab_size=7, n_positions=16, n_embd=8, n_layer=1, n_head=1, eos_token_id=1, bos_token_id=1, pad_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(project / "model")
    write(project / "questions.jsonl", *({"data_id": str(i), "question": "what"} for i in range(3)))
    done = call(
        "generate", "questions.jsonl", "--kb", "kb", "--model", "model", "--output", "answers.jsonl", cwd=project
    )
    assert done.returncode == 0, done.stderr
    assert "1 names hold characters" in done.stderr.decode()
    rows = [json.loads(line) for line in (project / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["pred_entity_id"] for row in rows} <= {"Q1", "Q3"}
    assert len(rows) == 3


def test_a_results_page_is_written(project: Path) -> None:
    rows = [
        {"data_id": str(i), "image_id": "x", "question": "what?", "entity_id": "Q1", "entity_text": "Mandarin duck",
         "data_split": f"val_{kind}"}
        for i, kind in enumerate(["seen", "unseen"] * 3)
    ]  # fmt: skip
    write(project / "ref.jsonl", *rows)
    write(project / "answers.jsonl", *({"data_id": str(i), "pred_entity_id": ["Q1", "Q3"][i // 3]} for i in range(6)))
    files = ("--entity-reference", "ref.jsonl", "--entity-predictions", "answers.jsonl")
    done = call("eval", *files, "--kb", "kb", "--page", "page.html", "--title", "<b>", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "entity  miscellaneous         50.0 %  3" in done.stdout.decode().splitlines()
    page = (project / "page.html").read_text(encoding="utf-8")
    assert "<title>&lt;b&gt;</title>" in page
    assert "Mandarin duck" in page
    for wrong, message in ((("--images", "nothing"), "--images nothing: expected a folder"),):
        done = call("eval", *files, *wrong, cwd=project)
        assert (done.returncode, message in done.stderr.decode()) == (2, True), done.stderr
