"""A pretended GPU: tensors that say ``cuda:0``, hold CPU memory, and refuse to meet tensors of the CPU.

It finds what otherwise only a GPU finds: tensors that were left on the CPU, NumPy on a device's tensor, generators of
the wrong device, and how often the processor waits for the device or copies from memory that is not pinned. It does not
find errors of kernels, streams, speed or memory: numbers are the CPU's.

`install` changes torch for the rest of the process, so every test of it has a process of its own.

How: C++ sees a wrapper tensor on the CPU; its Python attribute ``device`` says ``cuda:0``. A function mode reads the
devices in calls of torch's functions, and a dispatch mode sees each kernel and raises where both kinds meet.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
COUNTS: Counter[str] = Counter()
"""``upload pinned``, ``upload paged`` and ``upload scalar`` to the device; ``wait`` for a value or a shape of it."""

PLACES: Counter[str] = Counter()
"""The same by the line of this workspace that made it."""

_ops = torch.ops.aten
_INDEXED = {
    getattr(_ops, name.partition(".")[0]).__getattr__(name.partition(".")[2])
    for name in (
        "index.Tensor", "index_put.default", "index_put_.default", "_index_put_impl_.default", "_unsafe_index.Tensor",
        "_unsafe_index_put.default", "_unsafe_masked_index.default",
    )
}  # fmt: skip
"""Kernels that take indices of the CPU for a device's tensor, and copy them there."""
_WAITING = {"nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "repeat_interleave", "equal"}
"""Kernels whose result's shape, or whose result, the processor has to wait for."""
_PLAIN = {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
"""Types of arguments in which there is no tensor."""
_state = threading.local()
_generators: dict[int, torch.Generator] = {}


class _Life:
    """What a tensor has until it goes: tensors themselves cannot be swapped while something refers to them weakly."""


_lives: weakref.WeakSet[_Life] = weakref.WeakSet()


class Wrapped(torch.Tensor):
    """A tensor of the pretended device; ``held`` has its values."""

    held: torch.Tensor
    life: _Life
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Wrapped:
        """Wrap values, which nobody else may change."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=CPU,
        )  # fmt: skip
        made.held = held.detach() if held.requires_grad else held
        made.life = _Life()
        _lives.add(made.life)
        return cast(Wrapped, made)

    device = property(lambda self: GPU)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    def get_device(self) -> int:
        """The device's number."""
        return 0

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Wrapped({self.held!r})"

    def numpy(self, *, force: bool = False) -> Any:
        """Refused, as a real one's."""
        if force:
            return self.detach().cpu().numpy()
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        """The values, after a wait."""
        count("wait")
        return self.held.tolist()

    def pin_memory(self, device: Any = None) -> Any:
        """Refused, as a real one's."""
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor': only dense CPU tensors can be pinned")

    def __reduce_ex__(self, protocol: Any) -> Any:
        held: torch.Tensor = self.held.detach()
        if getattr(self, "_is_param", False):
            held = torch.nn.Parameter(held, self.requires_grad)
        return held.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy: torch.Tensor = Wrapped(self.held.clone())
            leaf = getattr(self, "_is_param", False)
            memo[id(self)] = torch.nn.Parameter(copy, self.requires_grad) if leaf else copy
            if not leaf:
                copy.requires_grad_(self.requires_grad)
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A kernel on values of the device."""
        return _kernel(func, args, kwargs or {})


class _Upload(torch.autograd.Function):
    """To the device, with a gradient that comes back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return Wrapped(x.detach().clone())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.held if isinstance(gradient, Wrapped) else gradient


class _Download(torch.autograd.Function):
    """From the device, with a gradient that goes there."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> torch.Tensor:
        return cast(torch.Tensor, x.held.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient if isinstance(gradient, Wrapped) else Wrapped(gradient)


def upload(x: torch.Tensor) -> torch.Tensor:
    """Copy to the device."""
    if isinstance(x, Wrapped):
        return x
    count(f"upload {'scalar' if x.numel() <= 1 else 'pinned' if _pinned(x) else 'paged'}")
    if x.requires_grad and torch.is_grad_enabled():
        return cast(torch.Tensor, _Upload.apply(x))
    with torch._C.DisableTorchFunction():
        return Wrapped(x.detach().clone())


def download(x: torch.Tensor) -> torch.Tensor:
    """Copy from the device, which is waited for."""
    if not isinstance(x, Wrapped):
        return x
    count("wait")
    if x.requires_grad and torch.is_grad_enabled():
        return cast(torch.Tensor, _Download.apply(x))
    return x.held.clone()


def count(what: str) -> None:
    """Count a wait or a copy, and the line that made it."""
    COUNTS[what] += 1
    frame = sys._getframe(1)
    while frame.f_back is not None and "/packages/" not in frame.f_code.co_filename:
        frame = frame.f_back
    PLACES[f"{what} {frame.f_code.co_filename.rpartition('/packages/')[2]}:{frame.f_lineno}"] += 1


def on_gpu(device: Any) -> bool:
    """Whether what stands for a device is the pretended one."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


def alive() -> int:
    """How many tensors of the device there are."""
    return len(_lives)


def _pinned(x: torch.Tensor) -> bool:
    return bool(getattr(x, "_pinned", False))


def _sort(values: Any, ours: list[Wrapped], others: list[torch.Tensor]) -> None:
    """Enter the tensors among a call's arguments, in lists, tuples and dictionaries, under the device that has them."""
    for value in values:
        kind = type(value)
        if kind is Wrapped:
            ours.append(value)
        elif kind in _PLAIN:
            continue
        elif kind is tuple or kind is list or isinstance(value, (list, tuple)):
            _sort(value, ours, others)
        elif isinstance(value, Wrapped):
            ours.append(value)
        elif isinstance(value, torch.Tensor):
            others.append(value)
        elif isinstance(value, dict):
            _sort(value.values(), ours, others)


def _sorted(args: Any, kwargs: Any) -> tuple[list[Wrapped], list[torch.Tensor]]:
    """A call's tensors: of the device, and of the CPU."""
    ours, others = list[Wrapped](), list[torch.Tensor]()
    _sort(args, ours, others)
    if kwargs:
        _sort(kwargs.values(), ours, others)
    return ours, others


def _kernel(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a kernel on the values that wrapped tensors hold; what comes out is wrapped."""
    ours, others = _sorted(args, kwargs)
    return _computed(func, args, kwargs, ours, others)


def _computed(func: Any, args: Any, kwargs: Any, ours: list[Wrapped], others: list[torch.Tensor]) -> Any:
    name = func.overloadpacket.__name__
    if func is _ops.copy_.default:
        if isinstance(args[0], Wrapped) is not isinstance(args[1], Wrapped):
            count("upload paged" if isinstance(args[0], Wrapped) else "wait")
        _held(args[0]).copy_(_held(args[1]))
        return args[0]
    if name == "_local_scalar_dense" or (name in _WAITING and not _static(name, kwargs)):
        count("wait")
        if name == "_local_scalar_dense":
            return func(*map(_held, args))
    if func in _INDEXED:
        if not isinstance(args[0], Wrapped):
            raise RuntimeError(f"indices should be on the CPU, as the indexed tensor is ({func})")
        indices = [x for x in args[1] if x is not None]
        if any(x.dtype in (torch.bool, torch.uint8) for x in indices):  # how many are true?
            count("wait")
        for index in indices:
            if not isinstance(index, Wrapped):
                count("upload paged")
    elif others and any(x.dim() for x in others) and torch._C._current_graph_task_id() == -1:  # not in a backward pass
        shapes = [tuple(x.shape) for x in others]
        raise RuntimeError(f"expected all tensors on one device, but found cuda:0 and cpu: {func}, of the CPU {shapes}")
    generator = kwargs.get("generator")
    if generator is not None and id(generator) not in _generators:
        raise RuntimeError(f"expected a 'cuda' device type for generator but found 'cpu' ({func})")
    if torch.Tag.inplace_view in func.tags:  # the wrapper has a shape, too
        with no_dispatch():
            func(*args, **kwargs)
    out = func(*_values(args), **(_values(kwargs) if kwargs else kwargs))
    same = {id(x.held): x for x in ours}  # an operation in place gives the tensor that it was given
    if isinstance(out, torch.Tensor):
        return same[id(out)] if id(out) in same else Wrapped(out)
    return tree_map_only(torch.Tensor, lambda x: same[id(x)] if id(x) in same else Wrapped(x), out)


def _static(name: str, kwargs: Any) -> bool:
    return name == "repeat_interleave" and kwargs.get("output_size") is not None


def _held(x: Any) -> Any:
    return x.held if isinstance(x, Wrapped) else x


def _values(x: Any) -> Any:
    """Arguments with the values that wrapped tensors hold."""
    if type(x) in _PLAIN:
        return x
    if isinstance(x, (list, tuple)):
        return type(x)(map(_values, x))
    if isinstance(x, dict):
        return {key: _values(value) for key, value in x.items()}
    return _held(x)


class _Kernels(TorchDispatchMode):
    """What a function of torch makes within a call that was given tensors of the device is of the device, too."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and being skipped costs more than most kernels

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():  # in a backward pass, the mode for functions is on
            ours, others = _sorted(args, kwargs)
            if ours:
                return _computed(func, args, kwargs, ours, others)
            out = func(*args, **kwargs)
            if not others and getattr(_state, "inside", False):
                return tree_map_only(torch.Tensor, Wrapped, out)
        return out


class _Devices(TorchFunctionMode):
    """Reads the devices in calls, and shows C++ the CPU in their place."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not kwargs and getattr(func, "__name__", "") == "__get__":  # an attribute of a tensor
            return func(*args)
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return upload(args[0])
        if func is torch.Tensor.cpu:
            return download(args[0])
        if func is torch.Tensor.to:
            return _to(*args, **kwargs)
        if func is torch.Tensor.pin_memory and not isinstance(args[0], Wrapped):
            copy = args[0].clone()
            copy._pinned = True
            return copy
        if func is torch.Tensor.new_tensor and isinstance(args[0], Wrapped):
            return upload(torch.tensor(*args[1:], dtype=kwargs.get("dtype", args[0].dtype)))
        if func is torch.Tensor.is_pinned:
            return _pinned(args[0])
        ours = bool(_sorted(args, kwargs)[0])
        device, generator = kwargs.get("device"), kwargs.get("generator")
        pin = kwargs.pop("pin_memory", False)
        target = on_gpu(device) if device is not None else ours
        if generator is not None and target is not (id(generator) in _generators):
            expected = "cuda" if target else "cpu"
            raise RuntimeError(f"expected a {expected!r} device type for generator ({func})")
        if device is None:
            before = getattr(_state, "inside", False)
            _state.inside = ours
            try:
                out = func(*args, **kwargs)
            finally:
                _state.inside = before
        else:
            kwargs["device"] = CPU
            with _inside(False):
                out = func(*args, **kwargs)
            if isinstance(out, torch.Tensor) and target is not isinstance(out, Wrapped):
                needs = out.requires_grad
                out = Wrapped(out.detach()) if target else cast(Any, out).held
                out = out.requires_grad_() if needs else out
        if pin and isinstance(out, torch.Tensor):
            cast(Any, out)._pinned = True
        return out


@contextmanager
def _inside(inside: bool) -> Iterator[None]:
    before = getattr(_state, "inside", False)
    _state.inside = inside
    try:
        yield
    finally:
        _state.inside = before


def _to(x: torch.Tensor, *rest: Any, **named: Any) -> Any:
    """``Tensor.to`` with its device, its type, or another tensor for both."""
    named.pop("non_blocking", None)
    device, others = named.pop("device", None), list[Any]()
    like = named.pop("other", None)
    for value in (*rest, *([] if like is None else [like])):
        if isinstance(value, torch.Tensor):
            device = value.device
            others.append(value.dtype)
        elif isinstance(value, torch.dtype):
            others.append(value)
        elif not isinstance(value, bool) and value is not None:
            device = value
    target = isinstance(x, Wrapped) if device is None else on_gpu(device)
    moved = x if target is isinstance(x, Wrapped) else (upload(x) if target else download(x))
    if not others and not named:
        return moved
    named.setdefault("dtype", others[0] if others else None)
    with _inside(target), torch._C.DisableTorchFunction():
        return moved.to(**{key: value for key, value in named.items() if value is not None})


_Generator = torch.Generator


class _Generators(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, _Generator)

    def __call__(cls, device: Any = "cpu") -> Any:
        made = _Generator()
        if on_gpu(device):
            _generators[id(made)] = made
        return made


class Properties:
    """Of a GPU with 80 GiB."""

    name, uuid, total_memory = "Pretended", "0", 80 << 30
    major, minor, multi_processor_count = 9, 0, 132


_TRUE = ("is_available", "is_initialized", "is_bf16_supported")
_NONE = (
    "synchronize", "empty_cache", "init", "_lazy_init", "reset_peak_memory_stats", "manual_seed", "set_device",
    "manual_seed_all", "set_rng_state", "set_rng_state_all",
)  # fmt: skip
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "current_device")
_SAYS: dict[str, Any] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_NONE),
    **dict.fromkeys(_ZERO, 0),
    "is_current_stream_capturing": False,
    "device_count": 1,
    "get_device_name": Properties.name,
    "get_device_properties": Properties,
    "get_device_capability": (9, 0),
    "mem_get_info": (79 << 30, 80 << 30),
}
"""What functions of ``torch.cuda`` say."""


def _grad(enabled: bool) -> None:
    torch.set_grad_enabled(enabled)


def _saying(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def install() -> None:
    """Pretend for the rest of this process, in all of its threads, that there is one CUDA device."""
    from torch import amp, optim

    library: Any = torch
    for name, answer in _SAYS.items():
        setattr(torch.cuda, name, _saying(answer))
    library.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    library.cuda.get_rng_state_all = lambda: [torch.get_rng_state()]
    library.Generator = _Generators("Generator", (), {})
    library.accelerator.is_available = lambda: True
    library.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    # A view of a wrapper cannot be a tensor for inference; functions that were decorated already have the class itself.
    library.inference_mode.__enter__ = lambda self: (
        setattr(self, "before", torch.is_grad_enabled()) or _grad(False if self.mode else self.before)
    )
    library.inference_mode.__exit__ = lambda self, *_: _grad(self.before)
    torch.__future__.set_swap_module_params_on_conversion(True)  # a module's weights become another class
    for check in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        setattr(optim.Optimizer, check, lambda self: None)
    load = torch.load

    def loaded(*args: Any, **named: Any) -> Any:
        if not on_gpu(named.get("map_location")):
            return load(*args, **named)
        named["map_location"] = "cpu"
        return tree_map_only(torch.Tensor, upload, load(*args, **named))

    library.load = loaded
    cast_automatically = torch.autocast

    class Autocast(cast_automatically):  # type: ignore[misc,valid-type]
        def __init__(self, device_type: str, *rest: Any, **named: Any) -> None:
            super().__init__("cpu" if device_type == "cuda" else device_type, *rest, **named)

    for place in (library, amp, amp.autocast_mode):
        cast(Any, place).autocast = Autocast
    run = threading.Thread.run

    def pretending(self: threading.Thread) -> None:
        _enter()
        run(self)

    threading.Thread.run = pretending  # type: ignore[method-assign]
    _enter()


def _enter() -> None:
    _Kernels().__enter__()
    _Devices().__enter__()
