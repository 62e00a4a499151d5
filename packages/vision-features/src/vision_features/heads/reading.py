"""From what one pass of an encoder gives to what a head takes: the vectors of a read-out, their norm and their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.compression import Codec
from vision_adapters.training import Scale
from vision_features.errors import EncoderError
from vision_features.readouts import Readout
from wary_files.errors import UsageError

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder

NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda rows: rows,
    "l2": lambda rows: F.normalize(rows, dim=-1),
    "ln": lambda rows: F.layer_norm(rows, rows.shape[-1:]),
}
"""Norms that nothing has to be learnt for."""


class Reading(nn.Module):
    """Reads an encoder at one read-out, with what its norm and its code learnt from training images.

    Args:
        readout: where.
        widths: of the vectors that the encoder gives in one pass, by name, as `Encoder.readouts` gives them.
        scale: by channel, where the norm is ``z`` or the head takes tokens.
        code: learnt from rows behind the norm, where they are kept in fewer bytes.
    """

    def __init__(
        self, readout: Readout, widths: Mapping[str, int], scale: Scale | None = None, code: Codec | None = None
    ) -> None:
        super().__init__()
        self.readout, self.widths, self.code = readout, dict(widths), code
        learnt = {} if scale is None else {"mean": scale.mean, "std": scale.std}
        if code is not None:
            learnt |= {"centre": code.centre, "scale": code.scale}
            learnt |= {} if code.basis is None else {"basis": code.basis}
        for name, value in learnt.items():
            self.register_buffer(name, value.detach().clone())

    @property
    def reads_tokens(self) -> bool:
        """Whether the head takes all places of a block."""
        return self.readout.pooling == "attentive"

    @property
    def columns(self) -> Tensor:
        """The columns of the vectors side by side that it takes."""
        return columns_of(self.readout, self.widths, "the encoder")

    def forward(self, given: Float[Tensor, "n *places w"]) -> Float[Tensor, "n *places d"]:
        """Take its vectors of all that the encoder gave, or tokens, and change them."""
        taken: Tensor = given if self.reads_tokens else given[..., self.columns.to(given.device)]
        return self.changed(taken)

    def changed(self, rows: Float[Tensor, "n *places d"]) -> Float[Tensor, "n *places k"]:
        """Norm and code of vectors that were taken already."""
        learnt = dict(self.named_buffers())
        rows = rows.float()
        rows = (rows - learnt["mean"]) / learnt["std"] if "mean" in learnt else NORMS[self.readout.norm](rows)
        if self.code is None:
            return rows
        now = self.code._replace(centre=learnt["centre"], scale=learnt["scale"], basis=learnt.get("basis"))
        return now.restored(rows)

    def form(self) -> dict[str, Any]:
        """What has to be known of it besides its tensors."""
        keep = {} if self.code is None else {"keep": self.code.keep, "bytes": self.code.bytes}
        return {"readout": self.readout.name, "widths": self.widths, **keep}

    @classmethod
    def made(cls, form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Reading:
        """Make it again; a ValueError where tensors and form do not fit each other."""
        try:
            readout = Readout.parse(str(form["readout"]))
            scale = Scale(tensors["mean"], tensors["std"]) if "mean" in tensors else None
            widths = {str(name): int(width) for name, width in form["widths"].items()}
            code = None
            if readout.code:
                basis = tensors.get("basis")
                sizes = int(form["keep"]), int(form["bytes"])
                code = Codec(readout.code, tensors["centre"], tensors["scale"], basis, *sizes)
            made = cls(readout, widths, scale, code)
            if (readout.norm == "z") != (scale is not None) and not made.reads_tokens:
                raise ValueError(f"mean and standard deviation do not fit the read-out {readout.name!r}")
            if not made.reads_tokens:
                made.changed(torch.zeros(1, len(made.columns)))
        except (KeyError, TypeError, AttributeError, RuntimeError, UsageError) as error:
            raise ValueError(f"the read-out's tensors do not fit its card: {error}") from error
        return made

    def check(self, encoder: Encoder, where: str) -> None:
        """Refuse an encoder that does not give these vectors."""
        have = encoder.readouts()
        if self.reads_tokens:
            blocks = {name.partition("/")[0] for name in have if name.startswith("block:")}
            fits = f"block:{self.readout.block}" in blocks
        else:
            fits = all(have.get(name) == self.widths[name] for name in self.readout.parts(self.widths))
            fits &= self.readout.place != "concat" or have == self.widths
        if not fits:
            raise EncoderError(
                f"{where} reads its encoder out at {self.readout.name!r}, which {encoder.spec!r} does not give as it "
                f"did; it has: {', '.join(f'{name} ({width})' for name, width in have.items()):.300}"
            )
        self.widths = have


def columns_of(readout: Readout, widths: Mapping[str, int], spec: str) -> Tensor:
    """The columns of all vectors side by side that a read-out takes."""
    starts, start = {}, 0
    for name, width in widths.items():
        starts[name] = torch.arange(start, start + width)
        start += width
    parts = readout.parts(starts)
    missing = [part for part in parts if part not in starts]
    if missing:
        raise UsageError(
            f"encoder {spec!r} has no read-out {readout.name!r}; it has: {', '.join(starts)}"
            + (", and cls+mean of a block" if any(name.endswith("/cls") for name in starts) else "")
        )
    return torch.cat([starts[part] for part in parts])
