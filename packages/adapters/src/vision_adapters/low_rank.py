"""Low-rank updates of an encoder's matrices: put on, taken off, and added to what they update."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

_ATTENTION = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


class LowRankUpdate(nn.Module):
    """A matrix with low-rank updates, for modules that read their weights instead of calling a layer.

    `weight` stacks `pieces` of equal height, each with an update of its own: 3 for queries, keys and values. `order`
    has the names of its module's parameters, to which taking it off comes back.
    """

    def __init__(self, weight: Tensor, pieces: int, rank: int, scale: float, order: tuple[str, ...]) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.lora_A = nn.Parameter(weight.new_empty(pieces, rank, columns))
        self.lora_B = nn.Parameter(weight.new_zeros(pieces, rows // pieces, rank))
        self.scale, self.order = scale, order
        for piece in self.lora_A.data:
            nn.init.kaiming_uniform_(piece, a=math.sqrt(5))  # as PEFT begins those of layers

    def forward(self, weight: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
        """The matrix, updated."""
        return weight + self.scale * (self.lora_B @ self.lora_A).reshape(weight.shape)


def add_lora(
    module: nn.Module,
    *,
    rank: int = 4,
    alpha: int = 8,
    targets: Sequence[str] | None = None,
    read: Collection[str] = (),
) -> list[str]:
    """Put low-rank updates on linear layers and attentions, in place, and freeze everything else.

    Args:
        module: the encoder.
        rank: of each update, >= 1.
        alpha: the updates are scaled by alpha / rank.
        targets: names of linear layers and of `nn.MultiheadAttention`; by default, all. An attention gets one update
            each for queries, keys, values and what it puts out.
        read: those of the linear layers that the module does not call, but whose weights it reads, as the attention
            that pools a CLIP ResNet's places does; those of `nn.TransformerEncoderLayer`, which does so without
            gradients, are known. The updates of layers that are called do not make the whole matrix, and are quicker.

    Returns:
        Names of the parameters that are trained now; untrained, the module computes what it did. `remove_lora` and
        `merge_lora` end it.

    Raises:
        ImportError: without PEFT, naming the extra.
        ValueError: no layer to put an update on, a name that is none, or updates that are there already.

    Source:
        Hu et al. (2022), of layers that are called through PEFT. Attentions, whose matrices torch reads without calling
        a layer, are updated exactly: PEFT adds to and subtracts from their weights at each step, which drift. In
        bfloat16 they move by up to 1.5 of their standard deviation in 1,000 steps (`benchmarks/lora_drift.py`, CPU).

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> add_lora(net, rank=2)[0]
        '0.lora_A.default.weight'
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ImportError("LoRA needs PEFT: pip install 'vision-adapters[lora]'") from error
    able = _able(module)
    chosen = list(able) if targets is None else list(targets)
    unknown = [name for name in [*chosen, *read] if name not in able]
    if not chosen or unknown:
        raise ValueError(f"expected names of linear layers or attentions among {list(able)[:8]}…, got {unknown or []}")
    before = next((path for path, part in module.named_modules() if hasattr(part, "lora_A")), None)
    if before is not None:
        raise ValueError(f"{before} has a low-rank update already: merge it, or take it off")
    if rank < 1:
        raise ValueError(f"rank must be at least 1, got {rank}")
    module.requires_grad_(False)
    read = {*read, *(name for name in able if _in(module, name, nn.TransformerEncoderLayer))}
    called = [name for name in chosen if isinstance(able[name], nn.Linear) and name not in read]
    if called:
        config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=called)
        inject_adapter_in_model(config, module)
        for name in called:
            vars(module.get_submodule(name))["_added"] = config  # an encoder may come with updates of its own
    for name in chosen:
        if name in called:
            continue
        for part, weight in _matrices(able[name]):
            pieces = 3 if weight == "in_proj_weight" else 1
            order, value = tuple(part._parameters), part.get_parameter(weight)
            update = LowRankUpdate(value, pieces, rank, alpha / rank, order)
            parametrize.register_parametrization(part, weight, update)
    return [name for name, parameter in module.named_parameters() if parameter.requires_grad]


def remove_lora(module: nn.Module) -> None:
    """Take low-rank updates off: the module's weights are again the bits that they were, and nothing is trained."""
    _end(module, merge=False)


def merge_lora(module: nn.Module) -> None:
    """Add low-rank updates to what they update: the module has its own layers again, and computes what it did.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> names = add_lora(net, rank=2)
        >>> merge_lora(net)
        >>> sorted(net.state_dict())
        ['0.bias', '0.weight', '2.bias', '2.weight']
    """
    _end(module, merge=True)


def lora_targets(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """What `add_lora` was called with, from the names of a state dict with updates."""
    updated = [name.partition(".lora_A")[0].partition(".parametrizations.") for name in names if ".lora_A" in name]
    attentions = {path for path, _, weight in updated if weight and not weight.startswith("weight.")}
    weights = [(path, weight) for path, _, weight in updated if path.rpartition(".")[0] not in attentions]
    return list(dict.fromkeys(path for path, _ in weights)), [
        path for path, weight in weights if weight.startswith("weight.")
    ]


def lora_names(module: nn.Module) -> list[str]:
    """Names of attentions, and of the layers that make their queries, keys and values, as `add_lora` takes them.

    Example:
        >>> lora_names(nn.TransformerEncoderLayer(8, 2))
        ['self_attn']
    """
    own = ("q_proj", "k_proj", "v_proj", "qkv")
    return [
        name
        for name, part in _able(module).items()
        if isinstance(part, nn.MultiheadAttention) or name.rpartition(".")[2] in own
    ]


def _able(module: nn.Module) -> dict[str, nn.Module]:
    """Linear layers and attentions by name; an attention's own layers are its part."""
    return {
        path: part
        for path, part in module.named_modules()
        if path and isinstance(part, nn.MultiheadAttention | nn.Linear) and not _in(module, path, nn.MultiheadAttention)
    }


def _in(module: nn.Module, path: str, kind: type[nn.Module]) -> bool:
    """Whether a part is a child of a module of a kind."""
    return isinstance(module.get_submodule(path.rpartition(".")[0]), kind)


def _matrices(part: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """What holds each of a layer's or an attention's matrices, and by which name."""
    if not isinstance(part, nn.MultiheadAttention):
        yield part, "weight"
        return
    for name in _ATTENTION:
        if part._parameters.get(name) is not None:
            yield part, name
    yield part.out_proj, "weight"


def _end(module: nn.Module, *, merge: bool) -> None:
    ended = False
    for path, part in list(module.named_modules()):
        if "_added" in vars(part):
            ended = True
            if merge:
                part.merge()
            parent, _, own = path.rpartition(".")
            module.get_submodule(parent)._modules[own] = part.base_layer
            if getattr(module, "peft_config", {}).get("default") is part._added:
                del module.peft_config
        if not parametrize.is_parametrized(part):
            continue
        shared = type(part)  # a deep copy's too, of which torch would take the parameters' names away
        part.__class__ = type(shared.__name__, shared.__bases__, dict(vars(shared)))
        for name, steps in list(part.parametrizations.items()):
            if not isinstance(steps[0], LowRankUpdate):
                continue
            ended = True
            order = steps[0].order
            updated = getattr(part, name).detach() if merge else None
            parametrize.remove_parametrizations(part, name, leave_parametrized=False)
            if updated is not None:
                part.get_parameter(name).data.copy_(updated)
            own_parameters = part._parameters
            for key in order:  # as they were, so that optimisers of later trainings number them alike
                if key in own_parameters:
                    own_parameters[key] = own_parameters.pop(key)
    if ended:
        module.requires_grad_(False)
