"""Our optimisers are torch's, but for the compiler that those import."""

from __future__ import annotations

import pytest
import torch

from vision_adapters.training.optimisers import PlainAdam, PlainAdamW, PlainSGD


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (PlainSGD, torch.optim.SGD, {"momentum": 0.9}),
        (PlainAdam, torch.optim.Adam, {}),
        (PlainAdamW, torch.optim.AdamW, {"weight_decay": 0.3, "betas": (0.8, 0.9)}),
    ],
)
def test_steps_and_states_are_torchs_to_the_bit(ours: type, theirs: type, options: dict[str, object]) -> None:
    trained = []
    for kind in (ours, theirs):
        generator = torch.Generator().manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(3, 2, generator=generator)) for _ in range(3)]
        optimiser = kind([{"params": weights[:1], "lr": 0.2}, {"params": weights[1:2]}], lr=0.1, **options)
        optimiser.add_param_group({"params": weights[2:]})

        def loss(weights: list[torch.nn.Parameter] = weights, optimiser: torch.optim.Optimizer = optimiser) -> object:
            optimiser.zero_grad()
            value = sum(((weight - 1) ** 4).sum() for weight in weights)
            value.backward()
            return value.detach()

        losses = [optimiser.step(loss) for _ in range(3)]
        state = optimiser.state_dict()
        again = kind([{"params": weights[:1]}, {"params": weights[1:2]}, {"params": weights[2:]}], lr=1.0)
        again.load_state_dict(state)
        loss()
        again.step()
        trained.append([*losses, *weights, state["param_groups"], state["state"]])
        assert isinstance(optimiser, theirs)
    torch.testing.assert_close(trained[0], trained[1], rtol=0, atol=0)
