"""How far frozen weights of an attention move while low-rank updates are trained: PEFT's way, and `add_lora`'s.

One `nn.MultiheadAttention` of 64 features, rank 4, AdamW at 1e-3 for 1,000 steps, in float32 and bfloat16, on a CPU.
The updates begin at draws, so that each step adds something.

python benchmarks/lora_drift.py   (needs peft)
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from vision_adapters import add_lora
from vision_adapters.low_rank import remove_lora

STEPS = 1000


class Attention(nn.Module):
    """An attention of tokens to one another."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, tokens):
        """Attend."""
        return self.attn(tokens, tokens, tokens, need_weights=False)[0]


def trained(module: nn.Module, parameters: list[nn.Parameter], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    for parameter in parameters:
        parameter.data = (torch.randn(parameter.shape, generator=generator) * 0.05).to(parameter.dtype)
    optimiser = torch.optim.AdamW(parameters, 1e-3)
    tokens = torch.randn(8, 10, 64, generator=generator).to(dtype)
    for _ in range(STEPS):
        optimiser.zero_grad()
        module(tokens).float().pow(2).mean().backward()
        optimiser.step()


def moved(dtype: torch.dtype) -> dict[str, float]:
    torch.manual_seed(0)
    base = Attention().to(dtype)
    before = base.attn.in_proj_weight.detach().clone()
    state = {name: value.clone() for name, value in base.state_dict().items()}
    theirs = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["attn"]))
    trained(theirs, [value for name, value in theirs.named_parameters() if "lora" in name], dtype)
    after = next(value for name, value in theirs.named_parameters() if "in_proj_weight" in name and "lora" not in name)
    peft = float((after.detach().float() - before.float()).abs().max())
    ours = Attention().to(dtype)
    ours.load_state_dict(state)
    add_lora(ours, rank=4, alpha=8)
    trained(ours, [value for value in ours.parameters() if value.requires_grad], dtype)
    remove_lora(ours)
    own = float((ours.attn.in_proj_weight.detach().float() - before.float()).abs().max())
    return {"spread": round(float(before.float().std()), 4), "peft": peft, "add_lora": own}


def main() -> None:
    result = {
        "machine": platform.processor() or platform.machine(),
        "versions": {name: version(name) for name in ("torch", "peft", "vision-adapters")},
        "steps": STEPS,
        **{str(dtype).removeprefix("torch."): moved(dtype) for dtype in (torch.float32, torch.bfloat16)},
    }
    print(json.dumps(result, indent=1))
    path = Path(__file__).parent / "results" / "lora_drift.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
