"""A batch in pieces has the gradients of the whole at once: dropout, negatives, uneven pieces, DDP's calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from eqsim import ClipEqSimLoss, EqSimLoss, Multinomial, SigLipEqSimLoss, backward_in_pieces


class Towers(nn.Module):
    """Two small towers with dropout; a piece is (images, texts)."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.image, self.text = nn.Linear(7, 6).double(), nn.Linear(5, 6).double()
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        self.drop = nn.Dropout(0.3)
        self.synchronised: list[bool] = []
        self._quiet = False

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self._quiet = True
        yield
        self._quiet = False

    def forward(self, piece: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            self.synchronised.append(not self._quiet)
        return self.image(self.drop(piece[0])), self.text(self.drop(piece[1]))


def pieces(negatives: tuple[int, ...] = (0, 0, 0)) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        tuple(torch.randn(n, d, generator=generator, dtype=torch.float64) for n, d in ((size, 7), (size + m, 5)))
        for size, m in zip((4, 1, 3), negatives, strict=True)
    ]


def whole(towers: Towers, parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    features = [towers(part) for part in parts]
    images = torch.cat([image for image, _ in features])
    texts = [text[: len(image)] for image, text in features] + [text[len(image) :] for image, text in features]
    return images, torch.cat(texts)


@pytest.mark.parametrize(
    ("loss", "negatives", "call"),
    [
        (ClipEqSimLoss("hybrid"), (0, 0, 0), {}),
        (ClipEqSimLoss("v1", backend="tiled", pair_weight=0.5), (0, 0, 0), {"close_pairs": torch.tensor([[0, 5]])}),
        (ClipEqSimLoss("v2", hard_weight=0.4), (2, 0, 1), {"negatives_of": torch.tensor([0, 3, 6])}),
        (SigLipEqSimLoss("none"), (0, 0, 0), {}),
        (EqSimLoss("v1"), (0, 0, 0), {}),
    ],
)
def test_gradients_are_those_of_the_whole_batch(loss: nn.Module, negatives: tuple[int, ...], call: dict) -> None:
    outcomes = []
    for in_pieces in (False, True):
        towers, parts = Towers(), pieces(negatives)
        scale, bias = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (3.0, -2.0))
        torch.manual_seed(5)
        if in_pieces:
            values = backward_in_pieces(loss, towers, parts, scale, bias, factor=0.5, **call)
            assert towers.synchronised == [False, False, True]
            assert all(not value.requires_grad for value in values.values())
        else:
            values = loss(*whole(towers, parts), scale, bias, output_dict=True, **call)
            (sum(values.values()) / 2).backward()
        leaves = [*towers.parameters(), scale, bias]
        gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        outcomes.append(([value.detach() for value in values.values()], gradients, torch.rand(3)))
    for ours, theirs in zip(outcomes[1][0] + outcomes[1][1], outcomes[0][0] + outcomes[0][1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert torch.equal(outcomes[0][2], outcomes[1][2]), "random numbers go on where one pass would leave them"


def test_chance_goes_on_from_where_the_whole_batch_leaves_it() -> None:
    """The loss draws pairs between the passes: what the second pass of the pieces draws again must not undo that."""
    states = []
    for in_pieces in (False, True):
        towers, parts, loss = Towers(), pieces(), EqSimLoss("v1", close=Multinomial(2, temperature=0.1))
        torch.manual_seed(5)
        if in_pieces:
            backward_in_pieces(loss, towers, parts, 1.0)
        else:
            loss(*whole(towers, parts)).backward()
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_no_piece_and_a_second_pass_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="pieces is empty"):
        backward_in_pieces(EqSimLoss("v1"), Towers(), [])
    calls = []

    def shrinking(piece: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        calls.append(piece)
        rows = slice(None) if len(calls) <= 3 else slice(1)
        return Towers().image(piece[0])[rows], Towers().text(piece[1])[rows]

    with pytest.raises(ValueError, match=r"piece 0 has features of .* at the second pass: expected"):
        backward_in_pieces(EqSimLoss("v1"), shrinking, pieces())
