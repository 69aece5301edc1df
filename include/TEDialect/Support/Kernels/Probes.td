//===- Probes.td - statistics of tensors ----------------------------------===//

def Probes : Family<"Statistics of tensors", 12>;

def count_nonfinite : Kernel<Probes> {
  let Description = [{
    Counts how many elements of x are NaN, how many are infinite, and how many a cast to
    8 bits loses. An element is lost if it is finite and |x * scale| is above `limit`,
    which is half a step above the largest value of the type; without `scale`, f32[1],
    none is lost. The three counts are added, modulo 2^32, to row `index` of counts,
    i32[entries, 3]; other rows are copied.
  }];
  let Parameters = (parameters Dim:$count, WideType:$type, Count:$entries, Dim:$index,
                               NonNegative:$limit);
  let Buffers = (buffers In<["count"], "type">:$x, InOpt<["1"], "f32">:$scale,
                         In<["entries", "3"], "i32">:$counts,
                         Out<["entries", "3"], "i32">:$new_counts);
  let Relations = [FitsText<"'entries' and a row of", "entries", "3">];
  let HasRule = 1;
  let Reuses = [MayReuse<"new_counts", "counts">];
}

def tensor_stats : Kernel<Probes> {
  let Description = [{
    Statistics of x[rows, cols] and, if `data` and `scale` (nv: also `amax`) are given,
    of a cast of x. The result is f32[te_rt_stat]: f32[14] with a cast, else f32[7]. The
    parameters of the cast are those of dequantize; its value is what dequantize
    computes in f32. A mean is over finite elements and a percentage over all elements;
    both are 0 if there are none. All sums are computed in f64 and rounded to f32 once:
      amax, amin    the largest |x|, as the kernel amax computes it, and the smallest
                    finite one above 0 (0 if there is none)
      mean, std     sum / n and sqrt(max(sum of squares / n - mean * mean, 0))
      zeros         percentage of elements that are 0
      nan, inf      how many elements are NaN, and how many are infinite
      underflows    percentage that is finite and not 0, but 0 in the cast
      overflows     percentage that is finite, whose code is the largest, and above
                    the cast's value times 29/28 (E4M3), 15/14 (E5M2) or 7/6 (e2m1)
                    in f32, that is above the rounding range of the largest code
      mse           mean of d * d, d = value - x in f64
      snr           sum of x * x / sum of d * d, infinite if the latter is 0
      scale_inv_min, scale_inv_max
                    the least and largest factor an element is dequantised with
                    (NaN is ignored)
      scales_clipped
                    how many blocks that are not all zero have a scale at an end of
                    its type: f32 not normal; f8E8M0FNU 2^-127, 2^127 or NaN;
                    f8E4M3FN 0 or NaN (448 is meant for the largest block)
    Sums are *run sums*: the elements, row by row, are divided into runs of 32768. Each
    is a lane sum in f64 with `acc + term`, and the runs are added in order to 0.
  }];
  let Parameters = (parameters Dim:$rows, Dim:$cols, WideType:$type, AnyType:$fp8_type,
                               AnyScheme:$scheme, Flag:$axis, Flag:$row_scaled,
                               AnyInt32:$scale_max);
  let Buffers = (buffers In<["rows", "cols"], "type">:$x,
                         InOpt<["rows", "cols"], "fp8_type">:$data,
                         InOpt<["scales(scheme, rows, cols, axis)"], "scaleType(scheme)">:$scale,
                         InOpt<["row_scaled != 0 ? rows : 1"], "f32">:$amax,
                         Out<["14"], "f32">:$stats);
  let Relations = [Fits<"rows", "cols">,
                   Multiple<"rows", "sizeMultiple(scheme)">,
                   Multiple<"cols", "sizeMultiple(scheme)">];
  let HasRule = 1;
  let Workspace = "ceilDiv(rows * cols, kStatsRun) * kStatsRowBytes";
}
