"""Open the last block of an encoder's image tower: patch features by any variant, whichever library made the encoder.

No model is copied and no weight changes. While a batch passes, the ``forward`` of the last block's attention is another
function; then each patch passes alone through what follows the last block, as an image all of whose tokens are alike.
A class token is then this patch, a mean is this patch, and attention over equal tokens gives the value of this patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vision_features.encoders.attention import Attention, attention_in, attention_lists
from vision_features.encoders.blocks import grid_of
from vision_features.encoders.encoder import Encoder, PatchFeatures
from vision_features.encoders.patch_features import Attend, Variant, by_proxy
from vision_features.errors import EncoderError, MissingCapabilityError

if TYPE_CHECKING:
    from jaxtyping import Float

_MOST_PREFIX = 8
"""Tokens before the patches, at most: a class token and registers."""
_TOKENS = 4096
"""Patches that pass through the end of a tower together."""


class _Stop(Exception):  # noqa: N818 - it is no error
    """Carries tokens out of a pass whose rest is not needed."""

    def __init__(self, tokens: Tensor) -> None:
        super().__init__("the pass stops at the last block")
        self.tokens = tokens


class Surgery:
    """The last block of an encoder's image tower, opened.

    Args:
        encoder: with a module whose image side is a transformer.

    Raises:
        MissingCapabilityError: the encoder shows no module, its image side has no block with attention, or that
            attention does more than softmax(q k) v; the message names which.

    Example:
        >>> from vision_features import load_encoder
        >>> from vision_features.encoders.patch_features import find_variant
        >>> surgery = Surgery(load_encoder("micro-clip"))
        >>> surgery.encode(torch.zeros(2, 3, 64, 64), find_variant("maskclip")).grid
        (8, 8)
    """

    def __init__(self, encoder: Encoder) -> None:
        encoder = encoder.opened or encoder
        if encoder.module is None:
            raise MissingCapabilityError(
                f"encoder {encoder.spec!r} shows no module, so its last block cannot be opened"
            )
        self.encoder = encoder
        self.blocks = self._passed(encoder)
        self.block = self.blocks[-1]
        module = attention_in(self.block)
        assert module is not None
        self.attention = Attention(module, self.block)
        self._block_forward, self._attention_forward = self.block.forward, module.forward
        self._attention_tuple, self._block_tuple = self._checked()

    @staticmethod
    def _passed(encoder: Encoder) -> list[nn.Module]:
        """Return the blocks that images pass through: the longest list of blocks with attention."""
        assert encoder.module is not None
        called: set[nn.Module] = set()
        lists = attention_lists(encoder.module)
        handles = [blocks[-1].register_forward_pre_hook(lambda part, _: called.add(part)) for blocks in lists]
        try:
            encoder.encode_image(torch.zeros(1, *encoder.shape, dtype=torch.uint8))
        finally:
            for handle in handles:
                handle.remove()
        passed = next((blocks for blocks in lists if blocks[-1] in called), None)
        if passed is None:
            raise MissingCapabilityError(
                f"encoder {encoder.spec!r} has no blocks with attention in its image side: patch features in the "
                "texts' space need a vision transformer"
            )
        return passed

    def _checked(self) -> tuple[bool, bool]:
        """See that plain attention, computed by the parts, is what the block's own attention gives.

        Returns:
            Whether the attention, and whether the block, returns a tuple.
        """
        seen: list[tuple[Tensor, Tensor]] = []
        tuples: list[bool] = []

        def attention(*given: Any, **named: Any) -> Any:
            output = self._attention_forward(*given, **named)
            seen.append((self._in_batches(_tokens_of(given, named)), self._in_batches(_first(output))))
            tuples.append(isinstance(output, tuple | list))
            return output

        def block(*given: Any, **named: Any) -> Any:
            with _slow_attention():
                output = self._block_forward(*given, **named)
            tuples.append(isinstance(output, tuple | list))
            return output

        channels, high, wide = self.encoder.shape
        image = torch.linspace(0, 255, channels * high * wide).reshape(1, channels, high, wide).to(torch.uint8)
        with _replaced(self.attention.module, attention), _replaced(self.block, block):
            self.encoder.encode_image(image)
        try:
            with torch.no_grad():
                self.attention.check(*seen[-1])
        except MissingCapabilityError as error:
            raise MissingCapabilityError(f"encoder {self.encoder.spec!r}: its last block's {error}") from error
        return tuples[0], tuples[-1]

    def _in_batches(self, tokens: Tensor) -> Float[Tensor, "n t w"]:
        return tokens if self.attention.batch_first else tokens.transpose(0, 1)

    def encode(
        self, images: Float[Tensor, "n 3 h w"], variant: Variant, proxy: PatchFeatures | None = None
    ) -> PatchFeatures:
        """Return what each patch is in the texts' space, float32, not normalised.

        Args:
            images: prepared, on the encoder's device.
            variant: of `vision_features.encoders.patch_features.VARIANTS`.
            proxy: the second encoder's patches of the same images, where the variant needs them.

        Raises:
            EncoderError: the variant needs a second encoder, and there is none.
        """
        attend = variant.attend
        if variant.proxy:
            if proxy is None:
                raise EncoderError(f"patch features {variant.name!r} need a second encoder: proxy=SPEC")
            attend = by_proxy(proxy)

        def computed(images: Tensor) -> PatchFeatures:
            tokens, grid, prefix = self._last(images, attend, variant.whole)
            if variant.proxy and proxy is not None:  # values alone, on the second encoder's grid
                return PatchFeatures(self._through_end(images, tokens, prefix), proxy.grid)
            return PatchFeatures(self._through_end(images, tokens[:, prefix:], prefix), grid)

        return PatchFeatures(*self.encoder.computed("patch features", computed, images))

    def _last(
        self, images: Float[Tensor, "n 3 h w"], attend: Attend | None, whole: bool
    ) -> tuple[Float[Tensor, "n t w"], tuple[int, int], int]:
        """Return what the last block gives of each token, the grid of patches, and the tokens before them."""
        layout: list[tuple[tuple[int, int], int]] = []

        def attention(*given: Any, **named: Any) -> Any:
            tokens = self._in_batches(_tokens_of(given, named))
            grid, prefix = self._layout(tokens.shape[1], images)
            layout.append((grid, prefix))
            if attend is None:
                return self._attention_forward(*given, **named)
            output = self.attention.join(attend(self.attention.split(tokens), grid, prefix))
            if not whole:
                raise _Stop(self.attention.scaled(output))
            back = output if self.attention.batch_first else output.transpose(0, 1)
            return (back, None) if self._attention_tuple else back

        def block(*given: Any, **named: Any) -> Any:
            with _slow_attention():
                output = self._block_forward(*given, **named)
            raise _Stop(self._in_batches(_first(output)))

        with _replaced(self.attention.module, attention), _replaced(self.block, block):
            try:
                self.encoder.image(images)
            except _Stop as stop:
                return stop.tokens, *layout[-1]
        raise EncoderError(f"encoder {self.encoder.spec!r}: images did not pass through its last block")

    def _layout(self, tokens: int, images: Tensor) -> tuple[tuple[int, int], int]:
        """Return the grid of patches, and how many tokens stand before them."""
        rows, columns = grid_of(tokens, images.shape[-2:])
        prefix = tokens - rows * columns
        if not 0 <= prefix <= _MOST_PREFIX:
            high, wide = images.shape[-2:]
            raise MissingCapabilityError(
                f"encoder {self.encoder.spec!r} makes {tokens} tokens of an image of {high} x {wide} pixels, which is "
                "no grid of patches"
            )
        return (rows, columns), prefix

    def _through_end(
        self, images: Float[Tensor, "n 3 h w"], tokens: Float[Tensor, "n t w"], prefix: int
    ) -> Float[Tensor, "n t d"]:
        """Take each token alone through what follows the last block, as an image all of whose tokens are alike."""
        features = []
        for part in torch.split(tokens.flatten(0, 1), _TOKENS):
            alike = part[:, None].expand(-1, prefix + 1, -1)

            def last(*given: Any, _alike: Tensor = alike, **named: Any) -> Any:
                output = _alike if self.attention.batch_first else _alike.transpose(0, 1)
                return (output,) if self._block_tuple else output

            def skipped(*given: Any, **named: Any) -> Any:
                output = _tokens_of(given, named)
                return (output,) if self._block_tuple else output

            with ExitStack() as stack:
                for block in self.blocks[:-1]:
                    stack.enter_context(_replaced(block, skipped))
                stack.enter_context(_replaced(self.block, last))
                features.append(_first(self.encoder.image(images[:1])).float())
        together = torch.cat(features)
        return together.view(*tokens.shape[:2], together.shape[1])


def _first(output: Any) -> Tensor:
    tensor: Tensor = output[0] if isinstance(output, tuple | list) else output
    return tensor


def _tokens_of(given: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """Return the tokens among the arguments of an attention or a block: the first tensor."""
    return next(value for value in (*given, *named.values()) if isinstance(value, Tensor))


@contextmanager
def _replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Give a module another ``forward`` while a block runs, and its own back afterwards."""
    own = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]
        if own is not None:
            module.__dict__["forward"] = own


@contextmanager
def _slow_attention() -> Iterator[None]:
    """Have a layer of torch's own call its attention, which its fast path passes by; around the last block alone."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
