"""What the encoder gave, kept on disk while a part is unfinished: a part that was cut does not encode again."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder, PatchFeatures

_LOG = logging.getLogger(__name__)
_WORTH_KEEPING = 0.02
"""Seconds; what the encoder gave sooner is not written down."""


class Remembered:
    """Numbered answers of an encoder in a folder, each with a mark of the images that it is for.

    A part asks its encoder for the same batches in the same order each time it is run, so a number and a mark of a few
    pixels name a batch.

    Args:
        folder: where they lie; made when the first one is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.writes = True

    def encoder(self, encoder: Encoder) -> Encoder:
        """The same encoder, which looks here first and keeps here what it had to compute.

        Args:
            encoder: any; its text side is left as it is.

        Returns:
            An encoder with the same answers, bit for bit.
        """
        whole, places = encoder.image, encoder.patches

        def image(images: Tensor) -> Tensor:
            return self._answer("image", images, lambda: (whole(images), (0, 0)))[0]

        def patches(images: Tensor) -> PatchFeatures:
            from gate_runner.encoders.encoder import PatchFeatures

            assert places is not None
            return PatchFeatures(*self._answer("patches", images, lambda: places(images)))

        return replace(encoder, image=image, patches=None if places is None else patches)

    def forget(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answer(
        self, kind: str, images: Tensor, compute: Callable[[], tuple[Tensor, tuple[int, int]]]
    ) -> tuple[Tensor, tuple[int, int]]:
        self.count += 1
        path = self.folder / f"{self.count:06d}.safetensors"
        mark = _mark(kind, images)
        there = _read(path, mark)
        if there is not None:
            return there[0].to(images.device), there[1]
        start = time.perf_counter()
        tokens, grid = compute()
        here = tokens.detach().cpu().contiguous()  # a GPU has then really computed it
        if self.writes and time.perf_counter() - start >= _WORTH_KEEPING:
            self._write(path, mark, here, grid)
        return tokens, grid

    def _write(self, path: Path, mark: str, tokens: Tensor, grid: tuple[int, int]) -> None:
        from safetensors.torch import save

        about = {"mark": mark, "grid": f"{grid[0]} {grid[1]}", "sum": _checksum(tokens)}
        partial = path.with_suffix(f".{os.getpid()}.partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(save({"tokens": tokens}, about))
            partial.replace(path)
        except OSError as error:
            _LOG.warning("features are not kept any more, a part that is cut encodes again: %s", error)
            self.writes = False
            self.forget()  # the results need the space


def _mark(kind: str, images: Tensor) -> str:
    """Kind, shape and 64 of the pixels, evenly spaced."""
    flat = images.reshape(-1)
    places = torch.linspace(0, len(flat) - 1, min(64, len(flat)), dtype=torch.float64).long().to(flat.device)
    digest = hashlib.sha256(flat[places].float().cpu().numpy().tobytes()).hexdigest()
    return f"{kind} {tuple(images.shape)} {digest}"


def _checksum(tokens: Tensor) -> str:
    return hashlib.blake2b(tokens.reshape(-1).view(torch.uint8).numpy().data, digest_size=16).hexdigest()


def _read(path: Path, mark: str) -> tuple[Tensor, tuple[int, int]] | None:
    """An answer, or None where there is none that is whole and for these images."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            about = file.metadata() or {}
            tokens: Tensor = file.get_tensor("tokens")
        rows, columns = (int(number) for number in about["grid"].split())
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    if about.get("mark") != mark or about.get("sum") != _checksum(tokens):
        return None
    return tokens, (rows, columns)
