r"""The differences of listed pairs, in chunks: the memory is that of a chunk, not of pairs x features.

`eqsim.residuals` needs a = s_ij - s_ji and 2 M = s_ii + s_jj - s_ij - s_ji of each pair. Formed from whole scores
both would be small differences of large numbers where the pair's two samples are nearly the same, or where image and
text are. As products of differences of rows they are not: with I, T the rows of images and texts

    2 M = (I_i - I_j) . (T_i - T_j),      a = I_j . (I_i - T_i) - I_i . (I_j - T_j).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

from eqsim.features import without_autocast
from eqsim.residuals import PairDifferences

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int
    from torch import Tensor


# `torch.library.custom_op` would do the same, but imports the compiler at the first call, which takes seconds.
def _new_library() -> Any:
    """Return a library of operators in a namespace that is free: a notebook may import the package a second time."""
    for number in itertools.count(1):
        name = "eqsim" if number == 1 else f"eqsim_{number}"
        try:
            return torch.library.Library(name, "DEF")  # type: ignore[no-untyped-call]  # torch leaves this class untyped
        except RuntimeError as error:
            if "Only a single TORCH_LIBRARY" not in str(error):
                raise
    raise AssertionError("a count does not end")


_LIBRARY: Any = _new_library()


def operator(schema: str, shapes: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function without autograd as the operator of `schema`."""
    name = schema.partition("(")[0]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_LIBRARY.ns}::{name}", shapes, lib=_LIBRARY)
        registered: Callable[..., Any] = getattr(getattr(torch.ops, _LIBRARY.ns), name).default
        return registered

    return register


CHUNK_ELEMENTS = 1 << 21


def _chunks(pairs: Tensor, d: int) -> list[slice]:
    size = max(1, CHUNK_ELEMENTS // d)
    return [slice(start, start + size) for start in range(0, pairs.shape[0], size)]


@operator(
    "pair_products(Tensor image, Tensor text, Tensor pairs, bool unit) -> Tensor",
    lambda image, text, pairs, unit: image.new_empty((2, pairs.shape[0])),
)
def _pair_products(image: Tensor, text: Tensor, pairs: Tensor, unit: bool) -> Tensor:
    out = image.new_empty((2, pairs.shape[0]))
    for chunk in _chunks(pairs, image.shape[1]):
        i, j = pairs[chunk, 0], pairs[chunk, 1]
        image_i, image_j, text_i, text_j = image[i], image[j], text[i], text[j]
        torch.linalg.vecdot(image_i - image_j, text_i - text_j, out=out[1, chunk])
        if unit:
            a = torch.linalg.vecdot(image_j, image_i - text_i) - torch.linalg.vecdot(image_i, image_j - text_j)
        else:
            # Rows of very different length: the products of images with images would drown the scores.
            a = torch.linalg.vecdot(image_i, text_j) - torch.linalg.vecdot(image_j, text_i)
        out[0, chunk] = a
    return out


@operator(
    "pair_products_backward(Tensor grad, Tensor image, Tensor text, Tensor pairs) -> (Tensor, Tensor)",
    lambda grad, image, text, pairs: (torch.empty_like(image), torch.empty_like(text)),
)
def _pair_products_backward(grad: Tensor, image: Tensor, text: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    grad_image, grad_text = torch.zeros_like(image), torch.zeros_like(text)
    for chunk in _chunks(pairs, image.shape[1]):
        i, j = pairs[chunk, 0], pairs[chunk, 1]
        skew, apart = grad[0, chunk, None], grad[1, chunk, None]
        for rows, into, sign in ((text, grad_image, 1), (image, grad_text, -1)):
            rows_i, rows_j = rows[i], rows[j]
            pull = (rows_i - rows_j).mul_(apart)
            into.index_add_(0, i, torch.addcmul(pull, rows_j, skew, value=sign))
            into.index_add_(0, j, torch.addcmul(pull, rows_i, skew, value=sign), alpha=-1)
    return grad_image, grad_text


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor, pairs: Tensor, unit: bool) -> Tensor:
        ctx.save_for_backward(image, text, pairs)
        products: Tensor = _pair_products(image, text, pairs, unit)
        return products

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        image, text, pairs = ctx.saved_tensors
        grad_image, grad_text = _pair_products_backward(grads[0].contiguous(), image, text, pairs)
        return grad_image, grad_text, None, None


def listed_differences(
    image: Float[Tensor, "n d"],
    text: Float[Tensor, "n d"],
    matching: Float[Tensor, " n"],
    pairs: Int[Tensor, "p 2"],
    *,
    unit: bool,
) -> PairDifferences:
    """Return d, a and 2 M of dot products for each listed pair (i, j).

    Numerics: on CUDA the backward adds rows with `index_add_`, whose order of summation is fixed only under
        `torch.use_deterministic_algorithms(True)`.
    """
    products: Tensor = _PairProducts.apply(image, text, pairs, unit)
    return PairDifferences(matching[pairs[:, 0]] - matching[pairs[:, 1]], products[0], products[1])


def softmax_differences(
    logits: PairDifferences, logits_ii: Float[Tensor, " n"], row_lse: Float[Tensor, " n"], pairs: Int[Tensor, "p 2"]
) -> PairDifferences:
    """Return d, a and 2 M of softmax scores exp(L_ij - lse_i) from those of logits."""
    i, j = pairs[:, 0], pairs[:, 1]
    middle = logits_ii[i] + logits_ii[j] - logits.twice_m
    own = torch.exp(logits_ii - row_lse)
    s_ij = torch.exp((middle + logits.a) / 2 - row_lse[i])
    s_ji = torch.exp((middle - logits.a) / 2 - row_lse[j])
    return PairDifferences(own[i] - own[j], s_ij - s_ji, (own[i] - s_ij) + (own[j] - s_ji))


def close_squares(squares: Tensor, pairs: Int[Tensor, "p 2"], n: int) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Return the sum of the squares of a over the list's set of pairs, in both orders, and that set's size.

    Shapes depend on the input's shape alone, so nothing waits for the device.
    """
    pairs = pairs.long()  # int32, which is taken too, would wrap from n = 46,341 on
    key = torch.minimum(pairs[:, 0], pairs[:, 1]) * n + torch.maximum(pairs[:, 0], pairs[:, 1])
    key, order = torch.sort(key)
    first = torch.ones_like(key, dtype=torch.bool)
    first[1:] = key[1:] != key[:-1]
    return 2 * (squares[order] * first).sum(), 2 * first.sum()
