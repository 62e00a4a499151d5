"""A training step of open_clip with EqSim in the same pass: the loss replaces open_clip's ClipLoss."""

from __future__ import annotations

import torch
from open_clip.model import CLIP

from eqsim import ClipEqSimLoss


def main() -> list[float]:
    """Train a tiny model for a few steps on one batch; return the losses."""
    torch.manual_seed(0)
    vision = {"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16}
    text = {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1}
    model = CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text)
    loss = ClipEqSimLoss(weight=0.5)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, tokens = torch.randn(12, 3, 32, 32), torch.randint(1, 50, (12, 8))
    history = []
    for _ in range(8):
        image_features, text_features, logit_scale = model(images, tokens)
        losses = loss(image_features, text_features, logit_scale, output_dict=True)
        total = sum(losses.values())  # {"contrastive_loss", "eqsim_loss"}, as open_clip's trainer adds them up
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        history.append(float(total.detach()))
    return history


if __name__ == "__main__":
    pass
