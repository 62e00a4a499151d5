"""Intel Open Image Denoise, from PyPI's `oidn` and `tbb`: one filter for each size of image, on one thread."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float32

#: What to install where it is missing.
EXTRA = "eqben-builder[mitsuba]"


class DenoiserMissingError(ImportError):
    """Open Image Denoise cannot be loaded; the message says which part of it."""


class Denoiser:
    """Takes the noise from rendered images of one size.

    Numerics:
        The same input gives the same bytes on one machine. Images must have been made with a box filter: of a wider
        one's correlated noise nothing is taken away.
    """

    def __init__(self, height: int, width: int) -> None:
        oidn = _library()
        self._oidn = oidn
        self.version = str(oidn.oidn_version)
        lib = getattr(oidn, "__lib_oidn")
        for name, kind in (("oidnSetDevice1i", ctypes.c_int), ("oidnSetDevice1b", ctypes.c_bool)):
            getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, kind]
        lib.oidnSetFilter1b.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool]
        self._device = oidn.NewDevice(oidn.DEVICE_TYPE_CPU)
        lib.oidnSetDevice1i(self._device, b"numThreads", 1)
        lib.oidnSetDevice1b(self._device, b"setAffinity", False)
        oidn.CommitDevice(self._device)
        self._buffers = {
            name: np.zeros((height, width, 3), dtype=np.float32) for name in ("color", "albedo", "normal", "output")
        }
        self._filter = oidn.NewFilter(self._device, "RT")
        for name, buffer in self._buffers.items():
            oidn.SetSharedFilterImage(self._filter, name, buffer, oidn.FORMAT_FLOAT3, width, height)
        lib.oidnSetFilter1b(self._filter, b"hdr", True)
        oidn.CommitFilter(self._filter)
        self._check()

    def _check(self) -> None:
        code = self._oidn.GetDeviceError(self._device)
        if code:
            raise RuntimeError(f"Open Image Denoise {self.version} reports error {code}")

    def __call__(
        self,
        colour: Float32[np.ndarray, "h w 3"],
        albedo: Float32[np.ndarray, "h w 3"],
        normal: Float32[np.ndarray, "h w 3"],
    ) -> Float32[np.ndarray, "h w 3"]:
        """The image without its noise; all three are float32 [height, width, 3], linear and unbounded."""
        for name, values in (("color", colour), ("albedo", albedo), ("normal", normal)):
            self._buffers[name][:] = values
        self._oidn.ExecuteFilter(self._filter)
        self._check()
        return self._buffers["output"].copy()


@lru_cache(maxsize=1)
def _library() -> Any:
    error: Exception | None = None
    for name in _threading_libraries():
        try:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as failure:
            error = failure
    try:
        import oidn
    except ImportError as failure:
        raise DenoiserMissingError(f"Open Image Denoise is not installed: pip install '{EXTRA}'") from failure
    except OSError as failure:
        raise DenoiserMissingError(
            f"Open Image Denoise cannot be loaded ({failure}; {error}): pip install '{EXTRA}', or libtbb12 from Debian"
        ) from failure
    return oidn


def _threading_libraries() -> list[str]:
    """Where libtbb.so.12 may be: beside the environment's own libraries (PyPI's `tbb`), then the system's."""
    name = "libtbb.so.12"
    places = [Path(sys.prefix) / "lib", *(Path(entry).parents[1] for entry in sys.path if entry.endswith("-packages"))]
    return [*(str(folder / name) for folder in places if (folder / name).exists()), name]
