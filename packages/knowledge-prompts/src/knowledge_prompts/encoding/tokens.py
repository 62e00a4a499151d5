"""Token ids of texts, whole: from CLIP's, open_clip's and Hugging Face's tokenizers, or any function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

# Where a tokenizer of Hugging Face knows no limit, its model_max_length is about 1e30.
_NO_LIMIT = 10**6


@dataclass(frozen=True)
class TokenRules:
    """What is needed to cut and pad token ids without harm.

    Args:
        ids: Texts to token ids, whole, with their start and end tokens.
        context_length: The most tokens that the text encoder takes.
        pad_id: Token that fills up a batch.
        end_ids: Tokens that may end a text; a text that is cut keeps the one that it ends with.
        masked: True if the encoder gets an attention mask beside the ids, called by name.
        by_name: True if the encoder is called with ``input_ids`` by name.
        to_context: True if every batch is padded to the whole context.
        left: True if rows are padded on their left.
        with_torch: Whether encoders that go with this tokenizer take torch tensors.
    """

    ids: Callable[[Sequence[str]], list[list[int]]]
    context_length: int
    pad_id: int = 0
    end_ids: frozenset[int] = frozenset()
    masked: bool = False
    with_torch: bool = False
    by_name: bool = False
    to_context: bool = False
    left: bool = False

    def cut(self, ids: Sequence[int]) -> list[int]:
        """The ids, at most `context_length` of them, with the end token kept.

        Source: CLIP reads its feature at the end token. ELEVATER's toolkit cuts it off, so that different texts get the
            feature of the start token, which is the same for all.
        """
        if len(ids) <= self.context_length:
            return list(ids)
        if ids[-1] in self.end_ids:
            return [*ids[: self.context_length - 1], ids[-1]]
        return list(ids[: self.context_length])


def token_rules(tokenize: Any, context_length: int | None = None) -> TokenRules:
    """Find out how a tokenizer gives whole token ids, and where its texts end.

    `tokenize` is a tokenizer of open_clip (its own or its wrapper of Hugging Face's), one of Hugging Face, a
    `TokenRules`, or a function from a list of texts to lists of ids of their own lengths.

    A tokenizer of Hugging Face whose ``model_input_names`` has no ``attention_mask`` belongs to an encoder that was
    trained without one and reads its feature at the last place of the context, such as SigLIP: no mask is given, and
    every batch is padded to the whole context.

    Source: transformers' conversion of SigLIP and SigLIP 2, whose tokenizers name ``input_ids`` alone.
    """
    if isinstance(tokenize, TokenRules):
        return tokenize
    if hasattr(tokenize, "sot_token_id") and hasattr(tokenize, "eot_token_id") and hasattr(tokenize, "encode"):
        start, end = int(tokenize.sot_token_id), int(tokenize.eot_token_id)
        limit = _limit(context_length, getattr(tokenize, "context_length", None), tokenize)
        return TokenRules(
            lambda texts: [[start, *tokenize.encode(text), end] for text in texts],
            limit,
            end_ids=frozenset([end]),
            with_torch=True,
        )
    if hasattr(tokenize, "clean_fn") and hasattr(tokenize, "tokenizer"):
        if getattr(tokenize, "tokenizer_mode", "") or getattr(tokenize, "strip_sep_token", False):
            raise ValueError(
                "this tokenizer rewrites its tokens after padding; give encode_text a function of texts and no tokenize"
            )
        inner, clean = tokenize.tokenizer, tokenize.clean_fn
        rules = _hugging_face(inner, context_length or tokenize.context_length)
        return TokenRules(
            lambda texts: rules.ids([clean(text) for text in texts]),
            rules.context_length,
            rules.pad_id,
            rules.end_ids,
            with_torch=True,
        )
    if hasattr(tokenize, "pad_token_id") and hasattr(tokenize, "model_max_length"):
        rules = _hugging_face(tokenize, context_length)
        masked = "attention_mask" in getattr(tokenize, "model_input_names", ("attention_mask",))
        left = getattr(tokenize, "padding_side", "right") == "left"
        return replace(rules, masked=masked, to_context=not masked, left=left, by_name=True)
    if callable(tokenize):
        return _function(tokenize, context_length)
    raise TypeError(f"tokenize is a {type(tokenize).__name__}; expected a tokenizer or a function of a list of texts")


def _hugging_face(tokenizer: Any, context_length: int | None) -> TokenRules:
    limit = _limit(context_length, int(tokenizer.model_max_length), tokenizer)
    special = {int(number) for number in tokenizer.all_special_ids}
    # Some tokenizers have no padding token; the mask then hides whatever stands there.
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(special, default=0)

    def ids(texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        token_ids = tokenizer(list(texts), padding=False, truncation=False, verbose=False)["input_ids"]
        return [[int(number) for number in row] for row in token_ids]

    return TokenRules(ids, limit, int(pad), frozenset(special), with_torch=True)


def _function(tokenize: Callable[[list[str]], Any], context_length: int | None) -> TokenRules:
    limit = _limit(context_length, getattr(tokenize, "context_length", None), tokenize)
    probes = [[int(number) for number in row] for row in tokenize(["a", "a photo of a bird, in two colours"])]
    if len(probes[0]) == len(probes[1]):
        raise ValueError(
            f"tokenize gives rows of one length, {len(probes[0])}, so that truncation cannot be seen; expected the ids "
            f"of each text at its own length"
        )
    same_end = probes[0][-1:] == probes[1][-1:]

    def ids(texts: Sequence[str]) -> list[list[int]]:
        return [[int(number) for number in row] for row in tokenize(list(texts))]

    return TokenRules(ids, limit, end_ids=frozenset(probes[0][-1:]) if same_end else frozenset())


def _limit(chosen: int | None, own: int | None, tokenize: object) -> int:
    limit = chosen if chosen is not None else own
    if limit is None or limit > _NO_LIMIT:
        raise ValueError(
            f"{type(tokenize).__name__} does not say how many tokens the text encoder takes; give context_length "
            f"(77 for CLIP, 64 for SigLIP)"
        )
    if limit < 2:
        raise ValueError(f"context_length is {limit}; expected at least 2, for a start and an end token")
    return int(limit)
