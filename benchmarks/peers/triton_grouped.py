"""A grouped product in Triton, as a peer: rows of tokens that are sorted by
their group, a bf16 weight for each group.

D[r] = A[r] B[g]^T for the rows r of group g, which ends before row ends[g]. A
program computes a tile of one group. It finds its group by itself: it counts
the tiles of rows of all groups, which is cheap beside the product as long as
there are some hundred groups. The grid has as many programs as the worst sizes
would need; programs without a tile return.
"""
import torch
import triton
import triton.language as tl

# (rows, columns, k of a tile, warps, stages) to choose from, by the rows that
# a group has on average: at most the key.
CANDIDATES = {
    16: [(16, 64, 128, 4, 4), (16, 128, 128, 4, 4), (16, 128, 64, 4, 5)],
    32: [(32, 64, 128, 4, 4), (32, 128, 64, 4, 4)],
    64: [(64, 128, 64, 4, 4), (32, 128, 64, 4, 4)],
    128: [(64, 256, 64, 8, 3), (128, 128, 64, 8, 3)],
    1 << 30: [(128, 256, 64, 8, 3), (128, 128, 64, 8, 4)],
}


@triton.jit
def grouped_kernel(a, b, d, ends, groups, n, k, GROUPS: tl.constexpr,
                   ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                   DEPTH: tl.constexpr):
    tiles_of_columns = tl.cdiv(n, COLUMNS)
    tile_of_rows = tl.program_id(0) // tiles_of_columns
    tile_of_columns = tl.program_id(0) % tiles_of_columns
    # The tiles of rows that each group has, and those up to its end.
    index = tl.arange(0, GROUPS)
    end = tl.load(ends + index, mask=index < groups, other=0)
    begin = tl.load(ends + index - 1, mask=(index > 0) & (index < groups),
                    other=0)
    tiles = (end - begin + ROWS - 1) // ROWS
    upto = tl.cumsum(tiles, 0)
    group = tl.sum((upto <= tile_of_rows).to(tl.int32), 0)
    if group < groups:
        mine = index == group
        before = tl.sum(tl.where(mine, upto - tiles, 0), 0)
        last = tl.sum(tl.where(mine, end, 0), 0)
        first = tl.sum(tl.where(mine, begin, 0), 0)
        rows = first + (tile_of_rows - before) * ROWS + tl.arange(0, ROWS)
        columns = tile_of_columns * COLUMNS + tl.arange(0, COLUMNS)
        depths = tl.arange(0, DEPTH)
        is_row, is_column = rows < last, columns < n
        of_a = a + rows.to(tl.int64)[:, None] * k + depths[None, :]
        of_b = (b + group.to(tl.int64) * n * k +
                columns.to(tl.int64)[None, :] * k + depths[:, None])
        sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for at in range(0, k, DEPTH):
            is_depth = at + depths < k
            x = tl.load(of_a, mask=is_row[:, None] & is_depth[None, :],
                        other=0.0)
            y = tl.load(of_b, mask=is_column[None, :] & is_depth[:, None],
                        other=0.0)
            sums = tl.dot(x, y, sums)
            of_a += DEPTH
            of_b += DEPTH
        of_d = d + rows.to(tl.int64)[:, None] * n + columns[None, :]
        tl.store(of_d, sums.to(d.dtype.element_ty),
                 mask=is_row[:, None] & is_column[None, :])


def grouped(a, b, ends, config):
    """D of a (rows, k), b (groups, n, k) and int32 ends (groups)."""
    rows, columns, depth, warps, stages = config
    groups, n, k = b.shape
    d = torch.empty((a.shape[0], n), device=a.device, dtype=a.dtype)
    most_tiles = triton.cdiv(a.shape[0], rows) + groups
    grid = (most_tiles * triton.cdiv(n, columns),)
    grouped_kernel[grid](a, b, d, ends, groups, n, k,
                         GROUPS=triton.next_power_of_2(groups), ROWS=rows,
                         COLUMNS=columns, DEPTH=depth, num_warps=warps,
                         num_stages=stages)
    return d


def candidates_of(rows, groups):
    """Configs for so many rows of so many groups that have any."""
    return next(configs for most, configs in CANDIDATES.items()
                if rows / max(1, groups) <= most)


def fastest_of(a, b, ends, configs):
    """The config that takes least time here; seconds for each that was never
    compiled. Errors: RuntimeError if none works."""
    times = {}
    for config in configs:
        try:
            grouped(a, b, ends, config)
            begin, end = (torch.cuda.Event(enable_timing=True)
                          for _ in range(2))
            begin.record()
            for _ in range(3):
                grouped(a, b, ends, config)
            end.record()
            torch.cuda.synchronize()
            times[config] = begin.elapsed_time(end)
        except triton.runtime.errors.OutOfResources:
            continue
    if not times:
        raise RuntimeError("no config of the Triton kernel fits")
    return min(times, key=times.get)
