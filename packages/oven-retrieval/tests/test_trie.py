"""Constrained decoding against a plain look at all names, and inside transformers' generate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oven_retrieval.generation import NameTrie, allowed_tokens_fn

END = 1
sequences = st.lists(st.lists(st.integers(2, 6), min_size=1, max_size=5), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None)
@given(sequences, st.lists(st.integers(0, 7), max_size=5))
def test_allowed_tokens_equal_a_look_at_all_names(names, prefix):
    trie = NameTrie(names, END)
    for sequence in [prefix, *(name[: len(prefix)] for name in names), names[0]]:
        following = {
            name[len(sequence)] for name in names if name[: len(sequence)] == sequence and len(name) > len(sequence)
        }
        complete = sequence in names
        assert trie.allowed(sequence) == [END] * complete + sorted(following)
        assert trie.rows(sequence) == [row for row, name in enumerate(names) if name == sequence]
    assert len(trie) == len(names)


@pytest.mark.parametrize("children", [1, 2, 5000, 20_000])
def test_many_names_behind_one_prefix_are_looked_at_in_blocks(children, monkeypatch):
    rng = np.random.default_rng(children)
    second = rng.integers(2, 2 + children, 20_000).tolist()
    names = [[7, token, token % 3 + 2] for token in second] + [[7]] + [[9, 5]] * 3
    trie = NameTrie(names, END)
    calls = []
    bisect = trie._bisect
    monkeypatch.setattr(trie, "_bisect", lambda *arguments: calls.append(arguments) or bisect(*arguments))
    assert trie.allowed([7]) == [END, *sorted({*second})]
    assert len(calls) <= 8  # two for the prefix, one a block: not one for each of the tokens
    assert trie.allowed([9]) == [5]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "expected at least one name"),
        ([[2], []], r"row 1 is \[\]"),
        ([[2, 1]], r"row 0 is \[2, 1\]"),
        ([[-3]], "row 0"),
    ],
)
def test_names_that_cannot_be_generated_are_refused(names, expected):
    with pytest.raises(ValueError, match=expected):
        NameTrie(names, END)


def test_after_a_name_only_the_end_may_follow():
    allowed = allowed_tokens_fn(NameTrie([[3, 4], [3]], END), prompt_length=1)
    assert allowed(0, np.array([9])) == [3]
    assert allowed(0, np.array([9, 3])) == [END, 4]
    assert allowed(0, np.array([9, 3, 4])) == [END]
    assert allowed(0, np.array([9, 3, END, 0])) == [END]
    assert allowed(0, np.array([9, 7])) == [END]
    with pytest.raises(ValueError, match="prompt_length: expected at least 0, got -1"):
        allowed_tokens_fn(NameTrie([[3]], END), -1)


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_random_model_generates_only_names(kind, beams):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    names = [rng.integers(3, 40, rng.integers(1, 6)).tolist() for _ in range(50)]
    trie = NameTrie(names, END)
    prompt = torch.randint(3, 40, (4, 7))
    if kind == "decoder":
        config = transformers.GPT2Config(
            vocab_size=40,
            n_positions=32,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=2,
            eos_token_id=END,
            pad_token_id=0,
        )
        model, start = transformers.GPT2LMHeadModel(config).eval(), 7
    else:
        config = transformers.T5Config(
            vocab_size=40,
            d_model=16,
            d_kv=8,
            d_ff=16,
            num_layers=1,
            num_heads=2,
            eos_token_id=END,
            pad_token_id=0,
            decoder_start_token_id=0,
        )
        model, start = transformers.T5ForConditionalGeneration(config).eval(), 1
    written = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=8,
        num_beams=beams,
        do_sample=False,
        prefix_allowed_tokens_fn=allowed_tokens_fn(trie, start),
    )
    for row in written.tolist():
        assert trie.rows(row[start : row.index(END, start)])
