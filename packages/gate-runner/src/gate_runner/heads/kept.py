"""A head on an encoder's own features, as a task gives it back and as a card describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gate_runner.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

Features = Literal["projected", "backbone"]


@dataclass(frozen=True)
class KeptHead:
    """A head that a task gives back where heads are to be kept.

    Args:
        module: features ``[n, d]`` of the encoder, as they come, to scores ``[n, k]``.
        features: which features of the encoder it takes.
        classes: whose scores these are; those of the data by default.
        prompts: the texts that stood for each class; empty where none were used.
        part: of the encoder that was trained with it; empty where the encoder is as it was.
        encoder: the encoder's trained weights, where it is not as it was.
    """

    module: nn.Module
    features: Features
    classes: Sequence[str] = ()
    prompts: Sequence[str] = ()
    part: str = ""
    encoder: Mapping[str, Tensor] | None = None


def linear_head(weight: Tensor, bias: Tensor, *, unit: bool = False, scale: float = 1.0) -> nn.Module:
    """A `LinearHead` with these weights."""
    import torch

    from vision_adapters.heads import LinearHead

    outputs, dim = weight.shape
    head = LinearHead(dim, outputs, features="l2" if unit else "raw", logit_scale=scale)
    with torch.no_grad():
        head.weight.copy_(weight.detach().cpu())
        head.bias.copy_(bias.detach().cpu())
    return head.eval()


def head_form(head: nn.Module) -> dict[str, Any]:
    """What has to be known of a head, besides its tensors, to make it again."""
    from vision_adapters.heads import LinearHead
    from vision_adapters.tuning.baselines import CacheHead

    if isinstance(head, LinearHead):
        outputs, dim = head.weight.shape
        return {"kind": "linear", "dim": dim, "outputs": outputs, "features": head.features, "scaled": head.train_scale}
    if isinstance(head, CacheHead):
        return {"kind": "cache", "scale": head.scale, "alpha": head.alpha, "beta": head.beta}
    raise DataError(f"a head of type {type(head).__name__} cannot be kept; expected a LinearHead or a CacheHead")


def head_from(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> nn.Module:
    """A head again, from what `head_form` said and its tensors."""
    from vision_adapters.heads import LinearHead
    from vision_adapters.tuning.baselines import CacheHead

    try:
        if form["kind"] == "linear":
            made: nn.Module = LinearHead(
                form["dim"], form["outputs"], features=form["features"], train_scale=form["scaled"]
            )
        elif form["kind"] == "cache":
            texts, keys, values = (tensors[name] for name in ("texts", "keys", "values"))
            made = CacheHead(texts, keys, values, form["scale"], form["alpha"], form["beta"])
        else:
            raise DataError(f"unknown kind of head {form['kind']!r}; expected linear or cache")
        made.load_state_dict(dict(tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"the head's tensors do not fit its card: {reason}") from error
    return made.eval()
