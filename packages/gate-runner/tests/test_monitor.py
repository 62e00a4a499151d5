"""A monitor leaves no trace in the training that it looks at, keeps to its budget, and its readings can be reported."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gate_runner
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.errors import UsageError
from gate_runner.monitoring.monitor import Reading, alignment, effective_rank, uniformity
from gate_runner.runs.stored import read_run


class Model(nn.Module):
    image_size, mean, std = 16, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.BatchNorm2d(8), nn.Dropout(0.3), nn.Flatten())
        self.head = nn.Linear(128, 4)

    def encode_image(self, images: Tensor) -> Tensor:
        body: Tensor = self.body(images)
        return body

    def forward(self, images: Tensor) -> Tensor:
        head: Tensor = self.head(self.body(images))
        return head


def trained(monitor: Any, steps: int = 5) -> tuple[Model, list[float]]:
    """A loop that draws from all three global generators, and its losses."""
    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(0)
    model, losses = Model(), []
    model.head.weight.requires_grad_(False)
    optimiser = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-2)
    for step in range(steps):
        images = torch.randn(8, 3, 16, 16) + random.random() + float(np.random.rand())  # noqa: NPY002 - a loop that draws from it
        loss = nn.functional.cross_entropy(model.train()(images), torch.arange(8) % 4)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        model.body[2].eval()  # a mode of one layer
        monitor(model, step)
        assert not model.body[2].training
        assert model.training
        optimiser.step()
        losses.append(float(loss.detach()))
    return model, losses


def test_a_training_has_the_same_bits_with_and_without_it(tmp_path: Path) -> None:
    pytest.importorskip("skimage", reason="the faces come with scikit-image")
    monitor = gate_runner.Monitor("digits", every=2, budget=None, output=tmp_path / "run", limit=40, name="mine")
    plain, losses = trained(lambda model, step: None)
    watched, again = trained(monitor)
    assert losses == again
    for (name, parameter), other in zip(plain.state_dict().items(), watched.state_dict().values(), strict=True):
        assert torch.equal(parameter, other), name
    assert [parameter.requires_grad for parameter in watched.parameters()] == [
        parameter.requires_grad for parameter in plain.parameters()
    ]
    assert [reading.step for reading in monitor.readings] == [0, 2, 4]
    assert not monitor.readings[-1].failed
    page = gate_runner.report(tmp_path / "run", pictures=0)
    assert "effective rank" in page
    assert 'class="curve"' in page
    (result,) = [parameter for parameter in read_run(tmp_path / "run").results if parameter.name == "digits"]
    assert [row["step"] for row in result.training["validation"]] == [0, 2, 4]
    assert result.training["geometry"][-1]["rank"] == pytest.approx(monitor.readings[-1].geometry["rank"])
    # a process that goes on from step 3 keeps what lies before it
    more = gate_runner.Monitor(
        ["digits", "faces"], every=3, budget=None, output=tmp_path / "run", limit=40, name="mine"
    )
    more(watched, 3)
    assert not more.readings[0].failed
    (result,) = [parameter for parameter in read_run(tmp_path / "run").results if parameter.name == "digits"]
    assert [row["step"] for row in result.training["validation"]] == [0, 2, 3]


def test_a_budget_postpones_and_a_failure_goes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("gate_runner.monitoring.monitor.time.monotonic", lambda: now[0])
    monitor = gate_runner.Monitor("digits", every=10, budget="10 %", output=tmp_path / "run", limit=40)

    def reads(model: Any, step: int, begin: float) -> Any:
        now[0] += 3.0
        return Reading(step, {}, {}, 3.0, {})

    monkeypatch.setattr(monitor, "_read", reads)
    model = Model()
    for step in range(81):
        monitor(model, step)
        now[0] += 1.0
    # 3 seconds of each reading; the second may come when 6 are a tenth of what has passed with it
    assert [reading.step for reading in monitor.readings] == [0, 54]
    assert monitor.postponed == [10, 20, 30, 40, 50, 60, 70, 80]
    assert sum(reading.seconds for reading in monitor.readings) <= 0.1 * now[0]
    broken = gate_runner.Monitor("digits", output=tmp_path / "b", pick=lambda model: model.nothing)
    assert broken(model, 0) is None
    assert "monitor at step 0: AttributeError" in caplog.text
    for budget in ("much", 0.0, "120 %"):
        with pytest.raises(UsageError, match="share of the time"):
            gate_runner.Monitor("digits", budget=budget)


def test_geometry_is_what_the_papers_say() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 3), torch.randn(7, 3)
    values = np.linalg.svd(x.numpy(), compute_uv=False)
    shares = values / values.sum()
    assert effective_rank(x) == pytest.approx(float(np.exp(-(shares * np.log(shares)).sum())), rel=1e-4)
    assert effective_rank(torch.ones(5, 3)) == pytest.approx(1.0, abs=1e-4)
    a, b = (each.numpy() / np.linalg.norm(each.numpy(), axis=1, keepdims=True) for each in (x, y))
    assert alignment(x, y) == pytest.approx(float(((a - b) ** 2).sum(1).mean()), rel=1e-5)
    pairs = [np.exp(-2 * ((a[i] - a[j]) ** 2).sum()) for i in range(7) for j in range(i)]
    assert uniformity(x) == pytest.approx(float(np.log(np.mean(pairs))), rel=1e-5)


def test_as_a_callback_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    monitor = gate_runner.Monitor("digits", every=2, budget=None, output=tmp_path / "run", limit=40)

    class Learns(Model):
        def forward(self, images: Tensor, labels: Tensor) -> Any:
            return {"loss": nn.functional.cross_entropy(super().forward(images), labels)}

    rows = [{"images": torch.randn(3, 16, 16), "labels": torch.tensor(index % 4)} for index in range(8)]
    how = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=4, per_device_train_batch_size=2, report_to=[], save_strategy="no",
        use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    transformers.Trainer(Learns(), how, train_dataset=rows, callbacks=[monitor.transformers()]).train()
    assert [reading.step for reading in monitor.readings] == [0, 2, 4]


@pytest.mark.filterwarnings("ignore")  # Lightning's own
def test_as_a_callback_of_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    monitor = gate_runner.Monitor(
        "digits", every=2, budget=None, output=tmp_path / "run", limit=40, pick=lambda module: module.model
    )

    class Learns(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, index: int) -> Tensor:
            loss: Tensor = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(torch.randn(8, 3, 16, 16), torch.arange(8) % 4)
    trainer = lightning.Trainer(
        max_steps=4, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[monitor.lightning()],
    )  # fmt: skip
    trainer.fit(Learns(), torch.utils.data.DataLoader(data, batch_size=2))
    assert [reading.step for reading in monitor.readings] == [0, 2, 4]


def test_names_are_checked_at_the_door() -> None:
    with pytest.raises(UsageError, match="nearest: digits"):
        gate_runner.Monitor("digit")
    with pytest.raises(UsageError, match="every must be at least 1"):
        gate_runner.Monitor("digits", every=0)
    assert "digits" in BENCHMARKS
