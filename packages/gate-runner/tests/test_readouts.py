"""Read-outs: one pass gives every block, the choice sees no test label, and what is not there is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import gate_runner
from gate_data.data import Data
from gate_runner.benchmarks import find_benchmark, resolve
from gate_runner.errors import UsageError
from gate_runner.tasks import Job, run_task
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.own import adopt


class Forgetful(nn.Module):
    """Blocks that keep an image's thumbnail, and an output that keeps its brightness alone."""

    image_size = 8

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Conv2d(3, 3, 1) for _ in range(2)))
        for block in self.blocks:
            block.weight.data[:, :, 0, 0] = torch.eye(3)
            block.bias.data.zero_()

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images).mean(dim=(1, 2, 3))[:, None] * 0 + 1.0


@pytest.mark.parametrize("spec", ["micro-clip", "timm:vit_tiny_patch16_224/random", "timm:resnet18/random"])
def test_one_pass_gives_what_single_passes_give(spec: str) -> None:
    encoder = load_encoder(spec)
    size = encoder.image_size
    images = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    blocks = encoder.encode_blocks(images)
    pooled = encoder.encode_image(images)
    bound = 64 * torch.finfo(torch.float32).eps * float(pooled.abs().max())
    assert torch.allclose(blocks.pooled, pooled, atol=bound)
    if encoder.backbone is not None:
        assert blocks.backbone is not None
        assert torch.allclose(blocks.backbone, encoder.encode_backbone(images), atol=bound * 10)
    rows = encoder.encode_readouts(images)
    assert rows.shape == (2, sum(encoder.readouts().values()))
    assert torch.equal(rows[:, : pooled.shape[1]], blocks.pooled)


def test_hooks_see_what_a_tower_itself_says() -> None:
    """The blocks of any module, against open_clip's own forward_intermediates."""
    from vision_features.encoders.blocks import by_hooks

    encoder = load_encoder("micro-clip")
    assert encoder.module is not None
    hooked = by_hooks(encoder.module.visual, encoder.image)
    assert hooked is not None
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    prepared = encoder.prepare(images)
    with torch.inference_mode():
        ours, theirs = hooked(prepared), encoder.blocks(prepared)
    assert len(ours.blocks) == len(theirs.blocks) == 4
    for block, other in zip(ours.blocks, theirs.blocks, strict=True):
        assert block.grid == other.grid == (8, 8)
        assert torch.allclose(block.places, other.places, atol=1e-5)
        assert torch.allclose(block.cls, other.cls, atol=1e-5)


def _colours(seed: int = 0) -> Data[Tensor]:
    """Two hundred images of four colours."""
    from gate_data.data import Split

    generator = torch.Generator().manual_seed(seed)
    parts = []
    for count in (120, 40, 80):
        targets = torch.randint(0, 4, (count,), generator=generator)
        means = torch.tensor([[60.0, 60, 180], [180, 60, 60], [60, 180, 60], [120, 120, 120]])[targets]
        noise = torch.randn(count, 3, 8, 8, generator=generator) * 10
        parts.append(Split((means[:, :, None, None] + noise).clamp(0, 255).to(torch.uint8), targets))
    return Data(parts[0], parts[1], parts[2], ("a", "b", "c", "d"))


def _job(encoder: Encoder, name: str, data: Data[Tensor]) -> Job:
    return Job(encoder, find_benchmark(name), data)


@pytest.mark.parametrize("task", ["", "knn,", "image-retrieval,", "clustering,"])
def test_the_choice_finds_the_block_that_knows_and_looks_at_no_test_label(task: str) -> None:
    encoder = adopt(Forgetful(), "forgetful")
    data = _colours()
    outcome = run_task(_job(encoder, f"digits@{task}readout=auto", data))
    last = run_task(_job(encoder, f"digits@{task}".rstrip(",@"), data))
    assert outcome.scores[0].value > last.scores[0].value + 0.2
    about = outcome.training["readout"]
    assert "block:" in about["chosen"] or about["chosen"] == "concat"
    assert about["chosen"].startswith("block:") == bool(task)  # a linear probe has the last output, too
    assert about["worth"][about["chosen"]] == max(about["worth"].values())
    if task in ("", "image-retrieval,"):
        gain, low, high = about["against_last"]
        assert gain == pytest.approx(about["worth"][about["chosen"]] - about["worth"]["last"], abs=1e-6)
        assert 0 < low < gain < high
    other = replace(
        data.test, targets=data.test.targets[torch.randperm(80, generator=torch.Generator().manual_seed(1))]
    )
    shuffled = run_task(_job(encoder, f"digits@{task}readout=auto", replace(data, test=other)))
    assert shuffled.training["readout"]["worth"] == about["worth"]


def test_all_scores_every_read_out_and_chooses_as_auto_does(tmp_path: Path) -> None:
    names = ["digits@readout=auto", "digits@readout=all", "digits@readout=block:2/mean/z"]
    done = gate_runner.run(names, encoder="micro-dense", output=tmp_path / "r", limit=30, show=False)
    auto, every, second = done.results
    assert [result.name for result in done.results] == names
    assert auto.scores[0].value == every.scores[0].value
    tested = {row["readout"]: row["acc@1"] for row in every.training["readout"]["tested"]}
    assert {"last", "before-projection", "block:1/cls", "block:3/mean"} <= set(tested)
    assert tested[every.training["readout"]["chosen"]] == auto.scores[0].value
    assert second.training["features"] == "block:2/mean/z"
    page = gate_runner.report(done, pictures=0, tests=False)
    assert page.count('<th scope="col" class="num">worth without test labels</th>') == 2
    assert f"{every.training['readout']['chosen']} (chosen)" in page
    drawn = re.findall(r"worth of read-outs over depth</title>.*?</svg>", page, re.DOTALL)
    pooled = [sum("block:" in name for name in done.training["readout"]["worth"]) for done in (auto, every)]
    assert [picture.count("<circle") for picture in drawn] == [count + 1 for count in pooled]  # and the chosen one
    assert auto.memory["encoded"] + every.memory["encoded"] + second.memory["encoded"] <= 3 * 30  # one pass for all


def test_a_block_beside_the_last_output_is_both() -> None:
    """Columns of joined read-outs against those of their parts, cut by hand."""
    from gate_runner.tasks.readout_selection import read_rows

    encoder, data = load_encoder("micro-dense/random"), _colours()
    rows = {}
    for name in ("last", "block:2/cls", "block:2/mean", "last+block:2/cls+mean", "concat"):
        job = _job(encoder, f"digits@readout={name}", data)
        job = replace(job, benchmark=replace(job.benchmark, training={**job.training, "readout": name}))
        rows[name] = read_rows(job, data.test, "test")[:]
    parts = [rows[name] for name in ("last", "block:2/cls", "block:2/mean")]
    assert torch.equal(rows["last+block:2/cls+mean"], torch.cat(parts, dim=1))
    everything = encoder.encode_readouts(data.test.images)
    before = encoder.readouts()["last"], encoder.readouts()["before-projection"]
    expected = torch.cat([everything[:, : before[0]], everything[:, sum(before) :]], dim=1)
    assert rows["concat"].shape == expected.shape
    assert torch.allclose(rows["concat"], expected, atol=1e-4 * float(expected.abs().max()))


def test_features_in_fewer_bytes_are_an_axis_too() -> None:
    """Of two blocks of three channels each, all codes tell four colours apart but one bit, which still beats chance."""
    encoder = adopt(Forgetful(), "forgetful")
    scores = {
        code: run_task(_job(encoder, f"digits@readout=block:1/mean/{code}", _colours())).scores[0].value
        for code in ("float16", "int8", "pca2", "binary")
    }
    assert min(scores[code] for code in ("float16", "int8", "pca2")) > 0.9
    assert scores["binary"] > 0.5
    with pytest.raises(UsageError, match=r"read-out 'block:1/mean/dims9': code 'dims9': there are 3 channels"):
        run_task(_job(encoder, "digits@readout=block:1/mean/dims9", _colours()))


def test_what_cannot_be_read_is_said(caplog: pytest.LogCaptureFixture) -> None:
    plain = Encoder("channel means", image_size=8, image=lambda images: images.mean(dim=(2, 3)))
    outcome = run_task(_job(plain, "digits@readout=auto", _colours()))
    assert outcome.training["readout"]["chosen"] == "last"
    assert "channel means shows no blocks" in outcome.training["readout"]["note"]
    assert "digits@readout=auto: channel means shows no blocks: its last output was taken" in caplog.text
    with pytest.raises(UsageError, match=r"no read-out 'block:7/cls'; it has: last, block:1/mean"):
        run_task(_job(adopt(Forgetful(), "forgetful"), "digits@readout=block:7/cls", _colours()))
    with pytest.raises(UsageError, match="'block:0/mean' is no read-out; expected auto"):
        gate_runner.run("digits", readout="block:0/mean", show=False)
    with pytest.raises(UsageError, match="--readout does not apply to 'zero-shot'"):
        gate_runner.run("zero-shot", readout="auto", show=False)
    with pytest.raises(UsageError, match="--readout is of frozen encoders"):
        gate_runner.run("digits", readout="auto", shots="5", show=False)


def test_a_learned_query_is_a_read_out_of_a_block() -> None:
    encoder = adopt(Forgetful(), "forgetful")
    job = _job(encoder, "digits@readout=block:1/attentive", _colours())
    short = replace(job.benchmark, training={**job.training, "steps": 100, "validate_every": 50, "lr": 0.02})
    outcome = run_task(replace(job, benchmark=short))
    assert outcome.training["head_parameters"] > 2 * encoder.readouts()["block:1/mean"] ** 2
    assert outcome.scores[0].value > 0.8
    with pytest.raises(UsageError, match="so no block:99/attentive"):
        run_task(_job(encoder, "digits@readout=block:99/attentive", _colours()))
    with pytest.raises(UsageError, match="--readout block:1/attentive does not apply to 'chestxray14'"):
        gate_runner.run("chestxray14", readout="block:1/attentive", show=False)
    with pytest.raises(UsageError, match="'block:1/attentive/z' is no read-out"):
        gate_runner.run("digits", readout="block:1/attentive/z", show=False)


def test_a_stand_ins_variant_goes_by_the_name_of_the_stand_in() -> None:
    """As results print it: it was an unknown benchmark."""
    variants = resolve(["micro/cifar100@readout=last", "micro/cifar100@knn"])
    assert [variant.id for variant in variants] == ["cifar100@readout=last", "cifar100@knn"]
    assert {tuple(variant.sources) for variant in variants} == {("micro",)}
