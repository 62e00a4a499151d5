"""Episodes of a trained encoder: each image is encoded once, and the best checkpoints' scores are averaged."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from vision_adapters.episodes import EncodedEpisodes, EpisodeHead, EpisodeRows, PrototypeHead, chosen_classes
from vision_adapters.training import EncoderWithHead, Scale
from vision_adapters.training.predictions import predict


class Counted(EncoderWithHead):
    """Features of numbered samples, which counts how often each is asked for."""

    def __init__(self) -> None:
        super().__init__(EpisodeHead(4, 2, 1), Scale(torch.zeros(4), torch.ones(4)))
        self.features_of = nn.Linear(1, 4, bias=False)
        self.seen: list[int] = []

    def features(self, rows: Tensor) -> Tensor:
        self.seen += rows.flatten().round().int().tolist()
        features: Tensor = self.features_of(rows).sin()
        return features

    def forward(self, rows: Tensor) -> Tensor:
        head: Tensor = self.head(self.features(rows))
        return head


def test_each_image_of_episodes_goes_through_the_encoder_once_for_each_checkpoint() -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(9, 1, generator=generator).round(decimals=3)
    samples = torch.arange(9.0)[:, None] + samples / 10
    episodes = EpisodeRows(samples, torch.randint(1, 9, (12, 2, 3), generator=generator))
    module = Counted().eval()
    states = []
    for _ in range(4):
        for weight in module.parameters():
            weight.data = torch.randn(weight.shape, generator=generator)
        states.append({name: value.clone() for name, value in module.state_dict().items()})
    module.load_state_dict(states[0])
    chosen_by_size = chosen_classes(module, (episodes,), images=5, at_once=7, states=states)
    assert sorted(chosen_by_size) == [1, 3, 4]
    assert Counter(module.seen) == Counter(4 * list(range(1, 9)))
    scores = []
    for state in states:
        module.load_state_dict(state)
        scores.append(module(episodes[:]))
    for size, chosen in chosen_by_size.items():
        assert torch.equal(chosen, torch.stack(scores[:size]).mean(0).argmax(dim=1)), size
    assert len({tuple(chosen_class_name.flatten().tolist()) for chosen_class_name in chosen_by_size.values()}) > 1
    module.load_state_dict(states[0])
    module.seen.clear()
    encoded = EncodedEpisodes(module, (episodes,), images=5, states=states)
    several = [*encoded.scores(7), *encoded.scores(5)]
    assert [len(batch[1]) for batch in several] == [7, 5, 5, 5, 2]
    assert len(module.seen) == 4 * 8  # however often scores are computed
    for size in chosen_by_size:
        mean = torch.stack(scores[:size]).mean(0)
        torch.testing.assert_close(torch.cat([batch[size] for batch in several]), torch.cat([mean, mean]))
    assert torch.equal(chosen_classes(module, (episodes,), images=9, at_once=1)[1], chosen_by_size[1])


class Lazy(Counted):
    """Makes a table at its first call and keeps it, as rotary embeddings do."""

    table: Tensor | None = None

    def features(self, rows: Tensor) -> Tensor:
        if self.table is None:
            self.table = self.features_of.weight.new_ones(4).cos()
        return super().features(rows) * self.table


def test_a_module_can_be_trained_after_its_predictions() -> None:
    episodes = EpisodeRows(torch.arange(9.0)[:, None], torch.ones(2, 2, 3, dtype=torch.long))
    for first in (
        lambda module: chosen_classes(module, (episodes,), images=5, at_once=2),
        lambda module: list(predict(module, (episodes,), lambda scores: scores.argmax(dim=1), 2)),
    ):
        module = Lazy().eval()
        first(module)
        module(episodes[:]).sum().backward()
        assert module.features_of.weight.grad is not None


def test_padding_changes_no_score() -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(1, 3, 4, 6, generator=generator)
    shots = torch.tensor([[[True, True, False, False], [True, False, False, False], [False] * 4]])
    scores = PrototypeHead(6)(samples, shots).detach()
    for query in range(12):
        point = samples.reshape(12, 6)[query]
        for way, count in ((0, 2), (1, 1)):
            distance = (point - samples[0, way, :count].mean(dim=0)).square().sum()
            assert float(scores[0, way, query]) == pytest.approx(-float(distance) / 6, rel=1e-4)
        assert float(scores[0, 2, query]) == float("-inf")
