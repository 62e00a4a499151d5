"""Read-outs of maps and boxes: which block's places a dense head is trained on, and the one that does best."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gate_data.data import Data, Split
from gate_runner.benchmarks import find_benchmark
from gate_runner.errors import UsageError
from gate_runner.tasks import dense_readouts
from gate_runner.tasks.job import Job
from vision_adapters.losses import IGNORED
from vision_features.encoders import load_encoder
from vision_features.encoders.blocks import Block, Blocks
from vision_features.encoders.encoder import Encoder, PatchFeatures


def scenes(count: int, seed: int) -> Split:
    """Images of 4 x 4 cells of one of three colours, and maps of which colour is where; a few pixels do not count."""
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randint(0, 3, (count, 4, 4), generator=generator)
    maps = cells.repeat_interleave(8, 1).repeat_interleave(8, 2)
    images = (F.one_hot(maps, 3).permute(0, 3, 1, 2) * 200).to(torch.uint8)
    maps[:, :2] = IGNORED
    return Split(images, maps)


def toy() -> Encoder:
    """Of two blocks the first sees colours in a finer grid; what comes last is the same everywhere."""

    def blocks(images: Tensor) -> Blocks:
        fine = F.adaptive_avg_pool2d(images, 8).flatten(2).transpose(1, 2)
        flat = torch.ones(len(images), 16, 3)
        return Blocks(images.mean((2, 3)), None, (Block(None, fine, (8, 8)), Block(None, flat, (4, 4))))

    return Encoder(
        spec="toy",
        image_size=32,
        image=lambda images: images.mean((2, 3)),
        patches=lambda images: PatchFeatures(torch.ones(len(images), 16, 3), (4, 4)),
        blocks=blocks,
    )


def job_of(encoder: Encoder, readout: str) -> Job:
    data = Data(scenes(60, 0), scenes(30, 1), scenes(5, 2), ("red", "green", "blue"))
    benchmark = find_benchmark("ade20k")
    return Job(encoder, replace(benchmark, training={**benchmark.training, "readout": readout}), data)


def test_the_block_that_tells_what_is_where_is_worth_most() -> None:
    worth = {name: judged.score for name, judged in dense_readouts.worth(job_of(toy(), "auto")).items()}
    assert list(worth) == ["last", "block:1/places", "block:2/places"]
    assert worth["block:1/places"] > 0.99
    assert max(worth["last"], worth["block:2/places"]) < 0.6


def test_rows_are_the_blocks_own_tokens() -> None:
    encoder = load_encoder("micro-clip")
    job = job_of(encoder, "block:2/places")
    backbone = dense_readouts.backbone_of(job)
    expected = encoder.encode_blocks(torch.as_tensor(job.data.test.images)).blocks[1]
    assert backbone.grid == expected.grid
    assert torch.allclose(torch.as_tensor(backbone.rows("test")[:]), expected.places, atol=1e-5)


def test_boxes_say_which_class_is_at_a_place() -> None:
    class Objects:
        def __len__(self) -> int:
            return 2

        def padded(self) -> Tensor:  # label, centre to the right, centre down, width, height
            return torch.tensor([[[1.0, 0.25, 0.75, 0.5, 0.5]], [[-1.0, 0.5, 0.5, 1.0, 1.0]]])

    split = Split(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), Objects())  # type: ignore[type-var]
    middle = torch.tensor([[0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]).expand(2, 3, 2)  # down, to the right
    assert dense_readouts._at(split, torch.tensor([0, 1]), middle).tolist() == [[2, 0, 0], [0, 0, 0]]


def test_metres_that_were_not_measured_do_not_count() -> None:
    features = torch.linspace(0, 1, 40)[:, None]
    metres = torch.exp(features[:, 0])
    metres[::4] = 0.0
    assert dense_readouts._told(features, metres) > 0.99


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits@readout=block:1/places", "block:1/places does not apply to 'digits'"),
        ("ade20k@readout=block:1/mean", "block:1/mean does not apply to 'ade20k'"),
        ("ade20k@readout=block:1/attentive", "does not apply to 'ade20k'"),
    ],
)
def test_what_does_not_apply_is_refused(name: str, message: str) -> None:
    from gate_runner.benchmarks import resolve

    with pytest.raises(UsageError, match=message):
        resolve([name])


def test_a_block_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="has 2 blocks, so no block:9/places"):
        dense_readouts.backbone_of(job_of(toy(), "block:9/places"))
    for name in ("ade20k", "acdc", "nyu-depth", "odinw-shapes"):
        assert find_benchmark(f"{name}@readout=block:1/places").training["readout"] == "block:1/places"


def test_an_open_clip_model_takes_pictures_of_another_size(tmp_path: Path) -> None:
    import open_clip

    side = {"width": 32, "layers": 1, "heads": 2}
    vision = {"image_size": 32, "patch_size": 16, "head_width": 16, "width": 32, "layers": 1}
    config = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": {"context_length": 77, "vocab_size": 49408, **side}}
    (tmp_path / "tiny-of-two-sizes.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path)
    own = load_encoder("open_clip:tiny-of-two-sizes/random")
    assert own.module is not None
    torch.save(own.module.state_dict(), tmp_path / "weights.pt")
    larger = load_encoder(f"open_clip:tiny-of-two-sizes@64/{tmp_path / 'weights.pt'}")
    assert (own.image_size, larger.image_size) == (32, 64)
    assert larger.encode_patches(torch.zeros(1, 3, 64, 64, dtype=torch.uint8)).grid == (4, 4)
    assert torch.equal(larger.encode_text(["a cat"]), own.encode_text(["a cat"]))
