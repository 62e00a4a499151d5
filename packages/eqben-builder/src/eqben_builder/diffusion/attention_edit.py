"""Prompt-to-prompt as algebra: an edited attention map is a linear map of the source's map and the target's own.

    P' = P_source A + P_target B

with matrices A and B over the words' positions. Replacing words moves columns (A = mapper, B = 0); refining keeps the
columns of the words that both prompts share and lets the target attend to the new ones; reweighting scales columns.
As the output of attention is P' V, the same edit can be made on the values instead:

    P' V = P_source (A V) + P_target (B V)

which needs no attention map at all and so runs with fused attention.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MapEdit(NamedTuple):
    """The two matrices of an edit.

    source: A, float [words, words]; row i says where the source's attention to its word i goes.
    target: B, float [words, words].
    """

    source: Float[Tensor, "words words"]
    target: Float[Tensor, "words words"]

    def to(self, like: Tensor) -> MapEdit:
        """The edit on the device and in the type of a tensor."""
        return MapEdit(self.source.to(like), self.target.to(like))


def edited_map(
    edit: MapEdit, source: Float[Tensor, "heads pixels words"], target: Float[Tensor, "heads pixels words"]
) -> Float[Tensor, "heads pixels words"]:
    """The target's attention map under an edit.

    Formula:
        P' = P_source A + P_target B
    """
    return source @ edit.source + target @ edit.target


def word_tokens(tokenizer: Any, prompt: str) -> list[list[int]]:
    """The tokens of each word of a prompt, without those of beginning and end."""
    words = [list(tokenizer(word, add_special_tokens=False).input_ids) for word in prompt.split()]
    tokens = list(tokenizer(prompt, add_special_tokens=False).input_ids)
    if [token for word in words for token in word] != tokens:
        raise ValueError(f"prompt {prompt!r}: its words do not tokenise one by one")
    if len(tokens) + 2 > tokenizer.model_max_length:
        raise ValueError(f"prompt {prompt!r} has {len(tokens)} tokens, {tokenizer.model_max_length - 2} fit")
    return words


def _spans(words: Sequence[Sequence[int]]) -> list[range]:
    """Positions of each word's tokens, after the beginning's one."""
    spans, at = [], 1
    for word in words:
        spans.append(range(at, at + len(word)))
        at += len(word)
    return spans


def replace_words(tokenizer: Any, source: str, target: str) -> MapEdit:
    """Let each word of the target look where the word in its place in the source looks.

    A word of n tokens that takes the place of one of m spreads the attention of the m evenly over its n.

    Source:
        Prompt-to-prompt, word swap.
    """
    ours, theirs = word_tokens(tokenizer, source), word_tokens(tokenizer, target)
    if len(ours) != len(theirs):
        raise ValueError(f"{source!r} has {len(ours)} words and {target!r} {len(theirs)}: refine instead of replacing")
    size = int(tokenizer.model_max_length)
    mapper = torch.zeros(size, size)
    mapper[0, 0] = 1
    ends = [1, 1]
    for a, b in zip(_spans(ours), _spans(theirs), strict=True):
        if len(a) == len(b):
            for i, j in zip(a, b, strict=True):
                mapper[i, j] = 1
        else:
            mapper[a.start : a.stop, b.start : b.stop] = 1 / len(b)
        ends = [a.stop, b.stop]
    # The end of the text and the padding after it, position by position; what has no partner keeps its place.
    for k in range(size):
        i, j = min(ends[0] + k, size - 1), ends[1] + k
        if j >= size:
            break
        mapper[i, j] = 1
    return MapEdit(mapper, torch.zeros(size, size))


def refine_prompt(tokenizer: Any, source: str, target: str) -> MapEdit:
    """Let the words that both prompts share look where the source's look, and new words where they like.

    Source:
        Prompt-to-prompt, prompt refinement; shared tokens are found by the longest matching runs.
    """
    size = int(tokenizer.model_max_length)
    ours, theirs = ([token for word in word_tokens(tokenizer, prompt) for token in word] for prompt in (source, target))
    shared, own = torch.zeros(size, size), torch.zeros(size, size)
    shared[0, 0] = 1
    partner: dict[int, int] = {}
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        partner |= {block.b + k: block.a + k for k in range(block.size)}
    for j in range(len(theirs)):
        if j in partner:
            shared[partner[j] + 1, j + 1] = 1
        else:
            own[j + 1, j + 1] = 1
    for k in range(size - 1 - len(theirs)):
        shared[min(1 + len(ours) + k, size - 1), 1 + len(theirs) + k] = 1
    return MapEdit(shared, own)


def reweight_words(tokenizer: Any, target: str, weights: Mapping[str, float], edit: MapEdit) -> MapEdit:
    """Scale how much is looked at some words of the target."""
    words = target.split()
    scale = torch.ones(edit.source.shape[1])
    for word, factor in weights.items():
        if word not in words:
            raise ValueError(f"word {word!r} is not in the prompt {target!r}")
        for target_word, span in zip(words, _spans(word_tokens(tokenizer, target)), strict=True):
            if target_word == word:
                scale[span.start : span.stop] = factor
    return MapEdit(edit.source * scale, edit.target * scale)
