"""Text towers that read vectors in front of a class's name, for prompt learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vision_features.errors import NotApplicableError

PLACE = "X"
"""A word of one token that stands where a vector goes."""


class Contexts(NamedTuple):
    """What prompt learning needs of a text tower: the width of its tokens, and texts of classes behind vectors.

    ``of(names, m)`` returns a function from vectors ``[m, w]`` or ``[k, m, w]`` to features ``[k, d]``, with gradients.
    """

    width: int
    of: Callable[[Sequence[str], int], Callable[[Tensor], Tensor]]


def of_open_clip(model: Any, tokenize: Callable[[list[str]], Tensor]) -> Contexts | None:
    """Return what a plain CLIP text tower of open_clip offers; None for another tower."""
    embedding = getattr(model, "token_embedding", None)
    if embedding is None or getattr(model, "positional_embedding", None) is None:
        return None

    def of(names: Sequence[str], tokens: int) -> Callable[[Tensor], Tensor]:
        from knowledge_prompts.encoding.text_tower import open_clip_text_with_context

        encode = open_clip_text_with_context(model)
        room = model.positional_embedding.shape[0] - 2
        if tokens >= room:
            raise NotApplicableError(f"a context of {tokens} tokens leaves no room for names in {room + 2}")
        ids = tokenize([f"{' '.join([PLACE] * tokens)} {name.replace('_', ' ')}." for name in names])
        places = ids[:, 1 : 1 + tokens]
        if not bool((places == places[0, 0]).all()):
            raise NotApplicableError(f"the tokenizer makes more than one token of the word {PLACE!r}")
        ids = ids[:, : int((ids != 0).any(0).nonzero().max()) + 1]  # what is behind the longest text changes nothing

        def texts(context: Tensor) -> Tensor:
            features: Tensor = encode(ids.to(context.device), context)
            return features

        return texts

    return Contexts(int(torch.as_tensor(embedding.weight).shape[1]), of)
