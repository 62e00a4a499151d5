"""The same from Python: an encoder that is an object, and functions that take runs or folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import gate_runner
from gate_runner.errors import UsageError
from gate_runner.runs import Result
from gate_runner.runs.observers import Observer

from ._folders import write_run

DIGITS = replace(
    gate_runner.BENCHMARKS["digits"], training={"lr": 1e-2, "steps": 6, "batch_size": 32, "validate_every": 3}
)


class Tiny(nn.Module):
    """A model of the user's own, in the middle of its training."""

    image_size = 32

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.mix = nn.Conv2d(3, 6, 4, stride=4)
        self.norm = nn.BatchNorm2d(6)
        with torch.no_grad():
            self.mix.weight.copy_(torch.randn(self.mix.weight.shape, generator=generator))
            self.mix.bias.zero_()  # type: ignore[union-attr]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.norm(self.mix(images)).flatten(1)


class Text:
    """Not a module, and all that pairs need."""

    image_size = 32

    def encode_image(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))

    def encode_text(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([[len(text), text.count("e"), 1.0] for text in texts])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_module_is_scored_and_left_as_it_was_found() -> None:
    model = Tiny().train()
    model.mix.bias.requires_grad_(False)  # type: ignore[union-attr]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    done = gate_runner.run(DIGITS, encoder=model, limit=60, show=False)
    (result,) = done
    assert (result.status, result.encoder["spec"], done.folder) == ("ok", "Tiny", Path("runs/Tiny-limit60"))
    assert result.encoder["fingerprint"]
    assert len(done) == 1
    assert done.failed == ()
    assert model.training
    assert model.norm.training
    assert model.mix.weight.requires_grad
    assert not model.mix.bias.requires_grad  # type: ignore[union-attr]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_other_weights_do_not_continue_the_folder() -> None:
    gate_runner.run(DIGITS, encoder=Tiny(0), output="mine", limit=40, show=False)
    again = gate_runner.run(DIGITS, encoder=Tiny(0), output="mine", limit=40, show=False)
    assert len(again) == 1
    with pytest.raises(UsageError, match="holds a run with encoder"):
        gate_runner.run(DIGITS, encoder=Tiny(1), output="mine", limit=40, show=False)
    with pytest.raises(UsageError, match=r"with encoder '.*Tiny.*', not 'micro-clip'; choose another --output"):
        gate_runner.run(DIGITS, encoder="micro-clip", output="mine", limit=40, show=False)


def test_an_object_with_a_text_side_and_a_failing_benchmark() -> None:
    done = gate_runner.run(
        ["pairs", gate_runner.BENCHMARKS["ade20k"]], encoder=Text(), name="words", limit=12, show=False
    )
    passed, failed = done
    assert (passed.status, failed.status) == ("ok", "failed")
    assert done.failed == (failed,)
    assert passed.encoder["spec"] == "words"
    table = done._repr_html_()
    assert f"{passed.scores[0].value:.3f}" in table
    assert "synthetic stand-in" in table
    assert "gives pooled features only" in table


def test_observers_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    names: list[str] = []

    class Watcher(Observer):
        def finished(self, result: Result) -> None:
            names.append(result.name)

    gate_runner.run(DIGITS, encoder=Tiny(), limit=40, show=False, observers=[Watcher()])
    assert names == ["digits"]
    assert capsys.readouterr().out == ""
    gate_runner.run(DIGITS, encoder=Tiny(), limit=40, output="shown")
    assert "digits" in capsys.readouterr().out


def test_an_observer_that_fails_is_warned_about_and_the_run_goes_on() -> None:
    class Broken(Observer):
        calls = 0

        def planned(self, parts: object) -> None:
            self.calls += 1
            raise ConnectionError("no network")

        def finished(self, result: Result) -> None:
            self.calls += 1

    broken = Broken()
    with pytest.warns(RuntimeWarning, match="Broken failed and is told nothing more: ConnectionError: no network"):
        (result,) = gate_runner.run(DIGITS, encoder=Tiny(), limit=40, show=False, observers=[broken])
    assert result.status == "ok"
    assert broken.calls == 1


def test_runs_and_folders_can_be_compared_reported_and_forecast(tmp_path: Path) -> None:
    weak = write_run(tmp_path / "w", {"cifar100": 0.3, "ade20k": 0.3, "mini": 0.3}, encoder="weak")
    strong = write_run(tmp_path / "s", {"cifar100": 0.9, "ade20k": 0.8, "mini": 0.9}, encoder="strong")
    comparison = gate_runner.compare(gate_runner.Run(weak, ()), str(strong), permutations=999)
    assert isinstance(comparison, gate_runner.Comparison)
    assert {contrast.verdict for contrast in comparison.contrasts} == {"better"}
    page = gate_runner.report(weak, strong, output=tmp_path / "new" / "page.html", pictures=0)
    assert (tmp_path / "new" / "page.html").read_text() == page
    assert gate_runner.report(weak, form="csv").startswith("run,benchmark")
    assert gate_runner.forecast(gate_runner.Run(strong, ())).model == "strong"


def test_a_plan_of_an_object() -> None:
    planned = gate_runner.plan(DIGITS, encoder=Tiny(), limit=60)
    assert isinstance(planned, gate_runner.Plan)
    assert [part.name for part in planned.parts] == ["digits"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gate_runner.run("digit"), "nearest: digits"),
        (lambda: gate_runner.run("digits", encoder="micro-clop"), "nearest: micro-clip"),
        (lambda: gate_runner.run("digits", encoder=3), "is a int without encode_image"),
        (lambda: gate_runner.run("digits", name="mine"), "name 'mine' is for encoders that are objects"),
        (lambda: gate_runner.run(DIGITS, encoder=Tiny(), isolate="worker"), "runs in this process only"),
        (lambda: gate_runner.run("digits", trackers=["tensorbord"]), "nearest: tensorboard"),
        (lambda: gate_runner.report(), "expected at least one"),
        (lambda: gate_runner.report("nowhere", form="pdf"), "not 'pdf'"),
        (lambda: gate_runner.compare("nowhere"), "nowhere is not a folder"),
        (lambda: gate_runner.forecast("nowhere"), "nowhere is not a folder"),
    ],
)
def test_mistakes_are_shown_before_anything_is_written(call: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        call()  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_is_there() -> None:
    for name in gate_runner.__all__:
        assert getattr(gate_runner, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = gate_runner.runn
