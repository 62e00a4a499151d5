"""From sums over all pairs and over the close list to the terms of the objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqsim.residuals import PairSums, Terms, margin_mean

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.objective import Objective


def sided_terms(objective: Objective, sums: PairSums, count: int) -> Terms:
    """Return v2's terms of the objective's sides from sums over `count` pairs."""
    zero = sums.v1 * 0.0
    term = {
        "text": margin_mean(sums.text, count, objective.margin, objective.margin_mode),
        "image": margin_mean(sums.image, count, objective.margin, objective.margin_mode),
    }
    text, image = (term[side] if side in objective.sides else zero for side in ("text", "image"))
    return Terms(zero, text, image, zero)


def assemble_terms(
    objective: Objective,
    n: int,
    everything: PairSums | None,
    listed: tuple[PairSums, Float[Tensor, ""], Int[Tensor, ""]] | None,
    list_length: int = 0,
) -> Terms:
    """Combine sums into terms.

    Args:
        objective: what is minimised.
        n: samples in the whole batch.
        everything: sums over all n (n - 1) ordered pairs, where the objective needs them.
        listed: sums over the close list, a^2 over the set of its pairs, and the size of that set (`listed_sums`).
        list_length: pairs in the list, duplicates counted.

    Returns:
        The terms. Numerics: hybrid's distant sum is the sum over all pairs less the sum over the close ones, so its
        relative error grows where close pairs carry nearly all of sum a^2.
    """
    if objective.mode != "hybrid":
        sums, count = (listed[0], list_length) if listed is not None else (everything, n * (n - 1))
        if sums is None:
            msg = "neither sums over all pairs nor sums over a list were given"
            raise ValueError(msg)
        if objective.mode == "v2":
            return sided_terms(objective, sums, count)
        v1 = margin_mean(sums.v1, count, objective.margin_v1, objective.margin_mode)
        zero = sums.v1 * 0.0
        return Terms(v1, zero, zero, zero)
    if everything is None or listed is None:
        msg = "the hybrid needs sums over all pairs and over the close list"
        raise ValueError(msg)
    sums, close_v1, close_count = listed
    count_v1 = n * (n - 1) - close_count if objective.distant_reduction == "mean" else n * n
    v1 = margin_mean(everything.v1 - close_v1, count_v1, objective.margin_v1, objective.margin_mode)
    close = sided_terms(objective, sums, list_length)
    return Terms(v1, close.v2_text, close.v2_image, close.relative)
