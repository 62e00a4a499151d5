"""GPU energy from the counter that NVIDIA's driver keeps (Volta and newer)."""

from __future__ import annotations

from typing import Any


class GpuCounter:
    """Joules of the GPU that a run uses.

    Args:
        device: the torch device, e.g. ``"cuda:0"``.

    Raises:
        OSError: the run uses no GPU, the extra ``energy`` is missing, or the GPU keeps no counter; the message says
            which.
    """

    def __init__(self, device: str) -> None:
        if not device.startswith("cuda"):
            raise OSError("the run used no GPU")
        try:
            import pynvml
        except ImportError:
            raise OSError("nvidia-ml-py is not installed (pip install 'gate-runner[energy]')") from None
        self.nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(_identity(device))
        except pynvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        self.start = 0.0
        self.start = self.joules()

    def joules(self) -> float:
        """Joules since this object was made."""
        try:
            millijoules = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
        except self.nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        return float(millijoules) / 1000 - self.start


def _identity(device: str) -> str:
    """The driver's name for a torch device, which holds whatever CUDA_VISIBLE_DEVICES says."""
    import torch

    properties = torch.cuda.get_device_properties(torch.device(device))
    uuid = str(properties.uuid)
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
