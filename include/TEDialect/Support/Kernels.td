//===- Kernels.td - every kernel that compiled code may plan --------------===//
//
// This is the only place that lists the kernels: what each computes, its parameters, the
// buffers of a launch, and its limits. The compiler, the runtime, the benchmark and the
// page docs/generated/kernels.md are generated from these rows.
//
// Run scripts/gen_docs.sh after a change.
//
//===----------------------------------------------------------------------===//

include "TEDialect/Support/KernelSchema.td"

def StorageOfValues : Convention<"How values are stored", 1> {
  let Text = [{
    Matrices are dense and row-major. Parameters that end in `_type` are te_rt_dtype,
    those that end in `_scheme` te_rt_scheme. A scaled value is two buffers, its data
    and its scale, and for nv schemes a third, its amax.

    A scaled operand is stored as [outer, contraction] with the contraction axis
    contiguous. For a logical value [rows, cols], axis 1 has (outer, contraction) =
    (rows, cols). Axis 0 has (cols, rows): its bytes are stored transposed. Scales
    are f32 *dequantisation* factors (scale_inv):

      per_tensor      [1]
      block_1x128     [ceil(contraction/128), up(outer, 4)]
      block_128x128   [ceil(outer/128), up(ceil(contraction/128), 4)]

    up(n, m) is n rounded up to a multiple of m. The entries that it adds are padding;
    kernels write zero there.

    mx and nv schemes have 8-bit scales, with a block along the contraction axis:

      mx, axis 1      data [rows, cols], f8E8M0FNU [up(rows, 128), up(cols/32, 4)]
      mx, axis 0      data [rows, cols], f8E8M0FNU [up(rows/32, 4), up(cols, 128)]
      nv              data [outer, contraction] in f4E2M1FN, two a byte, f8E4M3FN
                      [up(outer, 128), up(contraction/16, 4)], and an f32 amax [1]
                      ([rows] when row-scaled, axis 1 only)

    The data of an mx value of axis 0 is *not* transposed. rows and cols are multiples
    of the block. The scale of a square block, mx_32x32 or nv_16x16, is repeated for
    each of its rows (mx, axis 0: columns), so a square scheme reads like its
    one-dimensional one. Padding is zero here too.
  }];
}

def OrdersOfSums : Convention<"Orders of sums", 2> {
  let Text = [{
    The order of a sum decides its last bit, and is the same on every backend.

    A *lane sum* over n elements: lane i of 256 accumulates elements i, i + 256, ... in
    order, from 0. Then acc[i] += acc[i + s] for s = 128, 64, ..., 1 and i < s; the sum
    is acc[0].

    A *sum of exponentials* over n elements reads them once. Run r of 8 consecutive
    elements belongs to lane r mod 256. A lane has a maximum m, from -inf, and a sum s,
    from 0. With m' the maximum of m and a run, and b = m', or 0 if that is -inf, s
    becomes s * exp(m - b), then exp(x - b) of each element of the run is added in
    order, and m becomes m'. Let M be the maximum of all lanes, and B = M, or 0 if that
    is -inf. Each lane has s * exp(m - B), and the lanes are added as those of a lane
    sum. Maxima ignore NaN.

    A *chunk sum* over rows: rows are cut in chunks of 128, each is accumulated in order
    from 0, and the chunks are added in order to 0.

    A *strip sum* over rows: strips of 32 rows are each accumulated in order from 0. The
    strips of each run of 16 are added in order to 0, then the runs.

    Element formulas are those of `lib/Runtime/Core/Math.h` and `Formulas.h`. rn32(x) is x
    rounded to the nearest f32. A NaN is stored as 0x7f in 8-bit floats, as 0x7fff in
    16-bit ones.
  }];
}

def GroupLayouts : Convention<"Groups of rows", 3> {
  let Text = [{
    A *group layout* puts the rows of several groups in one matrix: group g owns rows
    [start_g, start_g + size_g), start_0 = 0, start_{g+1} = start_g + up(size_g,
    alignment). group_sizes is i32[groups], in device memory; rows is a multiple of
    alignment. All other rows are *padding*: they are written as zeros and never read,
    except that the casts of block and mx schemes, which are those of the whole matrix,
    expect zeros there. A negative size counts as 0, and one that does not fit in rows as
    what does fit; the reference backend refuses both.

    Weights of groups are [groups, n, k]. Scaled, they are the `groups` values of shape
    [n, k] one after another, in each of data, scales and amaxes. A kernel with the parameter
    `matrices` does to each matrix of such a stack what its description says of one matrix.
    Every buffer has the data of all matrices one after another, except for skip and rng.
  }];
}

def SkippedCasts : Convention<"Casts that may be skipped", 4> {
  let Text = [{
    `skip` is f32[1] on the device, the last buffer of the casts of weights. If it is
    exactly 1, a launch does not change its outputs, except for amaxes, which become 0. With
    any other value, the launch runs as if `skip` were absent.
  }];
}

def GroupsOfRanks : Convention<"Groups of ranks", 5> {
  let Text = [{
    Every rank of the group bound to `group_id` must launch the same collectives equally
    often, in one order and with the same parameters. In a context without any group, every
    group consists of this process, and a collective is a copy. In a context with groups, an
    unbound group is an error when the module is loaded, and so is a group whose size is not
    `ranks`, for which the step was compiled.
  }];
}

include "TEDialect/Support/Kernels/Activations.td"
include "TEDialect/Support/Kernels/Attention.td"
include "TEDialect/Support/Kernels/Casts.td"
include "TEDialect/Support/Kernels/Collectives.td"
include "TEDialect/Support/Kernels/Elementwise.td"
include "TEDialect/Support/Kernels/Experts.td"
include "TEDialect/Support/Kernels/Groups.td"
include "TEDialect/Support/Kernels/Layers.td"
include "TEDialect/Support/Kernels/Optimizers.td"
include "TEDialect/Support/Kernels/Probes.td"
include "TEDialect/Support/Kernels/Products.td"
include "TEDialect/Support/Kernels/Shards.td"
