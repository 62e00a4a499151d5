"""Hugging Face's Trainer fine-tuning CLIPModel with EqSim: one overridden method."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments

from eqsim import ClipEqSimLoss


class EqSimTrainer(Trainer):
    """A Trainer whose loss is the contrastive loss and EqSim from one pass."""

    eqsim = ClipEqSimLoss(weight=0.5)

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, **_: Any) -> Any:
        """Replace the model's own loss."""
        outputs = model(**inputs)
        scale = model.logit_scale.exp()
        loss = self.eqsim(outputs.image_embeds, outputs.text_embeds, scale)
        return (loss, outputs) if return_outputs else loss


class Pairs(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Random pictures with random texts, always the same."""

    def __init__(self, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randn(size, 3, 32, 32, generator=generator)
        self.ids = torch.randint(3, 60, (size, 8), generator=generator)
        self.ids[:, -1] = 63  # the end token, at which CLIP pools

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.pixels[index], "input_ids": self.ids[index]}


def main(steps: int = 6) -> list[float]:
    """Train a tiny random CLIPModel; return the logged losses."""
    torch.manual_seed(0)
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**layers, "vocab_size": 64, "max_position_embeddings": 8, "eos_token_id": 63, "projection_dim": 16}
    vision = {**layers, "image_size": 32, "patch_size": 16, "projection_dim": 16}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=12,
            learning_rate=1e-3,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            remove_unused_columns=False,
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = EqSimTrainer(model=model, args=arguments, train_dataset=Pairs(12))
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    pass
