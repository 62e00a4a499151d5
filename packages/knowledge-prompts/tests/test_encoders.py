"""Text encoders as they are: open_clip's and Hugging Face's, tiny and random."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from knowledge_prompts import (
    ClassPrompts,
    StoredKnowledge,
    build_prompts,
    class_embeddings,
    open_clip_text,
    open_clip_text_with_context,
    stored_sources,
)
from knowledge_prompts.encoding.tokens import token_rules
from knowledge_prompts.encoding.truncation import truncation_report
from knowledge_prompts.prompts.class_prompts import load_class_prompts

torch = pytest.importorskip("torch")

LONG = " and ".join(["a bird of the night that hunts from its perch"] * 9)
PROMPTS = build_prompts(
    ClassPrompts("own", ["a photo of a {}.", "the {}."], ["owl", "hen"]),
    [StoredKnowledge({"owl": ["a bird", LONG]}, name="stored")],
)
EPS = 16 * float(np.finfo(np.float32).eps)


def reference(encode, ids_of, limit):
    """Each text by itself, padded to the whole context, the end token kept."""
    rows = []
    for i in range(len(PROMPTS.classes)):
        features = []
        for text in PROMPTS.texts(i):
            ids = ids_of(text)
            ids = ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]
            features.append(encode(ids).double())
        unit = torch.nn.functional.normalize(torch.cat(features), dim=-1)
        rows.append(torch.nn.functional.normalize(unit.mean(dim=0), dim=0))
    return torch.stack(rows).numpy()


@pytest.fixture(scope="module")
def open_clip():
    return pytest.importorskip("open_clip")


@pytest.fixture(scope="module")
def clip_model(open_clip):
    torch.manual_seed(0)
    vision = open_clip.CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=16, image_size=16)
    text = open_clip.CLIPTextCfg(context_length=77, vocab_size=49408, width=32, heads=2, layers=2)
    return open_clip.CLIP(embed_dim=24, vision_cfg=vision, text_cfg=text).eval()


@torch.no_grad()
def test_open_clip_model_and_tokenizer(open_clip, clip_model):
    tokenizer = open_clip.SimpleTokenizer()

    def encode_ids(ids):
        batch = torch.zeros(1, 77, dtype=torch.long)
        batch[0, : len(ids)] = torch.tensor(ids)
        return clip_model.encode_text(batch)

    expected = reference(
        encode_ids, lambda text: [tokenizer.sot_token_id, *tokenizer.encode(text), tokenizer.eot_token_id], 77
    )
    for encode in (clip_model.encode_text, open_clip_text(clip_model)):
        embeddings = class_embeddings(encode, PROMPTS, tokenize=tokenizer)
        np.testing.assert_allclose(embeddings.weights, expected, atol=EPS, rtol=0)
        assert embeddings.truncation.classes == ["owl"]
        assert embeddings.truncation.long_prompts == 2
    for text in PROMPTS.unique_texts():
        ids = token_rules(tokenizer).cut(token_rules(tokenizer).ids([text])[0])
        assert ids == [int(i) for i in tokenizer([text])[0] if i], "as open_clip cuts, the end token kept"


@torch.no_grad()
def test_open_clips_text_at_any_length(open_clip, clip_model):
    tokenizer = open_clip.SimpleTokenizer()
    ids = tokenizer(["a photo of an owl", "x"])
    for length in (7, 20, 77):
        short = open_clip_text(clip_model)(ids[:, :length])
        torch.testing.assert_close(short, clip_model.encode_text(ids), atol=1e-5, rtol=1e-5)
    clip_model.text_pool_type = "last"
    with pytest.raises(ValueError, match="pools by 'last'"):
        open_clip_text(clip_model)
    clip_model.text_pool_type = "argmax"


def test_vectors_stand_where_words_were(open_clip, clip_model):
    """The embeddings of the words themselves give the text's own feature; gradients reach the vectors."""
    ids = open_clip.SimpleTokenizer()(["a photo of an owl.", "a photo of a snowy owl."])
    encode = open_clip_text_with_context(clip_model)
    with torch.no_grad():
        own = clip_model.token_embedding(ids)
        expected = clip_model.encode_text(ids)
        torch.testing.assert_close(encode(ids, own[:, 1:4]), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(encode(ids, own[0, 1:4]), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(encode(ids), expected, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(encode(ids, own[0, 1:4].flip(1)), expected, atol=1e-2)
    vectors = torch.zeros(3, 32, requires_grad=True)
    encode(ids[:, :12], vectors).sum().backward()
    assert float(vectors.grad.norm()) > 0
    with pytest.raises(ValueError, match="10 vectors do not fit before the end token of text 0"):
        encode(ids, torch.zeros(10, 32))
    with pytest.raises(ValueError, match="Linear does not show its token embeddings"):
        open_clip_text_with_context(torch.nn.Linear(1, 1))


def test_stanford_cars_with_generated_knowledge_is_reported(open_clip, shared_knowledge):
    gpt3 = stored_sources(shared_knowledge, "stanford-cars")[-1]
    prompts = build_prompts(load_class_prompts("stanford-cars"), [gpt3])
    report = truncation_report(prompts, open_clip.SimpleTokenizer())
    assert report.prompts == len(prompts)
    assert report.long_prompts > 0
    assert set(report.classes) <= set(prompts.classes)
    assert all(prompt.tokens > 77 and prompt.sources == ("gpt3",) for prompt in report.long)


@pytest.fixture(scope="module")
def hugging_face():
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<unk>", "<start>", "<pad>", *sorted({w.strip(".") for t in PROMPTS.unique_texts() for w in t.split()})]
    words += [".", "<end>"]
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(dict.fromkeys(words))}, unk_token="<unk>")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    end = raw.token_to_id("<end>")
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", end)]
    )
    special = {"unk_token": "<unk>", "bos_token": "<start>", "eos_token": "<end>", "pad_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=20, **special)
    config = transformers.CLIPTextConfig(
        vocab_size=raw.get_vocab_size(), hidden_size=32, intermediate_size=32, projection_dim=24, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=20, eos_token_id=end, bos_token_id=1, pad_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.CLIPTextModelWithProjection(config).eval(), tokenizer


@torch.no_grad()
def test_hugging_face_model_and_tokenizer(hugging_face):
    model, tokenizer = hugging_face

    def encode_ids(ids):
        return model(
            input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long)
        ).text_embeds

    expected = reference(encode_ids, lambda text: tokenizer(text)["input_ids"], 20)
    for encode in (model, lambda **tokens: model(**tokens).text_embeds):
        embeddings = class_embeddings(encode, PROMPTS, tokenize=tokenizer, batch_size=4)
        np.testing.assert_allclose(embeddings.weights, expected, atol=EPS, rtol=0)
        assert embeddings.truncation.classes == ["owl"]


@pytest.fixture(scope="module", params=["SiglipText", "Siglip2Text"])
def siglip(request):
    """A tiny text tower of SigLIP's, and a tokenizer that pads with its end token, as the published ones."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["</s>", "<unk>", *sorted({w.strip(".") for t in PROMPTS.unique_texts() for w in t.split()}), "."]
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, model_max_length=16, unk_token="<unk>", eos_token="</s>", pad_token="</s>",
        model_input_names=["input_ids"],
    )  # fmt: skip
    config = getattr(transformers, f"{request.param}Config")(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=16, pad_token_id=0, eos_token_id=0, bos_token_id=1, projection_size=24,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{request.param}Model")(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)  # so that what is attended to matters
    return model, tokenizer


@torch.no_grad()
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("names", [["input_ids"], ["input_ids", "attention_mask"]])
def test_siglip_is_given_the_whole_context_and_no_mask(siglip, names, side, monkeypatch):
    """The published use: ``padding="max_length"``, ids alone; also of a tokenizer that was saved without its names."""
    model, tokenizer = siglip
    monkeypatch.setattr(tokenizer, "padding_side", side)

    def published(text):
        ids = tokenizer(text, padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
        return torch.nn.functional.normalize(model(input_ids=ids).pooler_output.double(), dim=-1)

    means = [torch.cat([published(text) for text in PROMPTS.texts(i)]).mean(dim=0) for i in range(len(PROMPTS.classes))]
    expected = torch.nn.functional.normalize(torch.stack(means), dim=1).numpy()
    monkeypatch.setattr(tokenizer, "model_input_names", names)
    embeddings = class_embeddings(model, PROMPTS, tokenize=tokenizer, batch_size=3)
    np.testing.assert_allclose(embeddings.weights, expected, atol=EPS, rtol=0)
    assert embeddings.truncation.long_prompts == 2


def test_a_tokenizer_without_a_limit_needs_one(hugging_face):
    tokenizer = hugging_face[1]
    limit, tokenizer.model_max_length = tokenizer.model_max_length, int(1e30)
    try:
        with pytest.raises(ValueError, match="does not say how many tokens"):
            token_rules(tokenizer)
        assert token_rules(tokenizer, 64).context_length == 64
    finally:
        tokenizer.model_max_length = limit


def test_torch_features_of_any_type_without_a_graph():
    layer = torch.nn.Linear(1, 3, bias=True).to(torch.bfloat16)

    def encode(texts):
        features = layer(torch.tensor([[float(len(text))] for text in texts], dtype=torch.bfloat16))
        assert not features.requires_grad
        return features

    embeddings = class_embeddings(encode, PROMPTS)
    assert embeddings.weights.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings.weights, axis=1), 1, rtol=1e-6)


class Rotary(torch.nn.Module):
    """An encoder that makes a table at its first call and keeps it, as rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 8)
        self.table = None

    def encode_text(self, ids):
        if self.table is None:
            self.table = torch.outer(torch.arange(30.0), torch.ones(8)).cos() * self.words.weight.new_ones(())
        return (self.words(ids) * self.table[: ids.shape[1]]).mean(dim=1)


def word_lengths(texts):
    return [[1, *(2 + len(word) for word in text.split()), 3] for text in texts]


def test_an_encoder_can_be_trained_after_its_texts_were_embedded():
    model = Rotary()
    class_embeddings(model.encode_text, PROMPTS, tokenize=word_lengths, context_length=30)
    model.encode_text(torch.ones(2, 5, dtype=torch.long)).sum().backward()
    assert model.words.weight.grad is not None


def test_a_partial_of_a_modules_method_gets_tensors():
    model = Rotary()
    expected = class_embeddings(model.encode_text, PROMPTS, tokenize=word_lengths, context_length=30).weights
    inner = functools.partial(Rotary.encode_text, model)
    for encode in (functools.partial(model.encode_text), inner, functools.partial(inner)):
        embeddings = class_embeddings(encode, PROMPTS, tokenize=word_lengths, context_length=30)
        np.testing.assert_array_equal(embeddings.weights, expected)
