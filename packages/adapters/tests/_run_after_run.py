"""ELEVATER's search as it is defined: one module after another, trained by autograd."""

from __future__ import annotations

from unittest.mock import patch

import torch
import torch.nn.functional as F

from vision_adapters.heads import LinearHead
from vision_adapters.tuning import Tuned, TuningData, elevater
from vision_adapters.tuning.elevater import DECAYS, EPOCHS, FINAL_EPOCHS, MOMENTUM, RATES, Run


class OneByOne(elevater._Problem):
    """The same problem, with no configuration beside another."""

    def scores(self, runs: list[Run]) -> list[float]:
        """The best epoch's validation score of each configuration."""
        return [self.single(run) for run in runs]

    def single(self, run: Run) -> float:
        best = self.failed
        for head in self.stepped(run, EPOCHS):
            with torch.no_grad():
                best = max(best, self.validated(head.eval()(self.held_features)))
        return best

    def stepped(self, run: Run, epochs: int):  # type: ignore[no-untyped-def]  # heads, one for each epoch
        """The head after each epoch of plain minibatch steps."""
        head = self.head()
        optimiser = torch.optim.SGD(
            head.parameters(), lr=RATES[run.rate], momentum=MOMENTUM, weight_decay=DECAYS[run.decay]
        )
        for epoch in range(epochs):
            head.train()
            for part in self.batches(epoch):
                optimiser.zero_grad()
                scores = head(self.x[part])
                if self.data.several:
                    loss = F.binary_cross_entropy_with_logits(scores, self.targets[part])
                else:
                    loss = F.cross_entropy(scores, self.y[part])
                torch.autograd.backward(loss)
                optimiser.step()
            yield head

    def final(self, run: Run) -> LinearHead:
        """The head after the long run."""
        *_, head = self.stepped(run, FINAL_EPOCHS)
        return head.eval()


def tune_run_after_run(data: TuningData) -> Tuned:
    """The published search, run after run."""
    with patch.object(elevater, "_Problem", OneByOne):
        return elevater.tune_elevater(data)
