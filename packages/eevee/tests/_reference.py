"""Slow, obvious definitions in float64, which the package's fast code is compared with."""

from __future__ import annotations

import math

import numpy as np


def ridge_residuals(values, mask, columns, groups, alpha):
    """Refit without each model's group, one target at a time, on the rows where it was measured; predict the group."""
    n, p = values.shape
    out = np.full((n, p), np.nan)
    for i in range(n):
        others = [j for j in range(n) if groups[j] != groups[i]]
        for t in range(p):
            rows = [j for j in others if mask[j, t]]
            x = np.array([[*(values[j, c] if mask[j, c] else 0.0 for c in columns), 1.0] for j in rows])
            x = x.reshape(len(rows), len(columns) + 1)
            y = np.array([values[j, t] for j in rows])
            penalty = np.diag([alpha] * len(columns) + [1e-9])
            coefficients = np.linalg.solve(x.T @ x + penalty, x.T @ y)
            own = np.array([*(values[i, c] if mask[i, c] else 0.0 for c in columns), 1.0])
            out[i, t] = own @ coefficients - values[i, t]
    return out


def spearman(a, b):
    """Correlation of ranks, ties sharing their mean rank."""

    def ranks(x):
        return np.array([sum(y < v for y in x) + (sum(y == v for y in x) - 1) / 2 for v in x])

    ra, rb = ranks(a) - ranks(a).mean(), ranks(b) - ranks(b).mean()
    length = math.sqrt((ra**2).sum() * (rb**2).sum())
    return float((ra * rb).sum() / length) if length else 0.0


def module_scores(x, y, splits, starts, columns, *, epochs, lr, weight_decay, dtype="float32"):
    """Algorithm 1 with a torch module for every split: the held-out mean squared error of each.

    Args:
        x: (models, inputs) standardised inputs of one candidate.
        y: (models, metrics) standardised targets.
        splits: (splits, models), True where held out.
        starts: draws of `eevee.scorers.networks.draw_starts`.
        columns: the candidate's metric columns, which choose the first layer's draws.
    """
    import torch

    scores, dtype = [], getattr(torch, dtype)
    x, y = torch.as_tensor(x, dtype=dtype), torch.as_tensor(y, dtype=dtype)
    for s, held_out in enumerate(torch.as_tensor(splits)):
        hidden = starts.first.shape[-1]
        model = torch.nn.Sequential(
            torch.nn.Linear(len(columns), hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, y.shape[1])
        ).to(dtype)
        with torch.no_grad():
            model[0].weight.copy_(starts.first[s, columns].T / math.sqrt(len(columns)))
            model[0].bias.copy_(starts.first_bias[s] / math.sqrt(len(columns)))
            model[2].weight.copy_(starts.second[s].T / math.sqrt(hidden))
            model[2].bias.copy_(starts.second_bias[s] / math.sqrt(hidden))
        optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
        for _ in range(epochs):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(model(x[~held_out]), y[~held_out]).backward()
            optimiser.step()
        with torch.no_grad():
            scores.append(float(torch.nn.functional.mse_loss(model(x[held_out]), y[held_out])))
    return scores


def gp_residuals(values, mask, columns, groups, kernel):
    """Refit a Gaussian process without each model's group, one target at a time, on the rows where it was measured."""
    a, b, length = kernel
    n, p = values.shape
    x = np.where(mask, values, 0.0)[:, columns]

    def covariance(u, v):
        return 1e3 + a * (u @ v) / len(columns) + b * math.exp(-((u - v) ** 2).sum() / (2 * len(columns) * length))

    out = np.full((n, p), np.nan)
    for i in range(n):
        for t in range(p):
            rows = [j for j in range(n) if groups[j] != groups[i] and mask[j, t]]
            matrix = np.array([[covariance(x[j], x[m]) + (j == m) for m in rows] for j in rows])
            cross = np.array([covariance(x[i], x[j]) for j in rows])
            out[i, t] = cross @ np.linalg.solve(matrix, values[rows, t]) - values[i, t]
    return out
