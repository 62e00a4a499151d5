"""Mixes of a trained module with its start (WiSE-FT): the curve, and the share that validates best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from vision_adapters.training.outcome import Direction, Kept

_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TENTHS = tuple(number / 10 for number in range(11))


class Mix(NamedTuple):
    """A mix that was looked at: the share of the trained weights, and its validation score."""

    share: float
    validation: float


class Mixed(NamedTuple):
    """The share that was chosen, all mixes that were looked at, and the checkpoints, mixed by that share."""

    share: float
    curve: list[Mix]
    kept: list[Kept]


def wise_ft(
    module: nn.Module,
    start: Mapping[str, Tensor],
    kept: Sequence[Kept],
    share: float | Literal["best"] | None,
    validate: Callable[[nn.Module], float],
    direction: Direction,
    *,
    whole: bool,
    look: Callable[[float], None] = lambda share: None,
) -> Mixed:
    """Mix a trained module with its start (Wortsman et al., 2022, equation 1).

    Args:
        module: left with the mix of the best checkpoint.
        start: what training could change, before it.
        kept: checkpoints of the training, the best first.
        share: of the trained weights, 0 to 1; "best" takes the one that validates best, the nearest to the start among
            equals; None leaves them as trained.
        validate: scores the module.
        direction: "higher" or "lower" is better.
        whole: mix the head (what is called ``head.…``), too: only where it started at something, say class texts. A
            head that started at random stays as it was trained.
        look: called with each share while the module has its weights.

    Example:
        >>> layer, (zero, one) = nn.Linear(1, 1, bias=False), (torch.zeros(1, 1), torch.ones(1, 1))
        >>> near = lambda module: -abs(module.weight.item() - 0.4)
        >>> kept = [Kept(4, 0.9, {"weight": one})]
        >>> wise_ft(layer, {"weight": zero}, kept, "best", near, "higher", whole=True).share
        0.4
    """
    if direction not in ("higher", "lower"):
        raise ValueError(f"direction must be 'higher' or 'lower', got {direction!r}")
    curve = []
    for candidate in _shares(share):
        module.load_state_dict(mixed(start, kept[0].state, candidate, whole=whole), strict=False)
        module.eval()
        with torch.no_grad():
            curve.append(Mix(candidate, float(validate(module))))
        look(candidate)
    if share == "best":
        sign = 1.0 if direction == "higher" else -1.0
        chosen = max(curve, key=lambda mix: (sign * mix.validation, -mix.share)).share
    else:
        chosen = 1.0 if share is None else float(share)
    states = [checkpoint._replace(state=mixed(start, checkpoint.state, chosen, whole=whole)) for checkpoint in kept]
    module.load_state_dict(states[0].state, strict=False)
    return Mixed(chosen, curve, states)


def _shares(share: float | str | None) -> list[float]:
    if share is None:
        return [0.0, 1.0]
    return list(_TENTHS) if share == "best" else sorted({*_QUARTERS, float(share)})


def mixed(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float, *, whole: bool) -> dict[str, Tensor]:
    """Weights between a start and a trained module; see `wise_ft`."""
    fixed = {name for name in tuned if ".lora_A" in name or (name.startswith("head.") and not whole)}
    interpolated = interpolate(
        {name: value for name, value in start.items() if name not in fixed},
        {name: value for name, value in tuned.items() if name not in fixed},
        share,
    )
    return {name: tuned[name] if name in fixed else interpolated[name] for name in tuned}


def interpolate(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], weight: float) -> dict[str, Any]:
    r"""Weights between two of one module: $(1 - w)\,\theta_0 + w\,\theta_1$; what is no floating point is `tuned`'s.

    At 0 it is the start, exactly, at 1 tuned; 0.5 is WiSE-FT's choice without validation (Wortsman et al., 2022).
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must lie in 0..1, got {weight}")
    if start.keys() != tuned.keys():
        raise ValueError(f"the two differ in {sorted(start.keys() ^ tuned.keys())}")
    mixed: dict[str, Any] = {}
    for name, before in start.items():
        after = tuned[name].to(before.device)
        if before.shape != after.shape:
            shapes = f"{tuple(before.shape)} before and {tuple(after.shape)} after"
            raise ValueError(f"{name} has shape {shapes}; expected the same")
        mixed[name] = torch.lerp(before, after, weight) if after.is_floating_point() else after.clone()
    return mixed
