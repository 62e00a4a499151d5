"""From questions in files to a folder that answers: training, a kill, the folder, predictions."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("jaxtyping")
pytest.importorskip("safetensors.torch")

from oven_retrieval import Entity, EntityFileError, FolderError, Ranking, build_kb  # noqa: E402
from oven_retrieval.evaluation import Reference, evaluate_splits, outcomes, read_splits  # noqa: E402
from oven_retrieval.evaluation.files import read_predictions  # noqa: E402
from oven_retrieval.models import (  # noqa: E402
    ImageFolder,
    Question,
    Recipe,
    Tower,
    TrainingOptions,
    entity_images,
    hold_out,
    known_questions,
    open_model,
    read_questions,
    train_model,
    write_predictions,
)
from oven_retrieval.models.history import read_history  # noqa: E402
from oven_retrieval.models.questions import answer_rows  # noqa: E402
from oven_retrieval.models.run import paper_recipe  # noqa: E402
from oven_retrieval.models.trained import read_config  # noqa: E402

ENTITIES, SIDE = 24, 4
QUICK = Recipe(steps=12, batch_size=16, lr=1e-2, warmup=2, validate_every=4, patience=9)


def picture(entity, noise=0.0, seed=0):
    pattern = np.random.default_rng(entity).integers(0, 256, (3, SIDE, SIDE))
    moved = pattern + noise * np.random.default_rng([entity, seed]).normal(size=pattern.shape)
    return torch.from_numpy(np.clip(moved, 0, 255)).to(torch.uint8)


def read(paths):
    """Images from files that hold `entity seed`."""
    numbers = [[int(part) for part in path.read_text().split()] for path in paths]
    return torch.stack([picture(entity, 60.0, seed) for entity, seed in numbers])


def make_towers():
    """An encoder that knows the entities' names, roughly."""
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.Linear(3 * SIDE * SIDE, 16)
    text = torch.nn.Embedding(ENTITIES + 1, 16)
    with torch.no_grad():
        image.weight.copy_(torch.randn(16, 48, generator=generator) / 7)
        image.bias.zero_()
        encoded = image(torch.stack([picture(e) for e in range(ENTITIES)]).flatten(1) / 255 - 0.5)
        text.weight[:ENTITIES] = encoded + 0.8 * torch.randn(ENTITIES, 16, generator=generator)
        text.weight[ENTITIES] = torch.randn(16, generator=generator)

    def words(texts):
        return text(torch.tensor([int(t[6:]) if t.startswith("thing ") else ENTITIES for t in texts]))

    return Tower(image, lambda x: image(x.float().flatten(1) / 255 - 0.5)), Tower(text, words)


@pytest.fixture
def world(tmp_path):
    """A knowledge base, images, and questions of 8 images an entity."""
    kb = build_kb((Entity(f"Q{i}", f"thing {i}", image=f"http://h/{i}.jpg") for i in range(ENTITIES)), tmp_path / "kb")
    images, own = tmp_path / "images" / "00", tmp_path / "own"
    images.mkdir(parents=True)
    own.mkdir()
    lines = []
    for entity in range(ENTITIES):
        if entity % 3 == 0:
            (own / (f"Q{entity}.png" if entity % 2 else f"{entity}.jpg")).write_text(f"{entity} 99")
        for number in range(8):
            (images / f"oven_{entity}_{number}.JPEG").write_text(f"{entity} {number}")
            split = "val_unseen" if entity >= 16 else "val_seen" if number >= 6 else "train"
            lines.append(
                {"data_id": f"d{entity}-{number}", "image_id": f"oven_{entity}_{number}", "question": "what is it?",
                 "entity_id": f"Q{entity}", "entity_text": f"thing {entity}", "data_split": split}
            )  # fmt: skip
    for name, wanted in (("train", ("train",)), ("val", ("val_seen", "val_unseen"))):
        chosen = [json.dumps(line) for line in lines if line["data_split"] in wanted]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    folder = ImageFolder(tmp_path / "images")
    train, validation = (read_questions(tmp_path / f"{name}.jsonl", folder)[0] for name in ("train", "val"))
    return kb, train, validation, entity_images(kb, ImageFolder(own))


def run(world, output, *, say=None, towers=make_towers, **changes):
    kb, train, validation, pictures = world
    options = replace(TrainingOptions(recipe=QUICK, batch=16, width=16, heads=2), **changes)
    return train_model(
        kb, train, validation, output, towers, encoder_name="toy@1", read=read, image_size=SIDE, pictures=pictures,
        options=options, say=say,
    )  # fmt: skip


def test_a_folder_of_the_users_that_is_called_like_the_work_stays(world, tmp_path):
    (tmp_path / "model.work").mkdir()
    (tmp_path / "model.work" / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"model\.work: expected the features of an unfinished training, it holds"):
        run(world, tmp_path / "model")
    assert [file.name for file in tmp_path.rglob("*.txt")] == ["thesis.txt"]


def refuse_weights_of_strangers(folder, kb):
    from safetensors.torch import load_file, save_file

    weights = folder / "model.safetensors"
    sound = load_file(weights)
    name = min(sound)
    for stored in ({**sound, name: sound[name] * float("nan")}, {**sound, name: sound[name][None]}, {}):
        save_file(stored, weights)
        with pytest.raises(FolderError, match="does not fit the model; they differ in"):
            open_model(folder, kb, make_towers, encoder_name="toy@1")
    weights.write_bytes(b"x" * 20)
    with pytest.raises(FolderError, match=r"model\.safetensors cannot be read: .*; train again"):
        open_model(folder, kb, make_towers, encoder_name="toy@1")
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(FolderError, match="is no file"):
        open_model(folder, kb, make_towers, encoder_name="toy@1")


@pytest.mark.parametrize(
    ("kind", "fine_tune"), [("clip2clip", None), ("clip2clip", "weight"), ("fusion", None), ("fusion", "weight")]
)
def test_a_trained_folder_answers(world, tmp_path, kind, fine_tune):
    kb, _, validation, _ = world
    lines = []
    model = run(world, tmp_path / "model", kind=kind, fine_tune=fine_tune, say=lines.append)
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "entities", "index", "model.json", "model.safetensors"
    ]  # fmt: skip
    modes = {(tmp_path / "model" / name).stat().st_mode for name in ("model.json", "model.safetensors")}
    assert len(modes) == 1  # safetensors let nobody but their owner read them
    assert not (tmp_path / "model.work").exists()
    assert any(line.startswith("step 12 of 12: seen") for line in lines)
    assert ("grid search on 96 training questions" in "\n".join(lines)) == (kind != "fusion")
    questions = [question.text for question in validation]
    pictures = read([question.image for question in validation])
    hits = model.search(pictures, questions, k=ENTITIES + 1)
    right = hits.rows[:, 0] == kb.rows([question.entity_id for question in validation])
    seen = np.array([question.seen for question in validation])
    config, report = read_config(tmp_path / "model")
    assert (config.kind, config.fine_tune) == (kind, fine_tune)
    # Stored vectors are float16: an answer may differ where two entities are as good as equal.
    assert 100 * right[seen].mean() == pytest.approx(report["training"]["seen"], abs=5)
    assert 100 * right[~seen].mean() == pytest.approx(report["training"]["unseen"], abs=5)
    assert right.mean() > (1 if kind == "fusion" else 3) / ENTITIES
    assert np.all(hits.rows[:, ENTITIES] == -1)
    again = open_model(tmp_path / "model", kb, make_towers, encoder_name="toy@1")
    np.testing.assert_array_equal(again.search(pictures, questions, k=3).rows, hits.rows[:, :3])
    file = write_predictions(again, validation, tmp_path / "answers.jsonl", read, batch=7)
    scores = evaluate_splits(read_splits(entity=(tmp_path / "val.jsonl", file)))
    assert "seen" in json.dumps(scores)
    first = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert first["pred_entity_id"] == kb.ids[int(hits.rows[0, 0])]
    with pytest.raises(FolderError, match="encoder is 'toy@1', expected 'other'; train again"):
        open_model(tmp_path / "model", kb, make_towers, encoder_name="other")
    with pytest.raises(ValueError, match="expected one of each per question, got 96, 1"):
        model.search(pictures, ["what?"])
    refuse_weights_of_strangers(tmp_path / "model", kb)
    with pytest.raises(FileExistsError, match="model exists; expected a new folder"):
        run(world, tmp_path / "model")


@pytest.mark.parametrize("stage", ["question-texts: 192 to encode", "step 8 of 12", "entities: 24 to encode"])
def test_a_killed_training_goes_on(world, tmp_path, stage):
    whole = run(world, tmp_path / "whole", kind="fusion")

    def dying(line):
        if line.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(world, tmp_path / "model", kind="fusion", say=dying)
    assert not (tmp_path / "model").exists()
    with pytest.raises(FolderError, match=r"unfinished training with other template is there"):
        run(world, tmp_path / "model", kind="fusion", template="description")
    with pytest.raises(FolderError, match=r"unfinished training with other entity images is there"):
        run((*world[:3], {}), tmp_path / "model", kind="fusion")
    lines = []
    continued = run(world, tmp_path / "model", kind="fusion", say=lines.append)
    assert lines[0].startswith("going on with")
    assert ("question-images: 192 to encode" in "\n".join(lines)) == (not stage.startswith(("step", "ent", "quest")))
    for name, value in whole.dual.module.state_dict().items():
        assert torch.equal(value, continued.dual.module.state_dict()[name])
    np.testing.assert_array_equal(whole.index.vectors.rows(0, 24), continued.index.vectors.rows(0, 24))


def test_fine_tuning_moves_both_sides_apart(world, tmp_path):
    model = run(world, tmp_path / "model", fine_tune="all", recipe=replace(QUICK, lr=3e-3))
    module = model.dual.module
    before = make_towers()[0].module.weight
    assert read_config(tmp_path / "model")[1]["training"]["step"] > 0  # the start is kept where no step is better
    assert not torch.equal(module.query_image.module.weight, before)
    assert not torch.equal(module.query_image.module.weight, module.entity_image.module.weight)
    with pytest.raises(
        ValueError, match=r"fine_tune: no weight's name matches 'block7'; some of the names are \['weight"
    ):
        run(world, tmp_path / "other", fine_tune="block7")


def test_questions_that_cannot_be_used(world, tmp_path):
    kb, train, validation, pictures = world
    folder = ImageFolder(tmp_path / "images")
    assert pictures.keys() == {e for e in range(ENTITIES) if e % 3 == 0}
    good = {"data_id": "a", "image_id": "oven_1_1", "question": "?", "entity_id": "Q1"}
    for change, expected in (
        ({"image_id": "oven_77"}, r"q.jsonl:2: image_id: .*expected one image file named 'oven_77'"),
        ({"question": None}, r"q.jsonl:2: question: expected a text, got None"),
        ({"data_id": "a"}, r"q.jsonl:2: data_id: 'a' occurs twice"),
        ({"entity_id": " "}, r"q.jsonl:2: entity_id: expected a text, got ' '"),
    ):
        lines = [json.dumps(good), json.dumps({**good, "data_id": "b", **change})]
        (tmp_path / "q.jsonl").write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(EntityFileError, match=expected):
            read_questions(tmp_path / "q.jsonl", folder)
    (tmp_path / "q.jsonl").write_text(
        "\n".join([json.dumps(good), json.dumps({**good, "data_id": "b", "image_id": "x"})]), encoding="utf-8"
    )
    questions, left_out = read_questions(tmp_path / "q.jsonl", folder, skip_missing=True)
    assert ([q.data_id for q in questions], left_out) == (["a"], 1)
    (tmp_path / "images" / "oven_1_1.png").touch()
    with pytest.raises(LookupError, match=r"expected one image file named 'oven_1_1'; there are 2, such as"):
        ImageFolder(tmp_path / "images").find("oven_1_1")
    with pytest.raises(FileNotFoundError, match="expected a folder of images"):
        ImageFolder(tmp_path / "nothing")
    strange = [replace(train[0], entity_id="Q999"), train[1]]
    with pytest.raises(ValueError, match=r"1 of 2 questions ask for entities that .* lacks, such as \['Q999'\]"):
        answer_rows(kb, strange)
    assert known_questions(kb, strange) == [train[1]]
    with pytest.raises(ValueError, match=r"validation: expected questions of seen and of unseen entities"):
        run((kb, train, [q for q in validation if q.seen], pictures), tmp_path / "model")


def test_without_safetensors_nothing_starts(world, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.torch")
    with pytest.raises(ImportError, match=r"pip install 'oven-retrieval\[torch\]'"):
        run(world, tmp_path / "model")
    assert not (tmp_path / "model.work").exists()


def test_held_out_questions(world):
    _, train, _, _ = world
    rest, validation = hold_out(train, 0.2, seed=3)
    assert len(rest) + len(validation) == len(train)
    trained = {question.entity_id for question in rest}
    for question in validation:
        assert question.seen == (question.entity_id in trained)
    assert sum(not question.seen for question in validation) == 3 * 6
    assert hold_out(train, 0.2, seed=3) == (rest, validation)
    assert hold_out(train, 0.2, seed=4) != (rest, validation)
    with pytest.raises(ValueError, match="each has one"):
        hold_out([question for question in train if question.data_id.endswith("-0")])
    with pytest.raises(ValueError, match=r"share: expected above 0 and below 0.5, got 0.7"):
        hold_out(train, 0.7)


def test_recipes_are_the_paper_s():
    recipe = paper_recipe("fusion", fine_tune=False)
    assert (recipe.steps, recipe.batch_size, recipe.lr, recipe.warmup, recipe.final_lr) == (
        10_000,
        4096,
        1e-3,
        1000,
        1e-6,
    )
    recipe = paper_recipe("clip2clip", fine_tune=True)
    assert (recipe.steps, recipe.batch_size, recipe.lr, recipe.final_lr) == (2000, 4096, 1e-4, 1e-6)
    with pytest.raises(ValueError, match="kind: expected one of"):
        paper_recipe("blip", fine_tune=False)


def test_a_folder_of_images_finds_every_name_and_holds_little(tmp_path, monkeypatch):
    for name in ("a/x.jpg", "b/x.png", "b/y.JPEG", "b/z.tar.gif", "c/note.txt", "c/.jpg", "c/\udcff.png", "c/ü.bmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder = ImageFolder(tmp_path)
    assert len(folder) == 5
    with pytest.raises(
        LookupError, match=r"expected one image file named 'x.jpg'; there are 2, such as .*x\.jpg and .*x\.png"
    ):
        folder.find("x.jpg")
    assert [folder.find(name).name for name in ("y", "y.jpg", "z.tar", "z.tar.gif", "ü", "\udcff")] == [
        "y.JPEG", "y.JPEG", "z.tar.gif", "z.tar.gif", "ü.bmp", "\udcff.png"]  # fmt: skip
    assert "note" not in folder
    assert "z" not in folder
    (tmp_path / "nothing").mkdir()
    assert "x" not in ImageFolder(tmp_path / "nothing")

    def walk(path):
        for number in range(20):
            yield f"{path}/{number:04d}", [], [f"oven_{number * 1000 + name:08d}.jpg" for name in range(1000)]

    monkeypatch.setattr(os, "walk", walk)
    tracemalloc.start()
    many = ImageFolder(tmp_path)
    held = tracemalloc.get_traced_memory()[0] / 20_000
    tracemalloc.stop()
    assert many.find("oven_00019999") == tmp_path / "0019" / "oven_00019999.jpg"
    assert held < 60  # bytes a file; a list of paths by name held 500


def test_a_question_that_no_entity_answers_has_no_entity(tmp_path):
    nothing = Ranking(np.array([[-1]]), np.array([[-np.inf]], np.float32))
    kb = SimpleNamespace(ids=["Q1", "Q2"], names=["Duck", "Goose"])
    model = SimpleNamespace(search=lambda pictures, texts: nothing, kb=kb)
    questions = [Question("d1", tmp_path / "1.png", "what?")]
    file = write_predictions(model, questions, tmp_path / "a.jsonl", lambda files: torch.zeros(1))

    def refused(constant):
        raise AssertionError(constant)

    record = json.loads(file.read_text(), parse_constant=refused)
    assert record == {"data_id": "d1", "pred_entity_id": None, "pred_entity_text": "", "score": None}
    reference = [Reference("d1", "Q2", "val_seen"), Reference("d2", "Q2", "val_unseen")]
    assert not outcomes(reference, read_predictions(file)).correct.any()


def test_a_training_keeps_its_history(world, tmp_path):
    lines = []
    model = run(world, tmp_path / "model", kind="fusion", say=lines.append)
    looks = read_history(tmp_path / "model")
    assert [look[0] for look in looks] == [0, 4, 8, 12]
    said_last = next(line for line in reversed(lines) if line.startswith("step 12"))
    assert f"seen {looks[-1][1]:.1f} %, unseen {looks[-1][2]:.1f} %, harmonic mean {looks[-1][3]:.1f}" in said_last
    assert max(look[3] for look in looks) == model.report["training"]["harmonic"]
    with pytest.raises(FolderError, match="expected a folder of `train` with"):
        read_history(tmp_path)
    for text in ("{", '{"report": {"training": {}}}', '{"report": {"training": {"history": []}}}', "[]"):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(FolderError, match="train again"):
            read_history(tmp_path)


def test_fusion_trains_all_four_towers(world, tmp_path):
    before = make_towers()
    model = run(world, tmp_path / "model", kind="fusion", fine_tune="all", recipe=replace(QUICK, lr=3e-3))
    module = model.dual.module
    sides = {
        "query_image": before[0], "query_text": before[1], "entity_image": before[0], "entity_text": before[1],
    }  # fmt: skip
    for name, start in sides.items():
        trained = getattr(module, name).module.weight
        assert not torch.equal(trained, start.module.weight), name
    assert not torch.equal(module.query_image.module.weight, module.entity_image.module.weight)
    kb, _, validation, _ = world
    again = open_model(tmp_path / "model", kb, make_towers, encoder_name="toy@1")
    pictures, texts = read([q.image for q in validation[:5]]), [q.text for q in validation[:5]]
    np.testing.assert_array_equal(again.search(pictures, texts).rows, model.search(pictures, texts).rows)


def test_the_papers_recipes_take_adafactor():
    assert {paper_recipe(kind, fine_tune=True).optimiser for kind in ("clip2clip", "fusion")} == {"adafactor"}
    with pytest.raises(ValueError, match=r"optimiser: expected one of \['adamw', 'adafactor'\], got 'sgd'"):
        Recipe(optimiser="sgd")
