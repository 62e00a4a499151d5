"""open_clip's text tower on texts of any length, where its own `encode_text` takes 77 tokens only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def open_clip_text(model: Any) -> Callable[[Any], Any]:
    """The function of a model of open_clip from token ids ``[n, l]``, l at most its context, to features ``[n, d]``.

    The plain CLIP model adds all 77 positions to whatever it is given, so that a batch must be padded to 77. Attention
    looks back only, and the feature is read at the end token: what comes after it changes nothing.

    Args:
        model: A model that `open_clip.create_model` gives. One whose own ``encode_text`` takes short batches is used as
            it is.

    Returns:
        A function for `class_embeddings`, bound to the model, so that its device is known.

    Raises:
        ValueError: The text tower pools in another way than at the end token; the message names it.

    Numerics: The same as ``encode_text`` up to rounding: 1e-7 on the unit sphere in float32.

    Example:
        >>> import open_clip  # doctest: +SKIP
        >>> model = open_clip.create_model("ViT-B-32")  # doctest: +SKIP
        >>> open_clip_text(model)(open_clip.get_tokenizer("ViT-B-32")(["a hen"])).shape  # doctest: +SKIP
        torch.Size([1, 512])
    """
    if not hasattr(model, "positional_embedding"):
        return model.encode_text  # type: ignore[no-any-return]  # a model of open_clip, which ships no types
    pooling = getattr(model, "text_pool_type", "argmax")
    if pooling not in ("argmax", "eos"):
        raise ValueError(f"the text tower pools by {pooling!r}; expected the end token ('argmax' or 'eos')")
    return _ShortText(model).encode


def open_clip_text_with_context(model: Any) -> Callable[[Any, Any], Any]:
    """The function of a model of open_clip from token ids and context vectors to features, gradients and all.

    The vectors stand where the tokens 1 to m of each text are, behind the start token: prompt learning fits them.

    Args:
        model: A model that `open_clip.create_model` gives, with the plain CLIP text tower.

    Returns:
        A function of ids ``[n, l]``, l at most the tower's context, and vectors ``[m, w]`` or ``[n, m, w]``, to
        features ``[n, d]``.

    Raises:
        ValueError: The model has another text tower, or pools in another way than at the end token; in the function,
            vectors that reach the end token of a text, for ids on the CPU.

    Example:
        >>> import open_clip  # doctest: +SKIP
        >>> model = open_clip.create_model("ViT-B-32")  # doctest: +SKIP
        >>> ids = open_clip.get_tokenizer("ViT-B-32")(["X X a hen."])  # doctest: +SKIP
        >>> open_clip_text_with_context(model)(ids, torch.zeros(2, 512)).shape  # doctest: +SKIP
        torch.Size([1, 512])
    """
    if not hasattr(model, "positional_embedding") or not hasattr(model, "token_embedding"):
        raise ValueError(f"the text tower of {type(model).__name__} does not show its token embeddings")
    open_clip_text(model)  # refuses another pooling
    return _ShortText(model).encode


class _ShortText:
    """Holds the model; `encode` is found through it, and so is the device."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def encode(self, ids: Any, context: Any = None) -> Any:
        import torch

        model, is_here = self.model, ids.device.type == "cpu"
        ids = ids.to(model.positional_embedding.device)
        dtype = model.transformer.get_cast_dtype()
        length = ids.shape[1]
        x = model.token_embedding(ids).to(dtype)
        end = getattr(model, "text_eos_id", None) if getattr(model, "text_pool_type", "argmax") == "eos" else None
        where = ids.argmax(dim=-1) if end is None else (ids == end).int().argmax(dim=-1)
        if context is not None:
            vectors = context.to(x).expand(len(ids), *context.shape[-2:])
            # Ids on a GPU are not looked at: each training step would wait for the answer.
            if is_here and bool((where <= vectors.shape[1]).any()):
                text = int((where <= vectors.shape[1]).nonzero()[0])
                raise ValueError(f"{vectors.shape[1]} vectors do not fit before the end token of text {text}")
            x = torch.cat([x[:, :1], vectors, x[:, 1 + vectors.shape[1] :]], dim=1)
        x = x + model.positional_embedding[:length].to(dtype)
        mask = model.attn_mask
        x = model.ln_final(model.transformer(x, attn_mask=None if mask is None else mask[:length, :length]))
        x = x[torch.arange(len(ids), device=x.device), where]
        projection = model.text_projection
        if projection is None:
            return x
        return projection(x) if isinstance(projection, torch.nn.Module) else x @ projection
