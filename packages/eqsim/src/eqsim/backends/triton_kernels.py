"""Triton kernels of the tiled pass. Import this module only where triton is installed.

Every program owns a block of rows i and walks over all columns j, forming x_ij = image_i . text_j and
y_ij = image_j . text_i together. All that belongs to i (the log-sum-exp of row i over x and of column i over y, its
share of the sums) is then whole within one program: no atomics, and the same result every time. The gradient kernel
writes the gradients of x and y for a strip of rows, which two matrix products turn into feature gradients.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
# Triton reads a kernel's annotations itself: only tl.constexpr may stand there.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _scores(
    image,
    text,
    rows,
    columns,
    n,
    d,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Dot products x_ij = image_i . text_j and y_ij = image_j . text_i of a tile, accumulated in float32 or float64."""
    wide = tl.float64 if image.dtype.element_ty == tl.float64 else tl.float32
    x = tl.zeros((BLOCK_M, BLOCK_N), dtype=wide)
    y = tl.zeros((BLOCK_M, BLOCK_N), dtype=wide)
    for start in range(0, d, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        own = (rows[:, None] < n) & (k[None, :] < d)
        other = (k[:, None] < d) & (columns[None, :] < n)
        at_rows = rows[:, None].to(tl.int64) * d + k[None, :]
        at_columns = columns[None, :].to(tl.int64) * d + k[:, None]
        image_i = tl.load(image + at_rows, mask=own, other=0.0)
        text_i = tl.load(text + at_rows, mask=own, other=0.0)
        image_j = tl.load(image + at_columns, mask=other, other=0.0)
        text_j = tl.load(text + at_columns, mask=other, other=0.0)
        x = tl.dot(image_i, text_j, acc=x, input_precision="ieee", out_dtype=wide)
        y = tl.dot(text_i, image_j, acc=y, input_precision="ieee", out_dtype=wide)
    return x, y


@triton.jit
def _square(residual, valid):
    """The square of a residual, summed over each row."""
    return tl.sum(tl.where(valid, residual * residual, 0.0), axis=1)


@triton.jit
def _softplus(x):
    """log(1 + e^x) without overflow."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def statistics_kernel(
    image,
    text,
    scale_at,
    bias_at,
    matching,
    running,
    sums,
    n,
    d,
    first_block,
    block_step,
    LSE: tl.constexpr,
    SIGMOID: tl.constexpr,
    V1: tl.constexpr,
    SIDES: tl.constexpr,
    LOGITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Online log-sum-exps (4, n) and the rows' shares of the sums (4, n)."""
    rows = (first_block + tl.program_id(0) * block_step) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = rows < n
    scale = tl.load(scale_at)
    bias = tl.load(bias_at)
    own = tl.load(matching + rows, mask=inside, other=0.0)
    row_max = own * 0.0 - float("inf")
    column_max = own * 0.0 - float("inf")
    row_sum = own * 0.0
    column_sum = own * 0.0
    v1 = own * 0.0
    text_side = own * 0.0
    image_side = own * 0.0
    soft = own * 0.0
    for start in range(0, n, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        valid = inside[:, None] & (columns[None, :] < n)
        x, y = _scores(image, text, rows, columns, n, d, BLOCK_M, BLOCK_N, BLOCK_K)
        if V1 or SIDES > 0:
            a = (x - y) * scale if LOGITS else x - y
            if V1:
                v1 += _square(a, valid)
            if SIDES > 0:
                gap = own[:, None] - tl.load(matching + columns, mask=columns < n, other=0.0)[None, :]
                if SIDES % 2 == 1:
                    text_side += _square(gap - a, valid)
                if SIDES >= 2:
                    image_side += _square(gap + a, valid)
        if LSE:
            x_logits = tl.where(columns[None, :] < n, x * scale, -float("inf"))
            y_logits = tl.where(columns[None, :] < n, y * scale, -float("inf"))
            new_row = tl.maximum(row_max, tl.max(x_logits, axis=1))
            new_column = tl.maximum(column_max, tl.max(y_logits, axis=1))
            row_sum = row_sum * tl.exp(row_max - new_row) + tl.sum(tl.exp(x_logits - new_row[:, None]), axis=1)
            column_sum = column_sum * tl.exp(column_max - new_column) + tl.sum(
                tl.exp(y_logits - new_column[:, None]), axis=1
            )
            row_max = new_row
            column_max = new_column
        if SIGMOID:
            soft += tl.sum(tl.where(valid, _softplus(x * scale + bias), 0.0), axis=1)
    if LSE:
        tl.store(running + rows, row_max, mask=inside)
        tl.store(running + n + rows, row_sum, mask=inside)
        tl.store(running + 2 * n + rows, column_max, mask=inside)
        tl.store(running + 3 * n + rows, column_sum, mask=inside)
    tl.store(sums + rows, v1, mask=inside)
    tl.store(sums + n + rows, text_side, mask=inside)
    tl.store(sums + 2 * n + rows, image_side, mask=inside)
    tl.store(sums + 3 * n + rows, soft, mask=inside)


@triton.jit
def softmax_kernel(
    image,
    text,
    scale_at,
    row_lse,
    matching,
    sums,
    rho,
    diagonal,
    n,
    d,
    first_block,
    block_step,
    V1: tl.constexpr,
    SIDES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The rows' shares of the sums for softmax scores, and of what their gradient needs; each (3, n)."""
    rows = (first_block + tl.program_id(0) * block_step) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = rows < n
    scale = tl.load(scale_at)
    own = tl.load(matching + rows, mask=inside, other=0.0)
    lse_i = tl.load(row_lse + rows, mask=inside, other=float("inf"))
    sum_v1 = own * 0.0
    sum_text = own * 0.0
    sum_image = own * 0.0
    rho_v1 = own * 0.0
    rho_text = own * 0.0
    rho_image = own * 0.0
    pull_text = own * 0.0
    pull_image = own * 0.0
    for start in range(0, n, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        valid = inside[:, None] & (columns[None, :] < n)
        x, y = _scores(image, text, rows, columns, n, d, BLOCK_M, BLOCK_N, BLOCK_K)
        lse_j = tl.load(row_lse + columns, mask=columns < n, other=float("inf"))
        s_x = tl.where(valid, tl.exp(x * scale - lse_i[:, None]), 0.0)
        s_y = tl.where(valid, tl.exp(y * scale - lse_j[None, :]), 0.0)
        a = s_x - s_y
        if V1:
            sum_v1 += _square(a, valid)
            rho_v1 += 4.0 * tl.sum(s_x * a, axis=1)
        if SIDES > 0:
            gap = own[:, None] - tl.load(matching + columns, mask=columns < n, other=0.0)[None, :]
            if SIDES % 2 == 1:
                sum_text += _square(gap - a, valid)
                residual = tl.where(valid, gap - a, 0.0)
                rho_text -= 4.0 * tl.sum(s_x * residual, axis=1)
                pull_text += 4.0 * tl.sum(residual, axis=1)
            if SIDES >= 2:
                sum_image += _square(gap + a, valid)
                residual = tl.where(valid, gap + a, 0.0)
                rho_image += 4.0 * tl.sum(s_x * residual, axis=1)
                pull_image += 4.0 * tl.sum(residual, axis=1)
    tl.store(sums + rows, sum_v1, mask=inside)
    tl.store(sums + n + rows, sum_text, mask=inside)
    tl.store(sums + 2 * n + rows, sum_image, mask=inside)
    tl.store(rho + rows, rho_v1, mask=inside)
    tl.store(rho + n + rows, rho_text, mask=inside)
    tl.store(rho + 2 * n + rows, rho_image, mask=inside)
    tl.store(diagonal + n + rows, pull_text, mask=inside)
    tl.store(diagonal + 2 * n + rows, pull_image, mask=inside)


@triton.jit
def gradient_kernel(
    image,
    text,
    scale_at,
    bias_at,
    matching,
    lse,
    lse_weights,
    sum_weights,
    grad_x_at,
    grad_y_at,
    partial,
    n,
    d,
    first_row,
    last_row,
    LSE: tl.constexpr,
    SIGMOID: tl.constexpr,
    V1: tl.constexpr,
    SIDES: tl.constexpr,
    SCORE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Gradients of x and y for rows first_row to last_row; partial (3, strip, column blocks): scale, bias, matching."""
    strip = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = first_row + strip
    inside = rows < last_row
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = columns < n
    valid = inside[:, None] & real[None, :]
    scale = tl.load(scale_at)
    x, y = _scores(image, text, tl.where(inside, rows, n), columns, n, d, BLOCK_M, BLOCK_N, BLOCK_K)
    x_logits = x * scale
    y_logits = y * scale
    grad_x = x * 0.0
    grad_y = x * 0.0
    slope = x * 0.0
    pull = tl.sum(x * 0.0, axis=1)
    grad_bias = tl.sum(x * 0.0, axis=1)
    if LSE:
        row_i = tl.load(lse + rows, mask=inside, other=float("inf"))[:, None]
        row_j = tl.load(lse + columns, mask=real, other=float("inf"))[None, :]
        column_i = tl.load(lse + n + rows, mask=inside, other=float("inf"))[:, None]
        column_j = tl.load(lse + n + columns, mask=real, other=float("inf"))[None, :]
        row_weight_i = tl.load(lse_weights + rows, mask=inside, other=0.0)[:, None]
        row_weight_j = tl.load(lse_weights + columns, mask=real, other=0.0)[None, :]
        column_weight_i = tl.load(lse_weights + n + rows, mask=inside, other=0.0)[:, None]
        column_weight_j = tl.load(lse_weights + n + columns, mask=real, other=0.0)[None, :]
        s_x = tl.exp(x_logits - row_i)
        s_y = tl.exp(y_logits - row_j)
        grad_x += row_weight_i * s_x + column_weight_j * tl.exp(x_logits - column_j)
        grad_y += row_weight_j * s_y + column_weight_i * tl.exp(y_logits - column_i)
    if V1 or SIDES > 0:
        if SCORE == 2:
            a = s_x - s_y
        elif SCORE == 1:
            a = x_logits - y_logits
        else:
            a = x - y
        if V1:
            slope += 4.0 * tl.load(sum_weights) * a
        if SIDES > 0:
            own = tl.load(matching + rows, mask=inside, other=0.0)
            gap = own[:, None] - tl.load(matching + columns, mask=real, other=0.0)[None, :]
            if SIDES % 2 == 1:
                residual = 4.0 * tl.load(sum_weights + 1) * (gap - a)
                slope -= residual
                pull += tl.sum(tl.where(valid, residual, 0.0), axis=1)
            if SIDES >= 2:
                residual = 4.0 * tl.load(sum_weights + 2) * (gap + a)
                slope += residual
                pull += tl.sum(tl.where(valid, residual, 0.0), axis=1)
        if SCORE == 2:
            grad_x += s_x * slope
            grad_y -= s_y * slope
        elif SCORE == 1:
            grad_x += slope
            grad_y -= slope
    if SIGMOID:
        bias = tl.load(bias_at)
        weight = tl.load(sum_weights + 3)
        gate = weight / (1.0 + tl.exp(-(x_logits + bias)))
        grad_x += gate
        grad_y += weight / (1.0 + tl.exp(-(y_logits + bias)))
        grad_bias += tl.sum(tl.where(valid, gate, 0.0), axis=1)
    grad_scale = tl.sum(tl.where(valid, grad_x * x, 0.0), axis=1)
    grad_x *= scale
    grad_y *= scale
    if SCORE == 0:
        grad_x += slope
        grad_y -= slope
    at = strip[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(grad_x_at + at, grad_x.to(grad_x_at.dtype.element_ty), mask=valid)
    tl.store(grad_y_at + at, grad_y.to(grad_y_at.dtype.element_ty), mask=valid)
    blocks = tl.num_programs(1)
    here = strip * blocks + tl.program_id(1)
    size = (last_row - first_row) * blocks
    tl.store(partial + here, grad_scale, mask=inside)
    tl.store(partial + size + here, grad_bias, mask=inside)
    tl.store(partial + 2 * size + here, pull, mask=inside)
