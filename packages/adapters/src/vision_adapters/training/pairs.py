"""Image and text encoders that learn together from images with captions: rows, outputs, and what validates them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vision_adapters.rows.samples import sample_generator
from vision_adapters.rows.source import Draw

Texts = tuple[str, ...]
_MOST_SCALE = 100.0


class ChosenRows:
    """Rows of which each has several forms, as an image has several captions; a training's step draws one.

    Which one depends on the training's seed, the step and the sample alone: rows of equally many forms, such as
    captions and their features, agree. Forms are tensors of one shape, or what is ragged, such as texts.
    """

    def __init__(self, forms: Sequence[Sequence[Any]]) -> None:
        self.forms = forms

    def __len__(self) -> int:
        return len(self.forms)

    def __getitem__(self, rows: Any, /) -> Any:
        """The first form of each of these samples."""
        numbers = range(len(self))[rows] if isinstance(rows, slice) else [int(row) for row in rows]
        return _together([self.forms[number][0] for number in numbers])

    def stream(self, draws: Iterable[Draw]) -> Generator[Any]:
        """One batch per draw, a form drawn for each sample."""
        for draw in draws:
            yield _together([self._form(draw, int(row)) for row in draw.rows])

    def _form(self, draw: Draw, row: int) -> Any:
        forms = self.forms[row]
        if len(forms) == 1:
            return forms[0]
        generator = sample_generator(draw.seed, draw.step, row)
        return forms[int(torch.randint(len(forms), (), generator=generator))]


def _together(values: list[Any]) -> Any:
    return torch.stack(values) if values and isinstance(values[0], Tensor) else values


class DualEncoder(nn.Module):
    """Both sides of an encoder as one module, which `fit` trains on samples of one or two images with captions.

    `image` takes pictures ``[b, 3, h, w]``, `text` texts, to features ``[b, d]`` with gradients. `log_scale` is the
    logarithm of what cosines are multiplied with, at most 100, and `bias` that of a sigmoid loss, both parameters of
    the encoder; a scale of its own starts at 1 / .07. `negatives` are most false captions of a sample, `follows` is
    that of `EncoderWithHead`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        image: Callable[[Tensor], Tensor],
        text: Callable[[Sequence[str]], Tensor],
        *,
        log_scale: nn.Parameter | None = None,
        bias: nn.Parameter | None = None,
        negatives: int = 0,
        follows: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self._image, self._text, self._negatives, self._follows = image, text, negatives, follows
        own = {id(parameter) for parameter in encoder.parameters()}
        scale = nn.Parameter(torch.tensor(math.log(1 / 0.07))) if log_scale is None else log_scale
        self._numbers = {"scale": scale, **({} if bias is None else {"bias": bias})}
        for name, number in self._numbers.items():
            if id(number) not in own:
                self.register_parameter(name, number)

    def train(self, mode: bool = True) -> DualEncoder:
        """Training or evaluation mode; an encoder of which only a part learns stays in the latter."""
        super().train(mode)
        if not self._follows:
            self.encoder.eval()
        return self

    def forward(
        self, images: Tensor, texts: Sequence[Texts], false: Sequence[Texts] = (), *teacher: Tensor
    ) -> dict[str, Tensor]:
        """Features of a batch by name, samples first, as `features_of_batch` takes them.

        Of images ``[b, u, 3, h, w]`` and u captions a sample; `false` are false captions of each sample's first
        picture, and `teacher` a frozen model's features of pictures, captions and false captions ``[b, ., e]``.
        """
        count, pictures = len(images), images.shape[1]
        image = self._image(images.flatten(0, 1))
        flat = [text for texts_of_one in texts for text in texts_of_one]
        wrong = [text for texts_of_one in false for text in texts_of_one]
        text, further = self._text([*flat, *wrong]).tensor_split([len(flat)])
        outputs = {"image": image.reshape(count, pictures, -1), "text": text.reshape(count, pictures, -1)}
        if self._negatives:
            held = torch.tensor([len(texts_of_one) for texts_of_one in false], device=image.device)
            mask = torch.arange(self._negatives, device=image.device) < held[:, None]
            outputs["false"] = text.new_zeros(*mask.shape, text.shape[1]).masked_scatter(mask[..., None], further)
            outputs["held"] = held
        for name, number in self._numbers.items():
            value = number.reshape(())
            if name == "scale":
                value = value.exp()
                value = value + (value.clamp(max=_MOST_SCALE) - value).detach()
            outputs[name] = value.expand(count)
        for name, features in zip(("teacher_image", "teacher_text", "teacher_false"), teacher, strict=False):
            outputs[name] = features
        return outputs


def features_of_batch(outputs: dict[str, Tensor]) -> dict[str, Any]:
    """What losses over a batch of features take, of a `DualEncoder`'s outputs.

    ``image_features [n, d]``; ``text_features [n + m, d]``, the last m of them false captions; ``logit_scale``; where
    there is one ``logit_bias``; ``owners [m]``, whose caption each false one is not; ``close_pairs [b, 2]`` where
    samples have two images; ``teacher``, the frozen model's images and texts.
    """
    samples, pictures = outputs["image"].shape[:2]
    device = outputs["image"].device
    texts = [outputs["text"].flatten(0, 1)]
    features: dict[str, Any] = {
        "image_features": outputs["image"].flatten(0, 1),
        "logit_scale": outputs["scale"].mean(),
    }
    if "bias" in outputs:
        features["logit_bias"] = outputs["bias"].mean()
    if pictures == 2:
        features["close_pairs"] = torch.arange(2 * samples, device=device).view(samples, 2)
    mask: Tensor | None = None
    if "held" in outputs and bool((outputs["held"] > 0).any()):
        mask = torch.arange(outputs["false"].shape[1], device=device) < outputs["held"][:, None]
        texts.append(outputs["false"][mask])
        features["owners"] = mask.nonzero()[:, 0] * pictures
    features["text_features"] = torch.cat(texts)
    if "teacher_image" in outputs:
        frozen = [outputs["teacher_text"].flatten(0, 1)]
        frozen += [] if mask is None else [outputs["teacher_false"][mask]]
        features["teacher"] = outputs["teacher_image"].flatten(0, 1), torch.cat(frozen)
    return features


def recall_at_1(image: Float[Tensor, "n d"], text: Float[Tensor, "n d"], same: Int[Tensor, " n"]) -> float:
    """The mean of two recalls at 1, of texts for images and of images for texts.

    `same` has equal numbers for equal captions, of which each is right for each of their images. Of several that are
    the most similar, those that are right count by their share.
    """
    image, text = F.normalize(image.float(), dim=1), F.normalize(text.float(), dim=1)
    total = 0.0
    for queries, answers in ((image, text), (text, image)):
        for rows in torch.split(torch.arange(len(queries)), 1024):
            scores = queries[rows] @ answers.T
            best = scores == scores.max(dim=1, keepdim=True).values
            right = best & (same[rows, None] == same)
            total += float((right.sum(1) / best.sum(1)).sum())
    return total / (2 * len(image))
