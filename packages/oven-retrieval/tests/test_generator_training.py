"""Fine-tuning of generative linkers on tiny models: the loss by its definition, learning, early stop, the folder."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
Image = pytest.importorskip("PIL.Image")

from oven_retrieval import Entity, build_kb, build_linker  # noqa: E402  # torch may be absent
from oven_retrieval.generation import NameGenerator  # noqa: E402  # likewise
from oven_retrieval.generation.answers import load_generator  # noqa: E402  # likewise
from oven_retrieval.generation.training import (  # noqa: E402  # likewise
    GeneratorRecipe,
    name_loss,
    prompts_of,
    train_generator,
)
from oven_retrieval.models import Question  # noqa: E402  # likewise
from oven_retrieval.models.history import read_history  # noqa: E402  # likewise

from .test_generation import NAMES, TEXT, log_probability, make_llava, make_tokenizer  # noqa: E402  # likewise

TEMPLATE = "this {question} ?"
QUICK = GeneratorRecipe(
    steps=80, batch_size=8, lr=0.02, warmup=5, validate_every=20, optimiser="adamw", template=TEMPLATE
)


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    entities = [Entity(f"Q{i}", name) for i, name in enumerate(NAMES)]
    return build_linker(build_kb(entities, tmp_path_factory.mktemp("kb") / "kb"))


def make_blip2():
    """BLIP-2 with T5: a vision-language model whose decoder is its own, as PaLI's is."""
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    former = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
              "encoder_hidden_size": 16, "vocab_size": 20, "hidden_dropout_prob": 0.0,
              "attention_probs_dropout_prob": 0.0}  # fmt: skip
    text = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0, dropout_rate=0.0, **TEXT
    )
    config = transformers.Blip2Config(
        vision_config=vision, qformer_config=former, text_config=text.to_dict(), num_query_tokens=4,
        image_token_index=3,
    )  # fmt: skip
    model = transformers.Blip2ForConditionalGeneration(config)
    image = transformers.BlipImageProcessor(size={"height": 28, "width": 28})
    return model, transformers.Blip2Processor(image, make_tokenizer(), num_query_tokens=4)


def make_parts(kind):
    """A random model and its processor; without dropout, for it is to learn eight names in few steps."""
    torch.manual_seed(0)
    model, processor = make_random(kind)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if kind == "blip2":
        with torch.no_grad():  # random towers are nearly blind: sharpen them
            for name, weights in model.named_parameters():
                if weights.ndim > 1 and "language_model" not in name and "norm" not in name:
                    weights.mul_(8)
    return model, processor


def make_random(kind):
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=32, n_embd=32, n_layer=1, n_head=2, **TEXT)
        return transformers.GPT2LMHeadModel(config), make_tokenizer(pad=None)
    if kind == "t5":
        config = transformers.T5Config(
            d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0, dropout_rate=0.0, **TEXT
        )
        return transformers.T5ForConditionalGeneration(config), make_tokenizer()
    return make_llava() if kind == "llava" else make_blip2()


def make_questions(kind, folder):
    """One question an entity: told by its words, or by its image where the model sees."""
    words = [f"{first} {second}" for first in ("what", "is", "this", "?") for second in ("what", "is")]
    questions = []
    for number in range(len(NAMES)):
        file, text = None, words[number]
        if kind in ("llava", "blip2"):
            file, text = folder / f"{number}.png", "what"
            pattern = np.random.default_rng(number).integers(0, 256, (2, 2, 3), dtype=np.uint8)
            Image.fromarray(np.kron(pattern, np.ones((14, 14, 1), np.uint8))).save(file)
        questions.append(Question(f"d{number}", file, text, f"Q{number}", number % 2 == 0))
    return questions


@pytest.fixture(scope="module", params=["t5", "gpt2", "llava", "blip2"])
def parts(request, tmp_path_factory, linker):
    model, processor = make_parts(request.param)
    questions = make_questions(request.param, tmp_path_factory.mktemp("images"))
    return request.param, NameGenerator(model.eval(), processor, linker, batch=3), questions


def test_the_loss_is_its_definition(parts):
    kind, generator, questions = parts
    if kind == "blip2":
        pytest.skip("its slow definition would be the model's own loss")
    generator = NameGenerator(copy.deepcopy(generator.model), generator.processor, generator.linker, batch=3)
    targets = generator.targets(NAMES)
    loss = float(name_loss(generator, questions, targets, TEMPLATE).detach())
    prompts, images = prompts_of(generator, questions, TEMPLATE)
    pictures = images or [None] * len(prompts)
    total = sum(
        log_probability(generator.model, generator.processor, kind, prompt, picture, name)
        for prompt, picture, name in zip(prompts, pictures, NAMES, strict=True)
    )
    assert loss == pytest.approx(-total / sum(map(len, targets)), rel=1e-4)


def test_a_model_learns_the_names_and_its_folder_answers(parts, tmp_path):
    kind, generator, questions = parts
    batch = 3 if kind == "gpt2" else 8  # in parts, or whole
    generator = NameGenerator(copy.deepcopy(generator.model), generator.processor, generator.linker, batch=batch)
    lines = []
    steps, lr = {"t5": (200, 0.005), "blip2": (160, 0.006)}.get(kind, (80, 0.02))
    recipe = replace(QUICK, steps=steps, lr=lr, patience=9)
    looks = train_generator(generator, questions, questions, tmp_path / "model", recipe=recipe, say=lines.append)
    assert [look[0] for look in looks] == list(range(0, steps + 1, 20))
    best = max(look[3] for look in looks)
    assert best > looks[0][3] + 30, looks
    assert lines[0].startswith(f"step 20 of {steps}: loss ")
    assert read_history(tmp_path / "model") == looks
    record = json.loads((tmp_path / "model" / "training.json").read_text())
    assert (record["kind"], record["training"]["harmonic"]) == ("oven-generator", best)
    assert not (tmp_path / ".model.partial").exists()
    assert not generator.model.training
    again = load_generator(str(tmp_path / "model"), generator.linker)
    prompts, images = prompts_of(again, questions, TEMPLATE)
    rows = again.constrained(prompts, images, beams=1).rows[:, 0]
    right = rows == np.arange(len(NAMES))
    written = next(look for look in looks if look[3] == best)
    assert (100 * right[::2].mean(), 100 * right[1::2].mean()) == pytest.approx(written[1:3])


def test_training_stops_early_keeps_the_best_and_repeats(linker, tmp_path):
    questions = make_questions("t5", tmp_path)
    recipe = replace(QUICK, steps=60, validate_every=5, patience=2, lr=1e-9, constrained=False)
    results = []
    for name in ("a", "b"):
        generator = NameGenerator(*make_parts("t5"), linker, batch=3)
        before = copy.deepcopy(generator.model.state_dict())
        results.append(train_generator(generator, questions, questions, tmp_path / name, recipe=recipe))
        assert all(torch.equal(values, before[key]) for key, values in generator.model.state_dict().items())
    assert results[0] == results[1]
    assert [look[0] for look in results[0]] == [0, 5, 10]  # two looks without a better mean


def test_gradients_of_parts_are_those_of_the_batch(linker, tmp_path):
    from oven_retrieval.generation.training import _backward

    questions, gradients = make_questions("t5", tmp_path), []
    for batch in (3, 8):
        generator = NameGenerator(*make_parts("t5"), linker, batch=batch)
        loss = _backward(generator, questions, NAMES, TEMPLATE)
        gradients.append((loss, generator.model.shared.weight.grad.clone()))
    assert gradients[0][0] == pytest.approx(gradients[1][0], rel=1e-5)
    torch.testing.assert_close(gradients[0][1], gradients[1][1], rtol=1e-4, atol=1e-6)


def test_what_cannot_be_trained_is_said_before(linker, tmp_path):
    generator, questions = NameGenerator(*make_parts("t5"), linker), make_questions("t5", tmp_path)
    seen = [replace(question, seen=True) for question in questions]
    foreign = [*questions, Question("x", None, "what", "Q99", True)]
    pictured = [replace(questions[0], image=tmp_path / "0.png"), *questions[1:]]
    for train, validation, message in (
        ([], questions, "train: expected at least one question, got none"),
        (questions, seen, "expected questions of seen and of unseen entities, got one kind only"),
        (foreign, questions, r"1 of 9 questions ask for entities that .* lacks, such as \['Q99'\]"),
        (pictured, questions, "expected an image for all or none, got 1 of"),
    ):
        with pytest.raises(ValueError, match=message):
            train_generator(generator, train, validation, tmp_path / "m", recipe=replace(QUICK, steps=1))
        assert not (tmp_path / "m").exists()
    with pytest.raises(FileExistsError, match="expected a new folder"):
        train_generator(generator, questions, questions, tmp_path, recipe=QUICK)
    other = build_linker(build_kb([Entity("Q0", "wood"), Entity("Q1", "Ünknown")], tmp_path / "kb"))
    odd = NameGenerator(*make_parts("t5"), other)
    with pytest.raises(ValueError, match="names: 'Ünknown' holds a character that the model's tokenizer does not know"):
        train_generator(odd, questions[:2], questions[:2], tmp_path / "m", recipe=QUICK)
    with torch.no_grad():
        generator.model.shared.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"loss: nan at step 1; expected a finite number"):
        train_generator(generator, questions, questions, tmp_path / "m", recipe=replace(QUICK, constrained=False))
    for options, message in (
        ({"template": "what is it?"}, r"template: expected \{question\} in it, got 'what is it\?'"),
        ({"steps": 0}, "steps: expected above 0, got 0"),
        ({"optimiser": "sgd"}, "optimiser: expected 'adafactor' or 'adamw', got 'sgd'"),
    ):
        with pytest.raises(ValueError, match=message):
            GeneratorRecipe(**options)
    paper = GeneratorRecipe()
    assert (paper.steps, paper.warmup, paper.optimiser, paper.template) == (
        2000, 1000, "adafactor", "Answer in en: {question}")  # fmt: skip


def test_from_files_to_answers_by_commands(tmp_path, capsys, monkeypatch):
    pytest.importorskip("typer")
    from oven_retrieval.cli import main
    from oven_retrieval.workspace import build_workspace

    def oven(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        return ended.value.code or 0, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"Q{i}", "name": name} for i, name in enumerate(NAMES)]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_workspace(tmp_path / "kb.jsonl", tmp_path / "kb")
    model, tokenizer = make_parts("t5")
    model.save_pretrained("start")
    tokenizer.save_pretrained("start")
    for name in ("train", "val"):
        lines = [
            {"data_id": q.data_id, "question": q.text, "entity_id": q.entity_id,
             "data_split": "val_seen" if q.seen else "val_unseen"}
            for q in make_questions("t5", tmp_path)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = ["train.jsonl", "--validation", "val.jsonl", "--kb", "kb", "--model", "start"]
    sizes = ["--steps", "6", "--validate-every", "3", "--warmup", "1", "--batch-size", "4"]
    status, out, err = oven("train-generator", *files, *sizes, "--output", "tuned", "--template", TEMPLATE)
    assert status == 0, err
    assert out.splitlines()[0] == "8 questions to train on, 8 to validate"
    assert out.splitlines()[1].startswith("step 3 of 6: loss ")
    assert json.loads((tmp_path / "tuned" / "training.json").read_text())["recipe"]["optimiser"] == "adafactor"
    answers = ["generate", "val.jsonl", "--kb", "kb", "--model", "tuned", "--template", TEMPLATE, "--beams", "1"]
    status, out, err = oven(*answers, "--output", "answers.jsonl")
    assert (status, out) == (0, "wrote 8 predictions to answers.jsonl\n"), err
    status, out, _ = oven("history", "tuned")
    assert [line.split()[2] for line in out.splitlines()] == ["0:", "3:", "6:"]
    for more, message in (
        (["--output", "tuned"], "train-generator: tuned exists; expected a new folder"),
        (["--output", "x", "--template", "what?"], "template: expected {question} in it, got 'what?'"),
        (["--output", "x", "--optimiser", "sgd"], "optimiser: expected 'adafactor' or 'adamw', got 'sgd'"),
    ):
        status, _, err = oven("train-generator", *files, *more)
        assert status == 2
        assert message in err
