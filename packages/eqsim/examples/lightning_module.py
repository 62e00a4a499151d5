"""A Lightning module with EqSim; over several devices it reads its rank and world size from the trainer."""

from __future__ import annotations

import logging
import tempfile

import lightning
import torch

from eqsim import ClipEqSimLoss


class DualEncoder(lightning.LightningModule):
    """Two linear towers; put real encoders in their place."""

    def __init__(self) -> None:
        super().__init__()
        self.image_tower, self.text_tower = torch.nn.Linear(20, 16), torch.nn.Linear(12, 16)
        self.log_scale = torch.nn.Parameter(torch.tensor(2.0))
        self.history: list[float] = []

    def setup(self, stage: str) -> None:
        """Build the loss when the trainer knows how many processes there are; DDP averages what it gives."""
        self.loss = ClipEqSimLoss(weight=0.5, rank=self.trainer.global_rank, world_size=self.trainer.world_size)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        image, text = batch
        losses = self.loss(self.image_tower(image), self.text_tower(text), self.log_scale.exp(), output_dict=True)
        total = torch.stack(list(losses.values())).sum()
        self.history.append(float(total.detach()))
        return total

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use plain Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main(epochs: int = 6) -> list[float]:
    """Train on one batch; return its losses."""
    lightning.seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = torch.utils.data.TensorDataset(torch.randn(16, 20), torch.randn(16, 12))
    model = DualEncoder()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=16))
    return model.history


if __name__ == "__main__":
    pass
