"""Fine-tuning of whole encoders: what is trained, what is left as it was, and interpolation with the start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from vision_adapters.heads import global_seed
from vision_adapters.low_rank import add_lora, remove_lora
from vision_adapters.recompute import block_lists, keep_blocks
from vision_adapters.recompute import recompute_blocks as recompute_blocks
from vision_adapters.training.schedule import NORMS
from vision_adapters.training.wise_ft import interpolate as interpolate

__all__ = ["choose_weights", "preserve_state", "train_only"]

Part = Literal["all", "none", "bias", "norm", "last_block"]


def train_only(module: nn.Module, part: Part, *, reached: Collection[str] | None = None) -> list[str]:
    """Say which parameters of an encoder are trained; the others are frozen.

    Args:
        module: the encoder.
        part: "all"; "none" (a probe); "bias", every bias (BitFit, Ben Zaken et al., 2022); "norm", the weights and
            biases
            of norms; "last_block", the last of the longest list of equal modules and the norms that come after it.
        reached: names of the parameters that the features depend on (a dual encoder's other tower is none of them); all
            by default. Others stay frozen, and blocks without any of them are not looked at.

    Raises:
        ValueError: an unknown part, or nothing to train in it.

    Example:
        >>> train_only(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), "bias")
        ['0.bias', '1.bias']
    """
    if part not in get_args(Part):
        raise ValueError(f"part must be one of {get_args(Part)}, got {part!r}")
    module.requires_grad_(part == "all")
    if part == "bias":
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name.split(".")[-1].endswith("bias"))
    elif part == "norm":
        for module_part in module.modules():
            if isinstance(module_part, NORMS):
                module_part.requires_grad_(True)
    elif part == "last_block":
        path, last = _last_block(module, reached)
        last.requires_grad_(True)
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


def _last_block(module: nn.Module, reached: Collection[str] | None) -> tuple[str, nn.Module]:
    """The name of the longest list whose members are of one class, and its last block."""
    able = {
        path: children
        for path, children in block_lists(module).items()
        if (reached is None or any(used.startswith(f"{path}.") for used in reached))
        and any(True for _ in children[-1].parameters())
    }
    if not able:
        raise ValueError(f"{type(module).__name__} has no list of equal blocks")
    best = max(able, key=lambda path: len(able[path]))
    return best, able[best][-1]


def choose_weights(
    module: nn.Module, embed: Callable[[], Tensor], part: Part | Literal["lora"], *, seed: int = 0
) -> list[str]:
    """Leave gradients to the weights that a mode trains, of those that the features depend on.

    Args:
        module: the encoder; of a dual encoder the text side stays frozen.
        embed: features of one or two images, to see by a backward pass which weights get a gradient.
        part: as `train_only` calls it, or "lora": `vision_adapters.add_lora` on attentions and linear layers.
        seed: of the updates' start.

    Raises:
        ValueError: there are none; the message says why.

    Example:
        >>> encoder = nn.ModuleDict({"image": nn.Linear(2, 2), "text": nn.Linear(2, 2)})
        >>> choose_weights(encoder, lambda: encoder["image"](torch.ones(1, 2)), "bias")
        ['image.bias']
    """
    module.requires_grad_(True)
    called: set[nn.Module] = set()
    hooks = [layer.register_forward_hook(lambda layer, *_: called.add(layer)) for layer in module.modules()]
    try:
        torch.autograd.backward(embed().sum())
    except RuntimeError as error:
        raise ValueError(f"{type(module).__name__} gives no gradients") from error
    finally:
        for hook in hooks:
            hook.remove()
    reached = {name for name, weight in module.named_parameters() if weight.grad is not None}
    module.zero_grad(set_to_none=True)
    module.requires_grad_(False)
    if not reached:
        raise ValueError(f"{type(module).__name__} gives no gradients")
    if part == "lora":
        with global_seed(seed):
            return _low_rank(module, reached, called)
    train_only(module, part, reached=reached)
    return [name for name, weight in module.named_parameters() if weight.requires_grad]


def _low_rank(module: nn.Module, reached: set[str], called: set[nn.Module]) -> list[str]:
    """Updates on what the features depend on: attentions, and linear layers that are no part of one."""
    parts = dict(module.named_modules())
    attentions = [name for name, part in parts.items() if isinstance(part, nn.MultiheadAttention) and part in called]
    linear = [
        name
        for name, part in parts.items()
        if isinstance(part, nn.Linear) and f"{name}.weight" in reached and name.rpartition(".")[0] not in attentions
    ]
    if not linear and not attentions:
        raise ValueError("the model has no linear layer and no attention to adapt; expected at least one")
    return add_lora(module, targets=[*attentions, *linear], read=[name for name in linear if parts[name] not in called])


@contextmanager
def preserve_state(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Put a module's weights, modes and layers back as they were, whatever a block did to them.

    Low-rank updates and recomputed blocks are taken away at the end, too. Yields copies of the weights, on the CPU.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> with preserve_state(layer) as before:
        ...     _ = nn.init.zeros_(layer.weight)
        >>> bool((layer.weight == before["weight"]).all())
        True
    """
    before = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
    attributes = set(vars(module))
    modes = {part: part.training for part in module.modules()}
    try:
        yield before
    finally:
        keep_blocks(module)
        remove_lora(module)
        for name in set(vars(module)) - attributes:  # what PEFT notes of the updates that are gone
            delattr(module, name)
        for part, training in modes.items():
            part.training = training
        module.load_state_dict(before)
        module.requires_grad_(False)
        module.zero_grad(set_to_none=True)
        after = module.state_dict()
        if any(not torch.equal(value.cpu(), before[name]) for name, value in after.items()):
            raise RuntimeError(f"the weights of {type(module).__name__} could not be put back")
