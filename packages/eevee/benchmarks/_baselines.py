"""Plain predictors and a plain choice of benchmarks, for comparison, on standardised rows."""

from __future__ import annotations

import numpy as np

from eevee import standardise

RANK = 4
NEIGHBOURS = 3


def medoids(table, k):
    """Benchmarks nearest to the middles of k clusters of benchmarks, by one minus the absolute correlation."""
    z = standardise(table).values
    distance = 1 - np.abs(z.T @ z) / len(z)
    chosen = [int(distance.sum(0).argmin())]
    while len(chosen) < k:  # farthest first, then by turns
        chosen.append(int(distance[chosen].min(0).argmax()))
    for _ in range(50):
        nearest = distance[chosen].argmin(0)
        new = [
            int(members[distance[np.ix_(members, members)].sum(0).argmin()]) if len(members) else old
            for old, members in ((old, np.flatnonzero(nearest == c)) for c, old in enumerate(chosen))
        ]
        if new == chosen:
            break
        chosen = new
    return tuple(sorted(set(chosen)))


def ppca(data, candidate, rows):
    """Probabilistic PCA of the table (closed form, rank 4), conditioned on the given columns."""
    z = data.values
    n, p = z.shape
    values, vectors = np.linalg.eigh(z.T @ z / n)
    rank = min(RANK, len(data.metric_columns(candidate)))
    noise = max(values[:-rank].sum() / (p - rank), 1e-6)
    loading = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:] - noise, 0))
    columns = data.metric_columns(candidate)
    own = loading[columns]
    return np.nan_to_num(rows[:, columns]) @ np.linalg.solve(
        own @ own.T + noise * np.eye(len(columns)), own @ loading.T
    )


def soft_impute(data, candidate, rows, rounds=25):
    """Completion of table and new rows by soft-thresholded singular values; the threshold by cells kept out."""
    columns = data.metric_columns(candidate)
    new = np.full_like(rows, np.nan)
    new[:, columns] = rows[:, columns]
    table_and_new = np.vstack([np.where(data.mask, data.values, np.nan), new])
    generator = np.random.default_rng(0)
    hidden = (generator.random(table_and_new.shape) < 0.1) & ~np.isnan(table_and_new)

    def complete(x, threshold):
        measured = ~np.isnan(x)
        z = np.nan_to_num(x)
        for _ in range(rounds):
            u, s, v = np.linalg.svd(z, full_matrices=False)
            low = (u * np.maximum(s - threshold, 0)) @ v
            z = np.where(measured, x, low)
        return low

    top = np.linalg.svd(np.nan_to_num(table_and_new), compute_uv=False)[0]
    grid = [top * f for f in (0.05, 0.1, 0.2)]
    masked = np.where(hidden, np.nan, table_and_new)
    off = [np.mean((complete(masked, t) - table_and_new)[hidden] ** 2) for t in grid]
    return complete(table_and_new, grid[int(np.argmin(off))])[len(data.values) :]


def knn(data, candidate, rows):
    """Mean of the three models that are nearest on the given columns."""
    columns = data.metric_columns(candidate)
    distance = ((np.nan_to_num(rows[:, None, columns]) - data.values[None, :, columns]) ** 2).sum(-1)
    nearest = np.argsort(distance, axis=1)[:, :NEIGHBOURS]
    return data.values[nearest].mean(1)
