//===- LaunchCosts.cpp - how long a launch is expected to take ------------===//
//
// The rates of sm_90 are those of a Llama-8B layer on H200s
// (docs/performance/tables.md): what its products, its casts and its
// collectives over two and four GPUs reached, not what the machine can. Those
// of sm_100 are scaled by the peaks, and measured on nothing.
//
//===----------------------------------------------------------------------===//

#include "LaunchCosts.h"

#include "TEDialect/Runtime/te_runtime_types.h"
#include "TEDialect/TERT/KernelTable.h"

using namespace mlir;
using namespace mlir::te;

namespace {

/// Operations, or bytes, in a microsecond.
struct Rates {
  double product8, product16, product32, attention, memory, link;
};
constexpr Rates kSm90 = {1.1e9, 0.6e9, 0.03e9, 0.4e9, 3.3e6, 0.25e6};
constexpr Rates kSm100 = {2.4e9, 1.2e9, 0.06e9, 0.8e9, 5.5e6, 0.5e6};

/// From one launch to the next; and until all ranks of a group are there.
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
  /// A parameter of the kernel, or `otherwise` where it has none of the name.
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

  /// Of a product, m x n x k; of groups, all their rows are one of them.
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
    // Of each position; causal ones see half of them, and those of a window
    // its length but for the first, which see half of that.
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

  /// A rank has one of as many parts; the buffers say how large the whole is. A
  /// sum that all ranks get is scattered and gathered.
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
