//===- Probe.cpp - statistics of tensors on the reference backend ---------===//
//
// Elements are looked at with the formulas of Core/Probe.h, run by run and lane
// by lane.
//
//===----------------------------------------------------------------------===//

#include "Core/Probe.h"

#include "Reference/Reference.h"

#include <cstring>
#include <vector>

namespace te::rt::reference {

namespace {

ProbeRow startRow() {
  ProbeRow row;
  for (int field = 0; field < kProbeFields; ++field)
    row.field[field] = math::probeStart(field);
  return row;
}

void combine(ProbeRow &row, const ProbeRow &other) {
  for (int field = 0; field < kProbeFields; ++field)
    row.field[field] =
        math::probeCombine(field, row.field[field], other.field[field]);
}

} // namespace

void count_nonfinite(const count_nonfinite_params &p, void *const *buffers) {
  namespace b = count_nonfinite_buffers;
  const auto *scale = static_cast<const float *>(buffers[b::scale]);
  uint32_t found[3] = {};
  for (int64_t i = 0; i < p.count; ++i) {
    const float x = load(buffers[b::x], i, p.type);
    found[0] += math::isNaN(x);
    found[1] += math::isInfinite(x);
    found[2] += scale && math::isLost(x, *scale, p.limit);
  }
  auto *counts = static_cast<uint32_t *>(buffers[b::new_counts]);
  if (counts != buffers[b::counts])
    std::memcpy(counts, buffers[b::counts], p.entries * sizeof(found));
  for (int kind = 0; kind < 3; ++kind)
    counts[3 * p.index + kind] += found[kind];
}

void tensor_stats(const tensor_stats_params &p, void *const *buffers) {
  namespace b = tensor_stats_buffers;
  const ProbeCast cast{static_cast<const uint8_t *>(buffers[b::data]),
                       buffers[b::scale],
                       static_cast<const float *>(buffers[b::amax]),
                       p.rows,
                       p.cols,
                       p.fp8_type,
                       p.scheme,
                       p.axis,
                       p.row_scaled,
                       p.scale_max};
  const int64_t count = p.rows * p.cols;
  auto at = [&](int64_t i) { return load(buffers[b::x], i, p.type); };
  std::vector<ProbeRow> runs(ceilDiv(count, kProbeRun));
  parallelFor(runs.size(), count * 16, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      std::vector<ProbeRow> lanes(kLanes, startRow());
      const int64_t first = run * kProbeRun;
      for (int64_t i = first; i < std::min(count, first + kProbeRun); ++i)
        math::probeAdd(cast, i, at, lanes[(i - first) % kLanes].field);
      for (int s = kLanes / 2; s != 0; s /= 2)
        for (int i = 0; i < s; ++i)
          combine(lanes[i], lanes[i + s]);
      runs[run] = lanes[0];
    }
  });
  ProbeRow total = startRow();
  for (const ProbeRow &run : runs)
    combine(total, run);
  math::probeResults(total.field, cast,
                     static_cast<float *>(buffers[b::stats]));
}

} // namespace te::rt::reference
