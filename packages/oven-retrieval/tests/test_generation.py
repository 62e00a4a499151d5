"""Generative linkers around tiny random transformers models: against the probabilities of all names, one by one."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
Image = pytest.importorskip("PIL.Image")

from oven_retrieval import Entity, Ranking, build_kb, build_linker  # noqa: E402  # torch may be absent
from oven_retrieval.evaluation.files import read_predictions  # noqa: E402  # likewise
from oven_retrieval.generation import NameGenerator  # noqa: E402  # likewise
from oven_retrieval.generation.answers import load_generator, make_prompts, unanswered, write_answers  # noqa: E402  # likewise
from oven_retrieval.models import ImageFolder, Question, read_questions  # noqa: E402  # likewise

NAMES = ["wood", "wood duck", "mandarin duck", "golden gate", "gate", "duck", "tea rose", "rose"]
VOCABULARY = ["<pad>", "</s>", "<unk>", "<image>", "what", "is", "this", "?", *dict.fromkeys(" ".join(NAMES).split())]
PROMPTS = ["what is this ?", "is this wood", "duck ?"]


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    entities = [Entity(f"Q{i}", name, aliases=("tea",) * (i == 7)) for i, name in enumerate(NAMES)]
    twin = Entity("twin", "gate", popularity=5)  # before Q4, as it is more popular
    return build_linker(build_kb([*entities, twin], tmp_path_factory.mktemp("kb") / "kb"))


def make_tokenizer(pad="<pad>"):
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["<image>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=pad,
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    )


TEXT = {"vocab_size": len(VOCABULARY), "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": 1}


def make_llava():
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14,
        projection_dim=16,
    )  # fmt: skip
    text = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=64, **TEXT,
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=3, image_seq_length=4, eos_token_id=1, pad_token_id=0
    )
    model = transformers.LlavaForConditionalGeneration(config)
    image = transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    return model, transformers.LlavaProcessor(
        image, make_tokenizer(), patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )


@pytest.fixture(scope="module", params=["gpt2", "t5", "llava"])
def parts(request):
    torch.manual_seed(0)
    if request.param == "gpt2":
        config = transformers.GPT2Config(n_positions=32, n_embd=16, n_layer=1, n_head=2, **TEXT)
        model, processor = transformers.GPT2LMHeadModel(config), make_tokenizer(pad=None)
    elif request.param == "t5":
        config = transformers.T5Config(
            d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0, **TEXT
        )
        model, processor = transformers.T5ForConditionalGeneration(config), make_tokenizer()
    else:
        model, processor = make_llava()
    with torch.no_grad():  # random models are nearly indifferent: sharpen them
        for name, weights in model.named_parameters():
            if "norm" not in name and weights.ndim > 1:
                weights.mul_(3 if request.param != "llava" else 4)
    images = None
    if request.param == "llava":
        rng = np.random.default_rng(0)
        images = [rng.integers(0, 256, (28, 28, 3), dtype=np.uint8) for _ in PROMPTS]
    return request.param, model.eval(), processor, images


def prompts_for(kind):
    return [f"<image> {prompt}" if kind == "llava" else prompt for prompt in PROMPTS]


def log_probability(model, processor, kind, prompt, image, name):
    """Teacher forcing, one token after the other, in float64."""
    tokenizer = getattr(processor, "tokenizer", processor)
    tokens = [*tokenizer(name, add_special_tokens=False)["input_ids"], 1]
    if image is None:
        inputs = tokenizer([prompt], return_tensors="pt")
    else:
        inputs = processor(images=[image], text=[prompt], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    total = 0.0
    written = []
    for token in tokens:
        with torch.inference_mode():
            if kind == "t5":
                logits = model(**inputs, decoder_input_ids=torch.tensor([[0, *written]])).logits
            else:
                extended = dict(inputs)
                more = torch.tensor([written], dtype=torch.long)
                extended["input_ids"] = torch.cat([inputs["input_ids"], more], dim=1)
                extended["attention_mask"] = torch.ones_like(extended["input_ids"])
                logits = model(**extended).logits
        total += float(torch.log_softmax(logits[0, -1].double(), -1)[token])
        written.append(token)
    return total


def test_a_complete_search_equals_every_name_scored_alone(parts, linker):
    kind, model, processor, images = parts
    generator = NameGenerator(model, processor, linker, batch=2)
    done = []
    constrained = generator.constrained(
        prompts_for(kind), images, k=9, beams=12, progress=lambda phase, count, total: done.append((count, total))
    )
    assert done == [(2, 3), (3, 3)]
    assert constrained.rows.shape == constrained.scores.shape == (3, 9)
    for i, prompt in enumerate(prompts_for(kind)):
        image = None if images is None else images[i]
        defined = {name: log_probability(model, processor, kind, prompt, image, name) for name in NAMES}
        assert sorted(constrained.rows[i].tolist()) == list(range(9))  # every entity, each once
        for row, score, text in zip(
            constrained.rows[i].tolist(), constrained.scores[i], constrained.texts[i], strict=True
        ):
            assert text == linker.kb.names[row]
            assert score == pytest.approx(defined[text], abs=2e-4)
        assert (np.diff(constrained.scores[i]) <= 0).all()
        ids = [linker.kb.ids[row] for row in constrained.rows[i]]
        assert ids.index("Q4") - ids.index("twin") == 1
    assert len({tuple(rows) for rows in constrained.rows.tolist()}) > 1  # the prompt matters


@pytest.mark.parametrize("beams", [1, 3])
def test_whatever_the_beams_only_names_come_out(parts, linker, beams):
    kind, model, processor, images = parts
    constrained = NameGenerator(model, processor, linker).constrained(prompts_for(kind), images, k=1, beams=beams)
    assert (constrained.rows >= 0).all()
    assert all(text[0] in NAMES for text in constrained.texts)
    assert np.isfinite(constrained.scores).all()
    best = NameGenerator(model, processor, linker).constrained(prompts_for(kind), images, k=1, beams=12)
    assert (constrained.scores <= best.scores + 1e-4).all()


def test_aliases_may_be_written_too(parts, linker):
    kind, model, processor, images = parts
    generator = NameGenerator(model, processor, linker, aliases=True)
    constrained = generator.constrained(prompts_for(kind)[:1], images and images[:1], k=9, beams=12)
    assert len(generator.trie()) == 10
    assert sorted(constrained.rows[0].tolist()) == list(range(9))
    assert {"tea", "rose"} & set(constrained.texts[0])


def test_names_that_the_tokenizer_cannot_write_are_left_out_and_counted(tmp_path):
    config = transformers.GPT2Config(n_positions=32, n_embd=16, n_layer=1, n_head=2, **TEXT)
    model = transformers.GPT2LMHeadModel(config)
    entities = [Entity("1", "wood"), Entity("2", "wood 東京"), Entity("3", "duck")]
    generator = NameGenerator(model, make_tokenizer(), build_linker(build_kb(entities, tmp_path / "kb")))
    assert sorted(generator.constrained(["is"], k=3, beams=3).rows[0].tolist()) == [-1, 0, 2]
    assert generator.unwritable == 1
    nothing = build_linker(build_kb([Entity("1", "東京")], tmp_path / "nothing"))
    with pytest.raises(ValueError, match="its tokenizer can write none of the 1 names"):
        NameGenerator(model, make_tokenizer(), nothing).constrained(["is"])


def test_free_texts_are_mapped(parts, linker):
    kind, model, processor, images = parts
    generator = NameGenerator(model, processor, linker, batch=2)
    done = []
    free = generator.free(prompts_for(kind), images, k=2, max_new_tokens=4, progress=lambda *step: done.append(step))
    assert done == [("questions", 2, 3), ("questions", 3, 3)]
    assert free.rows.shape == (3, 2)
    for rows, scores, texts in zip(free.rows, free.scores, free.texts, strict=True):
        assert rows.tolist() == linker.link([texts[0]], 2).rows[0].tolist()
        assert np.array_equal(np.isnan(scores), rows < 0)


def test_bad_input(parts, linker):
    _, model, processor, _ = parts
    generator = NameGenerator(model, processor, linker)
    with pytest.raises(ValueError, match="beams: expected at least k = 3, got 2"):
        generator.constrained(["x"], k=3, beams=2)
    with pytest.raises(ValueError, match="images: expected one for each of the 1 prompts, got 2"):
        generator.constrained(["x"], [None, None])
    with pytest.raises(TypeError, match="got one text 'x'"):
        generator.free("x")
    assert generator.constrained([], k=2).rows.shape == (0, 2)


QUESTIONS = [Question(f"q{i}", None, prompt) for i, prompt in enumerate(PROMPTS)]


def test_answers_to_a_file_continue_after_a_kill(parts, linker, tmp_path):
    kind, model, processor, images = parts
    questions = QUESTIONS
    if images is not None:
        questions = []
        for i, (question, pixels) in enumerate(zip(QUESTIONS, images, strict=True)):
            Image.fromarray(pixels).save(tmp_path / f"{i}.png")
            questions.append(replace(question, image=tmp_path / f"{i}.png"))
    template = "<image> {question}" if kind == "llava" else None
    generator = NameGenerator(model, processor, linker, batch=2)
    path = tmp_path / "whole.jsonl"
    assert write_answers(generator, questions, path, template=template) == 3
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [record["data_id"] for record in records] == ["q0", "q1", "q2"]
    assert all(record["text"] in NAMES and np.isfinite(record["score"]) for record in records)
    assert [p.entity_id for p in read_predictions(path)] == [r["pred_entity_id"] for r in records]

    def killed(phase, done, count):
        raise KeyboardInterrupt

    half = tmp_path / "half.jsonl"
    with pytest.raises(KeyboardInterrupt):
        write_answers(generator, questions, half, template=template, progress=killed)
    with (tmp_path / "half.jsonl.partial").open("a", encoding="utf-8") as file:
        file.write('{"data_id": "q2", "pred')  # and the last line was cut
    with pytest.raises(ValueError, match="holds answers to other questions"):
        write_answers(generator, questions[1:], half, template=template)
    begun = half.with_name("half.jsonl.partial").read_text()
    with torch.no_grad():
        other = copy.deepcopy(model)
        next(other.parameters()).mul_(1.5)
    others = {
        "model": (NameGenerator(other, processor, linker, batch=2), {}),
        "aliases": (NameGenerator(model, processor, linker, batch=2, aliases=True), {}),
        "beams": (generator, {"beams": 5}),
        "constrained": (generator, {"constrained": False}),
        "template": (generator, {"template": "<image> say: {question}" if kind == "llava" else "say: {question}"}),
    }
    for setting, (another, changed) in others.items():
        with pytest.raises(ValueError, match=f"holds answers with another {setting}; remove it"):
            write_answers(another, questions, half, **{"template": template, **changed})
    assert half.with_name("half.jsonl.partial").read_text().startswith(begun.rpartition("\n")[0])
    assert write_answers(generator, questions, half, template=template) == 1
    assert not half.with_name(".half.jsonl.settings").exists()
    assert [json.loads(line)["data_id"] for line in half.read_text().splitlines()] == ["q0", "q1", "q2"]
    assert [r["pred_entity_id"] for r in records] == [p.entity_id for p in read_predictions(half)]
    with pytest.raises(FileExistsError, match="expected a new file"):
        write_answers(generator, questions, half)
    assert not (tmp_path / "half.jsonl.partial").exists()


def test_a_saved_model_is_loaded(tmp_path, linker):
    config = transformers.GPT2Config(n_positions=32, n_embd=16, n_layer=1, n_head=2, **TEXT)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    make_tokenizer().save_pretrained(tmp_path / "gpt2")
    generator = load_generator(str(tmp_path / "gpt2"), linker)
    assert generator.constrained(["what is this ?"]).texts[0][0] in NAMES
    model, processor = make_llava()
    model.save_pretrained(tmp_path / "llava")
    processor.save_pretrained(tmp_path / "llava")
    loaded = load_generator(str(tmp_path / "llava"), linker)
    assert type(loaded.processor).__name__ == "LlavaProcessor"
    transformers.ViTConfig().save_pretrained(tmp_path / "vit")
    with pytest.raises(ValueError, match="expected a model that generates text, got a 'vit'"):
        load_generator(str(tmp_path / "vit"), linker)


def test_questions_from_a_file(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"data_id": "1", "question": "what?", "image_id": "7"}\n', encoding="utf-8")
    assert read_questions(path, None, answered=False) == ([Question("1", None, "what?")], 0)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "7.png").touch()
    questions, _ = read_questions(path, ImageFolder(tmp_path / "in"), answered=False)
    assert questions[0].image == tmp_path / "in" / "7.png"
    for line, message in (
        ('{"data_id": "1", "question": "what?"}', r"questions.jsonl:2: data_id: '1' occurs twice"),
        ('{"data_id": "2"}', r"questions.jsonl:2: question: expected a text, missing"),
    ):
        path.write_text(f'{{"data_id": "1", "question": "what?"}}\n{line}\n', encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_questions(path, None, answered=False)
    path.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="expected at least one question"):
        read_questions(path, None, answered=False)


def test_prompts():
    class Chat:
        chat_template = "x"

        @staticmethod
        def apply_chat_template(messages, add_generation_prompt, tokenize):
            assert add_generation_prompt
            assert not tokenize
            return repr(messages[0]["content"])

    assert make_prompts(Chat(), ["a"], images=False) == ["'a'"]
    assert make_prompts(Chat(), ["a"], images=True) == ["[{'type': 'image'}, {'type': 'text', 'text': 'a'}]"]
    assert make_prompts(object(), ["a"], images=True) == ["a"]
    with pytest.raises(ValueError, match=r"expected \{question\} in it"):
        make_prompts(object(), ["a"], images=False, template="x")


class Written:
    """A generator whose model writes what it is told."""

    batch, lead, aliases, unwritable = 2, "", False, 0

    def __init__(self, linker, texts):
        self.linker, self._texts, self.model, self.processor = linker, iter(texts), torch.nn.Linear(1, 1), object()
        self.asked_first = []

    def free(self, prompts, images, *, beams, exact_first):
        self.asked_first.append(exact_first)
        texts = [next(self._texts) for _ in prompts]
        links = self.linker.link(texts, exact_first=exact_first)
        return Ranking(links.rows, np.zeros(links.rows.shape), links.kinds, [[text] for text in texts], links.kb)


def test_free_texts_of_nothing_or_of_two_names_are_no_answers(linker, tmp_path):
    questions = [Question(str(i), None, "what is this ?") for i in range(4)]
    texts = ["wood duck or gate", "wood", "", "golden gate\nrose"]
    write_answers(Written(linker, texts), questions, tmp_path / "a.jsonl", constrained=False)
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["pred_entity_id"] for record in records] == [None, "Q0", None, None]
    assert [record.get("several names") for record in records] == [
        ["wood duck", "gate"], None, None, ["golden gate", "rose"]]  # fmt: skip
    assert unanswered(tmp_path / "a.jsonl") == (
        "3 of 4 questions have no answer: 2 texts name several entities, first of question '0' (wood duck / "
        "gate); 1 text is empty, first of question '2'"
    )
    with pytest.raises(ValueError, match="the model writes nothing for the first 2 questions, such as 'what is this"):
        write_answers(Written(linker, [" "] * 4), questions, tmp_path / "b.jsonl", constrained=False)
    plain = Written(linker, ["wood"] * 4)
    write_answers(plain, questions, tmp_path / "c.jsonl", constrained=False, exact_first=False)
    assert plain.asked_first == [False, False]
    half = (tmp_path / "d.jsonl.partial").write_text(json.dumps({"data_id": "0"}) + "\n")
    assert half
    (tmp_path / ".d.jsonl.settings").write_text("{}")
    with pytest.raises(ValueError, match="exact first"):
        write_answers(Written(linker, ["wood"] * 4), questions, tmp_path / "d.jsonl", constrained=False)


def test_the_command_names_answers_of_nothing_and_of_two_names(linker, tmp_path, capsys, monkeypatch):
    pytest.importorskip("typer")
    from oven_retrieval.cli import main

    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        "".join(json.dumps({"data_id": str(i), "question": "what is this ?"}) + "\n" for i in range(4))
    )
    written = {"texts": []}
    monkeypatch.setattr("oven_retrieval.workspace.open_workspace", lambda folder: linker)
    monkeypatch.setattr(
        "oven_retrieval.generation.answers.load_generator", lambda *args, **options: Written(linker, written["texts"])
    )
    nothing = "the model writes nothing for the first 2 questions, such as 'what is this ?'"
    partly = (
        "2 of 4 questions have no answer: 1 text names several entities, first of question '1' (wood duck / gate); "
        "1 text is empty, first of question '2'"
    )
    for name, texts, status, line in (
        ("a", ["wood", "wood duck or gate", "", "gate"], 0, partly),
        ("b", ["", " ", "", ""], 2, nothing),
        ("c", ["wood"] * 4, 0, ""),
    ):
        written["texts"] = texts
        arguments = ["generate", str(questions), "--kb", str(tmp_path), "--model", "x", "--output"]
        with pytest.raises(SystemExit) as ended:
            main([*arguments, str(tmp_path / f"{name}.jsonl"), "--free"])
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == status
        assert line in printed.err
        assert ("no answer" in printed.err) is (name == "a")
        assert "Traceback" not in printed.err
