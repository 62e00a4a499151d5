"""A monitor as a callback of other libraries' trainers; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate_runner.monitoring.monitor import Monitor


def lightning_callback(monitor: Monitor) -> Any:
    """See `Monitor.lightning`."""
    base: Any
    try:
        base = import_module("lightning.pytorch").Callback
    except ImportError:
        try:
            base = import_module("pytorch_lightning").Callback
        except ImportError as error:
            raise ImportError("a Lightning callback needs Lightning: pip install lightning") from error

    class MonitorCallback(base):  # type: ignore[misc]  # Lightning may come untyped, or not at all
        """Reads before the first batch, and after batches."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """The first reading."""
            monitor(pl_module, int(trainer.global_step))

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
            """Read where a reading is due; batches of one accumulated step count once."""
            if monitor.seen != trainer.global_step:
                monitor(pl_module, int(trainer.global_step))

    return MonitorCallback()


def transformers_callback(monitor: Monitor) -> Any:
    """See `Monitor.transformers`."""
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise ImportError("a Trainer callback needs transformers: pip install 'gate-runner[hf]'") from error

    class MonitorCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]  # transformers may come untyped
        """Reads before the first step, and after steps."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            """The first reading."""
            monitor(model, int(state.global_step))

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            """Read where a reading is due."""
            monitor(model, int(state.global_step))

    return MonitorCallback()
