from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_prompts import ClassPrompts, StoredKnowledge, build_prompts, class_embeddings
from knowledge_prompts.encoding.tokens import TokenRules, token_rules
from knowledge_prompts.encoding.truncation import truncation_report

from ._reference import CONTEXT, END, AveragingEncoder, CausalEncoder, FixedWidthEncoder, WordTokenizer, class_embedding

WORDS = WordTokenizer()
LONG = "a very long account of a bird that goes on and on and never ends"


def prompts_of(items, templates=("a photo of a {}.", "the {}.")):
    own = ClassPrompts("own", list(templates), list(items))
    return build_prompts(own, [StoredKnowledge(items, name="stored")])


SOME = prompts_of({"owl": ["a bird of the night", "eyes"], "hen": [], "great tit": ["small"]})


def expected(prompts, encode, tokenize=WORDS, limit=CONTEXT):
    rows = []
    for i in range(len(prompts.classes)):
        ids = [row if len(row) <= limit else [*row[: limit - 1], END] for row in tokenize(prompts.texts(i))]
        features = [encode(np.array([row], dtype=np.int64))[0].tolist() for row in ids]
        rows.append(class_embedding(features))
    return np.array(rows)


def close(embeddings, reference, features=16):
    """Within a few roundings of float32, the result's type."""
    assert embeddings.weights.dtype == np.float32
    np.testing.assert_allclose(embeddings.weights, reference, atol=4 * np.finfo(np.float32).eps, rtol=0)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
def test_embeddings_are_the_definition(batch_size):
    embeddings = class_embeddings(CausalEncoder(), SOME, tokenize=WORDS, batch_size=batch_size)
    close(embeddings, expected(SOME, CausalEncoder()))
    assert (embeddings.prompts, embeddings.encoded, embeddings.classes) == (8, 8, SOME.classes)


def test_one_class_with_one_prompt():
    prompts = prompts_of({"owl": []}, templates=["{}"])
    close(class_embeddings(CausalEncoder(), prompts, tokenize=WORDS), expected(prompts, CausalEncoder()))


def test_texts_without_a_tokenizer():
    encode = CausalEncoder()

    def encode_texts(texts):
        assert isinstance(texts, list)
        return np.concatenate([encode(np.array([row], dtype=np.int64)) for row in WORDS(texts)])

    embeddings = class_embeddings(encode_texts, SOME, batch_size=3)
    close(embeddings, expected(SOME, CausalEncoder()))
    assert embeddings.truncation is None, "nobody can know"


def test_each_text_is_encoded_once_and_counts_as_often_as_it_occurs():
    encode = CausalEncoder()
    own = ClassPrompts("own", ["a {}.", "a {}.", "the {}."], ["owl", "hen", "owl"], repeated=["owl"])
    prompts = build_prompts(own)
    embeddings = class_embeddings(encode, prompts, tokenize=WORDS)
    assert (embeddings.prompts, embeddings.encoded, encode.rows) == (
        9,
        4,
        4 + 2,
    )  # the first thrice, to try padding
    close(embeddings, expected(prompts, CausalEncoder()))


def test_batches_are_no_wider_than_their_longest_text():
    encode = CausalEncoder()
    prompts = prompts_of({"owl": ["one two three four"], "hen": []}, templates=["{}"])
    class_embeddings(encode, prompts, tokenize=WORDS, batch_size=1)
    assert encode.widths == [CONTEXT, 3, 3, 8], "short texts come first, behind the trial of padding"


def test_auto_pads_where_padding_matters():
    averaging, fixed, causal = AveragingEncoder(), FixedWidthEncoder(), CausalEncoder()
    for encode in (averaging, fixed, causal):
        class_embeddings(encode, SOME, tokenize=WORDS)
    assert set(averaging.widths[2:]) == {CONTEXT}
    assert set(fixed.widths) == {CONTEXT}
    assert max(causal.widths[2:]) < CONTEXT


def test_class_order_and_batches_change_nothing():
    items = {"owl": ["a bird of the night"], "hen": ["x y", "z"], "tench": []}
    forward = class_embeddings(CausalEncoder(), prompts_of(items), tokenize=WORDS, batch_size=2)
    backward = class_embeddings(CausalEncoder(), prompts_of(dict(reversed(items.items()))), tokenize=WORDS)
    np.testing.assert_allclose(forward.weights, backward.weights[::-1], atol=4 * np.finfo(np.float32).eps, rtol=0)


def test_the_end_token_is_kept():
    long = prompts_of({"owl": [LONG + " far away"], "hen": [LONG + " at home", LONG + " a"]}, templates=["{}"])
    embeddings = class_embeddings(CausalEncoder(), long, tokenize=WORDS)
    close(embeddings, expected(long, CausalEncoder()))
    # Cut without it, the feature would be read at the start token: one embedding for every long text.
    lost = WORDS([long.texts(0)[0]])[0][:CONTEXT]
    assert int(np.argmax(lost)) == 0
    assert not np.allclose(embeddings.weights[0], class_embedding(CausalEncoder()(np.array([lost])).tolist()))


def test_every_truncation_is_reported_with_class_and_source():
    prompts = prompts_of({"owl": [LONG], "hen": ["short"], "great tit": [LONG]})
    embeddings = class_embeddings(CausalEncoder(), prompts, tokenize=WORDS)
    report = embeddings.truncation
    assert report is not None
    assert (report.limit, report.prompts, report.long_prompts) == (CONTEXT, 6, 4)
    assert report.classes == ["owl", "great tit"]
    assert {prompt.sources for prompt in report.long} == {("stored",)}
    assert report.long[0].tokens == len(WORDS([report.long[0].text])[0])
    assert report.lines() == [
        "4 of 6 prompts have more than 14 tokens, in 2 classes",
        "  owl: 2, the longest of 23 tokens, from stored",
        "  great tit: 2, the longest of 24 tokens, from stored",
    ]
    assert report.lines(max_classes=1)[-1] == "  ... and 1 more classes"
    assert report == truncation_report(prompts, WORDS)
    assert class_embeddings(CausalEncoder(), SOME, tokenize=WORDS).truncation.lines() == [
        "0 of 8 prompts have more than 14 tokens"
    ]


def test_shortening_ends_at_a_word():
    prompts = prompts_of({"owl": [LONG.replace("goes on", "goes on,", 1)]}, templates=["{}"])
    token_ids = []

    def encode(ids):
        token_ids.extend(ids.tolist())
        return CausalEncoder()(ids)

    embeddings = class_embeddings(encode, prompts, tokenize=WORDS, overlong="shorten")
    read = embeddings.truncation.long[0].read
    assert read == "owl ; a very long account of a bird that goes on"
    assert token_ids == WORDS([read])


def test_overlong_prompts_can_be_refused():
    with pytest.raises(ValueError, match=r"1 of 1 prompts have more than 14 tokens.*'owl ; a very long"):
        class_embeddings(CausalEncoder(), prompts_of({"owl": [LONG]}, ["{}"]), tokenize=WORDS, overlong="error")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab ,;-(", max_size=30), min_size=1, max_size=4), st.integers(3, 9))
def test_what_is_read_always_fits_and_ends_properly(items, limit):
    rows = []

    def encode(ids):
        rows.extend(ids.tolist())
        return CausalEncoder()(ids)

    prompts = prompts_of({"owl": items}, templates=["{}"])
    for overlong in ("cut", "shorten"):
        class_embeddings(encode, prompts, tokenize=WORDS, context_length=limit, overlong=overlong)
    assert all(len(row) <= limit and END in row for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"overlong": "drop"}, "overlong is 'drop'"),
        ({"context_length": 1}, "context_length is 1"),
        ({"tokenize": lambda texts: [[1, 2]] * len(texts), "context_length": 5}, "rows of one length, 2"),
        ({"tokenize": lambda texts: [[1] * len(t) for t in texts]}, "does not say how many tokens"),
    ],
)
def test_bad_options_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        class_embeddings(CausalEncoder(), SOME, **{"tokenize": WORDS, **arguments})


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: np.zeros(len(texts)), r"gave shape \(2,\) for 2 texts; expected \(2, d\)"),
        (lambda texts: np.zeros((1, 2)), r"gave shape \(1, 2\) for 2 texts"),
        (lambda texts: np.zeros((len(texts), 2)), r"features of 'owl' have length 0\.0"),
        (lambda texts: np.full((len(texts), 2), np.nan), r"features of 'owl' have length nan"),
        (lambda texts: np.array([[1.0], [-1.0]]), r"mean of class 'owl'.* length 0\.0"),
    ],
)
def test_bad_features_are_refused(encode, message):
    prompts = build_prompts(ClassPrompts("own", ["{}", "a {}"], ["owl"]))
    with pytest.raises(ValueError, match=message):
        class_embeddings(encode, prompts)


def test_features_of_changing_width_are_refused():
    with pytest.raises(ValueError, match="gave 2 features, but 1 for an earlier batch"):
        class_embeddings(lambda texts: np.ones((len(texts), 1 + (len(texts[0]) > 8))), SOME, batch_size=1)


def test_progress_counts_texts():
    steps = []
    class_embeddings(CausalEncoder(), SOME, tokenize=WORDS, batch_size=3, progress=lambda *step: steps.append(step))
    assert steps == [(3, 8), (6, 8), (8, 8)]


def test_rules_without_an_end_token_cut_plainly():
    rules = token_rules(lambda texts: [[len(word) for word in text.split()] for text in texts], 3)
    assert rules.end_ids == frozenset()
    assert rules.cut([1, 2, 3, 4]) == [1, 2, 3]
    same = TokenRules(WORDS, 5, end_ids=frozenset([END]))
    assert token_rules(same) is same
    with pytest.raises(TypeError, match="tokenize is a int"):
        token_rules(3)


def lengths(texts):
    return np.array([[len(text), text.count("a") + 1] for text in texts], dtype=np.float32)


def test_texts_and_texts_by_class_are_understood():
    own = ClassPrompts("pets", ["a {}.", "the {}"], ["cat", "zebra"])
    expected = class_embeddings(lengths, build_prompts(own))
    by_class = class_embeddings(lengths, {"cat": ["a cat.", "the cat"], "zebra": ["a zebra.", "the zebra"]})
    np.testing.assert_array_equal(by_class.weights, expected.weights)
    plain = class_embeddings(lengths, ["cat", "zebra"])
    assert plain.classes == ("cat", "zebra")
    rows = lengths(["cat", "zebra"])
    np.testing.assert_allclose(plain.weights, rows / np.linalg.norm(rows, axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda own: class_embeddings(build_prompts(own), lengths), "expected a function: class_embeddings"),
        (lambda own: class_embeddings(lengths, "cat"), "prompts is 'cat'; expected what build_prompts gives"),
        (lambda own: class_embeddings(lengths, own), "expected what build_prompts gives, a list of texts"),
        (lambda own: build_prompts(["cat", "zebra"]), r"expected ClassPrompts\(name, templates, classes\)"),
        (lambda own: build_prompts(own, ["an animal"]), "a source is 'an animal'; expected an object with name"),
        (lambda own: build_prompts(own, "wordnet"), "sources is 'wordnet'; expected a list of knowledge sources"),
        (lambda own: build_prompts(own, 3), "sources is 3; expected a list of knowledge sources"),
    ],
)
def test_other_kinds_of_arguments_are_one_line(call, message):
    with pytest.raises(TypeError, match=message) as caught:
        call(ClassPrompts("pets", ["a {}."], ["cat", "zebra"]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"cat": "a cat"}, "texts of 'cat': expected a list of texts, got 'a cat'"),
        ({"cat": []}, "class 'cat' has no texts; expected at least one"),
        ({}, "the list of classes is empty"),
        ([], "the list of classes is empty"),
        (["cat", "cat"], "class name 'cat' comes 2 times"),
    ],
)
def test_texts_by_class_are_looked_at(prompts, message):
    with pytest.raises(ValueError, match=message):
        class_embeddings(lengths, prompts)
