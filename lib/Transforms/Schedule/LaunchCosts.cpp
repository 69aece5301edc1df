//===- LaunchCosts.cpp - how long a launch is expected to take ------------===//
//
// The rates of sm_90 are those that the GEMMs, the casts and the collectives
// over two and four GPUs of a Llama-8B layer reached on H200s
// (docs/performance/tables.md), and not the peaks of the machine. The rates of
// sm_100 are scaled by the ratio of the peaks and were not measured.
//
//===----------------------------------------------------------------------===//

#include "LaunchCosts.h"

#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/TERT/KernelTable.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// Operations, or bytes, per microsecond.
struct Rates {
  double product8, product16, product32, attention, memory, link;
};
constexpr Rates kSm90 = {1.1e9, 0.6e9, 0.03e9, 0.4e9, 3.3e6, 0.25e6};
constexpr Rates kSm100 = {2.4e9, 1.2e9, 0.06e9, 0.8e9, 5.5e6, 0.5e6};

/// The time from one launch to the next, and until all ranks of a group arrive,
/// in microseconds.
constexpr double kLaunch = 2, kMeeting = 12;

class Cost {
public:
  Cost(tert::LaunchOp launch, const Rates &rates)
      : launch(launch), rates(rates) {}

  double microseconds() {
    StringRef kernel = launch.getKernel();
    const double memory = kLaunch + bytes() / rates.memory;
    if (tert::lookupKernel(kernel)->isCollective())
      return kMeeting + received() / rates.link;
    if (kernel == "attention" || kernel == "attention_backward")
      return std::max(memory, attention() / rates.attention);
    if (kernel.ends_with("matmul") || kernel.ends_with("wgrad"))
      return std::max(memory, product() / productRate());
    return memory;
  }

private:
  /// The parameter `name`, or `otherwise` if the kernel has no such parameter.
  double get(StringRef name, double otherwise) {
    auto value = launch.getParameters().getAs<IntegerAttr>(name);
    return value ? double(value.getInt()) : otherwise;
  }

  double bytes() {
    double sum = 0;
    for (Value buffer : launch.getBuffers())
      sum += double(cast<tert::BufferType>(buffer.getType()).getBytes());
    return sum;
  }

  /// The operations of a GEMM, from m x n x k. In a grouped GEMM, the rows of
  /// all groups are one of the three sizes.
  double product() {
    return 2 * get("rows", 1) * get("m", 1) * get("n", 1) * get("k", 1);
  }
  double productRate() {
    if (launch.getKernel().contains("scaled"))
      return rates.product8;
    return get("type", TE_RT_BF16) == double(TE_RT_F32) ? rates.product32
                                                        : rates.product16;
  }

  double attention() {
    // The number of keys that a position reads on average. A causal position
    // reads half of the sequence. With a window, a position reads the length of
    // the window, except that the first ones read half of that.
    const double sequence = get("sequence", 1);
    double keys = sequence;
    if (get("causal", 0) != 0) {
      const double left = get("window_left", -1);
      const double window = left < 0 ? sequence : std::min(left + 1, sequence);
      keys = window - window * window / (2 * sequence);
    }
    const double forward =
        4 * get("tokens", 1) * keys * get("heads", 1) * get("head_dim", 1);
    return launch.getKernel() == "attention" ? forward : 2.5 * forward;
  }

  /// Bytes that a rank receives. The largest buffer is the whole tensor, of
  /// which a rank has one part. A sum that all ranks get is scattered and
  /// gathered.
  double received() {
    double whole = 0;
    for (Value buffer : launch.getBuffers())
      whole = std::max(
          whole, double(cast<tert::BufferType>(buffer.getType()).getBytes()));
    const double ranks = get("ranks", 2);
    const double others = whole * (ranks - 1) / ranks;
    return launch.getKernel().starts_with("all_reduce") ? 2 * others : others;
  }

  tert::LaunchOp launch;
  const Rates &rates;
};

} // namespace

double te::expectedMicroseconds(tert::LaunchOp launch, StringRef target) {
  return Cost(launch, target == "sm_100" ? kSm100 : kSm90).microseconds();
}
