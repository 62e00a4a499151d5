"""``gate-runner prompts``: the commands of ``knowledge_prompts``, with the runner's encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knowledge_prompts.cli import make_app

if TYPE_CHECKING:
    from collections.abc import Callable


def text_encoder(name: str, device: str) -> Callable[[list[str]], Any]:
    """One of the runner's encoders, by its spec string."""
    from gate_runner.encoders import load_encoder

    return load_encoder(name, device=device).encode_text


app = make_app(text_encoder, encoder="micro-clip")
