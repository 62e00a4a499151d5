"""Fine-tuning of whole encoders: what is trained, blocks that are computed again, and interpolation with the start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vision_adapters.training.schedule import NORMS

Part = Literal["all", "none", "bias", "norm", "last_block"]


class Classifier(nn.Module):
    """An encoder and a head as one module, which `training.fit` trains on images.

    Args:
        encoder: images -> features; any module.
        head: features -> scores; its parameters are named `head.…`, which `Recipe.head_lr_scale` knows.
        mean: per channel; uint8 images become (x / 255 - mean) / std. Float images are passed on as they are.
        std: per channel, > 0.

    Example:
        >>> model = Classifier(nn.Flatten(), nn.Linear(12, 2))
        >>> model(torch.zeros(5, 3, 2, 2, dtype=torch.uint8)).shape
        torch.Size([5, 2])
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, *, mean: Sequence[float] = (0.0,), std: Sequence[float] = (1.0,)
    ) -> None:
        super().__init__()
        if min(std) <= 0:
            raise ValueError(f"std must be positive, got {tuple(std)}")
        self.encoder, self.head = encoder, head
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: UInt8[Tensor, "n c h w"] | Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Scores of each class."""
        if images.dtype == torch.uint8:
            images = (images.float() / 255 - self.get_buffer("mean")) / self.get_buffer("std")
        scores: Tensor = self.head(self.encoder(images))
        return scores


def train_only(
    module: nn.Module, part: Part, *, blocks: str | None = None, reached: Collection[str] | None = None
) -> list[str]:
    """Say which parameters of an encoder are trained; the others are frozen.

    Args:
        module: the encoder.
        part: "all"; "none" (a probe); "bias", every bias; "norm", the weights and biases of norms; "last_block", the
            last of the module's repeated blocks and the norms that come after the blocks.
        blocks: name of the list of blocks for "last_block"; by default, the longest list of equal modules.
        reached: names of the parameters that the features depend on (a dual encoder's other tower is none of them); all
            by default. Others stay frozen, and blocks without any of them are not looked at.

    Returns:
        Names of the parameters that are trained now.

    Raises:
        ValueError: an unknown part, or nothing to train in it.

    Example:
        >>> train_only(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), "bias")
        ['0.bias', '1.bias']

    Source:
        "bias": BitFit (Ben Zaken et al., 2022).
    """
    if part not in get_args(Part):
        raise ValueError(f"part must be one of {get_args(Part)}, got {part!r}")
    module.requires_grad_(part == "all")
    if part == "bias":
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name.split(".")[-1].endswith("bias"))
    elif part == "norm":
        for each in module.modules():
            if isinstance(each, NORMS):
                each.requires_grad_(True)
    elif part == "last_block":
        path, found = _blocks(module, blocks, reached)
        found[-1].requires_grad_(True)
        parent = module.get_submodule(path.rpartition(".")[0])
        children = list(parent.children())
        for later in children[children.index(module.get_submodule(path)) + 1 :]:
            if isinstance(later, NORMS):
                later.requires_grad_(True)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and (reached is None or name in reached))
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if part != "none" and not names:
        raise ValueError(f"{type(module).__name__} has no parameter of kind {part!r}")
    return names


def _blocks(module: nn.Module, name: str | None, reached: Collection[str] | None = None) -> tuple[str, list[nn.Module]]:
    """The list of repeated blocks: the named one, or the longest list whose members are of one class."""
    lists = {
        path: list(part.children())
        for path, part in module.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential)
        and len({type(child) for child in part.children()}) == 1
        and path
        and (reached is None or any(each.startswith(f"{path}.") for each in reached))
    }
    if name is not None:
        if name not in lists:
            raise ValueError(f"{name!r} is not a list of equal blocks; found {sorted(lists)}")
        return name, lists[name]
    able = {path: children for path, children in lists.items() if any(True for _ in children[-1].parameters())}
    if not able:
        raise ValueError(f"{type(module).__name__} has no list of equal blocks; name one with blocks=")
    best = max(able, key=lambda path: len(able[path]))
    return best, able[best]


def recomputed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward pass that keeps its inputs alone, and is taken again in the backward pass.

    Source:
        Chen et al. (2016), through `torch.utils.checkpoint`.
    """
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]

    def passed(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        calls = 0

        def once(*again: Any, **also: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1 or not norms:
                return forward(*again, **also)
            before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
            for norm, _, count in before:
                norm.momentum = 0.0
                norm.num_batches_tracked = None if count is None else count.clone()
            try:
                return forward(*again, **also)
            finally:
                for norm, momentum, count in before:
                    norm.momentum, norm.num_batches_tracked = momentum, count

        return checkpoint(once, *inputs, use_reentrant=False, **named)

    passed.recomputes = True  # type: ignore[attr-defined]  # how `keep_blocks` knows its own
    return passed


def recompute_blocks(module: nn.Module) -> list[str]:
    """Let the outermost repeated blocks of an encoder be computed again in the backward pass instead of being kept.

    Args:
        module: changed in place; `keep_blocks` undoes it. Parameters and their names stay.

    Returns:
        The names of the blocks.

    Raises:
        ValueError: no list of equal blocks.

    Numerics:
        The gradient is the same; memory for activations is that of one block and one input per block.

    Example:
        >>> recompute_blocks(nn.ModuleDict({"blocks": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))}))
        ['blocks.0', 'blocks.1']
    """
    lists = [
        path
        for path, part in module.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential)
        and path
        and len({type(child) for child in part.children()}) == 1
        and any(True for _ in part.parameters())
    ]
    outer = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    blocks = [f"{path}.{name}" for path in outer for name, _ in module.get_submodule(path).named_children()]
    if not blocks:
        raise ValueError(f"{type(module).__name__} has no list of equal blocks")
    for path in blocks:
        block = module.get_submodule(path)
        setattr(block, "forward", recomputed(block, block.forward))  # noqa: B010 - of this one instance
    return blocks


def keep_blocks(module: nn.Module) -> None:
    """Undo `recompute_blocks`.

    Args:
        module: changed in place.
    """
    for part in module.modules():
        if getattr(vars(part).get("forward"), "recomputes", False):
            del part.forward


def interpolate(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], weight: float) -> dict[str, Any]:
    r"""Weights between two of one module: $(1 - w)\,\theta_0 + w\,\theta_1$.

    Args:
        start: `state_dict` before training.
        tuned: `state_dict` after.
        weight: w, 0 (the start, exactly) … 1 (tuned, exactly); 0.5 is WiSE-FT's choice without validation.

    Returns:
        A state dict; entries that are not floating point are those of `tuned`.

    Raises:
        ValueError: names or shapes that differ, or a weight outside 0 … 1.

    Example:
        >>> interpolate({"w": torch.zeros(1)}, {"w": torch.ones(1)}, 0.25)
        {'w': tensor([0.2500])}

    Source:
        Wortsman et al., WiSE-FT (2022), equation 1.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must lie in 0..1, got {weight}")
    if start.keys() != tuned.keys():
        raise ValueError(f"the two differ in {sorted(start.keys() ^ tuned.keys())}")
    mixed: dict[str, Any] = {}
    for name, before in start.items():
        after = tuned[name]
        if before.shape != after.shape:
            raise ValueError(f"{name} has shape {tuple(before.shape)} before, {tuple(after.shape)} after")
        mixed[name] = torch.lerp(before, after, weight) if after.is_floating_point() else after.clone()
    return mixed
