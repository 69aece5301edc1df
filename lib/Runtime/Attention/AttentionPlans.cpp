//===- AttentionPlans.cpp - plans of attention and its backward -----------===//
//
// A plan is one cuDNN graph. A launch passes the buffers of the kernel to it.
// The size of its scratch memory is known when the plan is made. With dropout,
// a kernel first derives cuDNN's seed from the state, because cuDNN's random
// bits of one seed with two offsets are the same bits, shifted. With documents,
// a kernel first makes tables of their boundaries, and another one fills the
// rows that are in none of them.
//
//===----------------------------------------------------------------------===//

#include "Attention/AttentionPlanner.h"

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Cuda/DeviceErrors.h"
#include "Kernels/Attention/attention_args.h"
#include "Kernels/LaunchPlan.h"
#include "Kernels/Pointwise/KernelLookup.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace te::rt::cuda {

namespace {

/// A result, which has this many numbers of 16 bits in each row.
struct Result {
  void *matrix = nullptr;
  int64_t halves = 0;
};

/// Launches before and after cuDNN, for documents. The tables are at the end of
/// the scratch memory.
class DocumentLaunches {
public:
  template <typename Params>
  Status plan(const CudaDevice &device, const Params &p, int64_t scratch) {
    this->scratch = scratch;
    boundaries = p.boundaries;
    if (boundaries == 0)
      return Status::ok();
    const int64_t distances[] = {p.heads * p.head_dim, p.kv_heads * p.head_dim,
                                 p.kv_heads * p.value_dim,
                                 p.heads * p.value_dim, p.heads};
    static_assert(std::size(distances) == kDistances);
    std::copy(std::begin(distances), std::end(distances), args.distances);
    args.tokens = p.tokens;
    args.sequence = p.sequence;
    args.boundaries = boundaries;
    TE_RT_RETURN_IF_FAILED(device.errors->add(
        [rows = p.tokens, sequence = p.sequence](uint32_t boundary,
                                                 std::optional<int32_t> value) {
          return malformed(rows, sequence, boundary, value);
        },
        &source));
    args.error = source->word();
    args.firstError = source->first();
    TE_RT_RETURN_IF_FAILED(tables.find(device, "te_attention_documents"));
    tables.block = kDocumentsBlock;
    TE_RT_RETURN_IF_FAILED(padding.find(device, "te_attention_padding"));
    padding.block = kPaddingBlock;
    return setGrid(std::min<int64_t>(p.tokens, 4 * device.multiprocessors),
                   &padding);
  }

  int64_t bytes() const {
    return boundaries == 0
               ? 0
               : roundUp(sizeof(AttentionDocuments), 8) +
                     8 * kDistances * boundaries + 4 * (boundaries - 1);
  }

  /// Names `plan`, whose launches these are, in errors.
  void setPlan(const Plan *plan) const {
    if (source)
      source->plan = plan;
  }

  /// Writes the tables, and sets the pointers of cuDNN to them.
  Status before(const Launcher &launch, const void *documents, void *workspace,
                AttentionBuffers *buffers) const {
    if (boundaries == 0)
      return Status::ok();
    AttentionDocumentsArgs each = args;
    each.documents = static_cast<const int32_t *>(documents);
    each.all = at(workspace);
    each.offsets = reinterpret_cast<int64_t *>(each.all + 1);
    each.lengths =
        reinterpret_cast<int32_t *>(each.offsets + kDistances * boundaries);
    buffers->offsets = each.offsets;
    buffers->lengths = each.lengths;
    return launch(tables, each);
  }

  /// Fills the rows of results that are in no document.
  Status after(const Launcher &launch, void *workspace,
               const std::array<Result, 3> &results) const {
    if (boundaries == 0)
      return Status::ok();
    AttentionPaddingArgs each{};
    each.all = at(workspace);
    each.tokens = args.tokens;
    for (size_t n = 0; n < results.size(); ++n) {
      each.matrices[n] = static_cast<uint16_t *>(results[n].matrix);
      each.halves[n] = results[n].halves;
    }
    return launch(padding, each);
  }

private:
  static std::string malformed(int64_t rows, int64_t sequence,
                               uint32_t boundary,
                               std::optional<int32_t> value) {
    const std::string text =
        "expected 'documents[" + std::to_string(boundary) + "]' to be from ";
    const std::string end = " to the " + std::to_string(rows) + " rows";
    return (boundary == 0
                ? text + "0" + end
                : text + "the boundary before it" + end + ", and at most " +
                      "'sequence' (" + std::to_string(sequence) +
                      ") rows behind that boundary") +
           (value ? ", but got " + std::to_string(*value) : "") +
           "; the launch computed NaN";
  }

  AttentionDocuments *at(void *workspace) const {
    return reinterpret_cast<AttentionDocuments *>(
        static_cast<char *>(workspace) + scratch);
  }

  int64_t boundaries = 0, scratch = 0;
  AttentionDocumentsArgs args{};
  std::shared_ptr<DeviceErrors::Source> source;
  LaunchConfig tables, padding;
};

/// The launch that derives cuDNN's seed, which is after the first `scratch`
/// bytes of the scratch memory.
class SeedLaunch {
public:
  template <typename Params>
  Status plan(const CudaDevice &device, const Params &p, int64_t scratch) {
    this->scratch = scratch;
    drops = p.dropout != 0.0f;
    stream = static_cast<uint32_t>(p.stream);
    seed.block = 1;
    return drops ? seed.find(device, "te_attention_seed") : Status::ok();
  }
  int64_t bytes() const { return drops ? 16 : 0; }
  Status before(const Launcher &launch, const void *state, void *workspace,
                AttentionBuffers *buffers) const {
    if (!drops)
      return Status::ok();
    AttentionSeedArgs args;
    args.state = static_cast<const uint32_t *>(state);
    args.seed =
        reinterpret_cast<int64_t *>(static_cast<char *>(workspace) + scratch);
    args.stream = stream;
    buffers->seed = args.seed;
    return launch(seed, args);
  }

private:
  bool drops = false;
  int64_t scratch = 0;
  uint32_t stream = 0;
  LaunchConfig seed;
};

/// `bind` returns the pointers of a launch; `documents` and `rng` are the
/// indices of these buffers; `results` returns what a launch writes.
template <typename Params, typename Bind, typename Results>
Status planGraph(const CudaDevice &device, const Params &params, Bind bind,
                 int documents, int rng, Results results,
                 std::unique_ptr<Plan> *plan) {
  if (params.type != TE_RT_BF16 && params.type != TE_RT_F16)
    return {TE_RT_UNSUPPORTED, "expected 'type' to be 'bf16' or 'f16' for "
                               "attention on the cuda backend, but got "
                               "'f32'"};
  if (params.tokens == 0) {
    *plan =
        makePlan(device, [](Launcher, void *const *) { return Status::ok(); });
    return Status::ok();
  }
  // One boundary is that of no document.
  std::shared_ptr<CudnnGraph> graph;
  if (params.boundaries != 1) {
    std::unique_ptr<CudnnGraph> made;
    TE_RT_RETURN_IF_FAILED(device.attention->plan(params, &made));
    graph = std::move(made);
  }
  const int64_t scratch = graph ? roundUp(graph->workspaceBytes(), 256) : 0;
  SeedLaunch seed;
  DocumentLaunches rows;
  TE_RT_RETURN_IF_FAILED(seed.plan(device, params, scratch));
  TE_RT_RETURN_IF_FAILED(rows.plan(device, params, scratch + seed.bytes()));
  *plan = makeWorkspacePlan(
      device, scratch + seed.bytes() + rows.bytes(),
      [=](Launcher launch, void *const *buffers, void *workspace) {
        TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
        AttentionBuffers bound = bind(buffers);
        TE_RT_RETURN_IF_FAILED(
            seed.before(launch, buffers[rng], workspace, &bound));
        TE_RT_RETURN_IF_FAILED(
            rows.before(launch, buffers[documents], workspace, &bound));
        if (graph)
          TE_RT_RETURN_IF_FAILED(
              graph->launch(bound, workspace, launch.rawStream()));
        return rows.after(launch, workspace, results(buffers));
      });
  rows.setPlan(plan->get());
  return Status::ok();
}

} // namespace

Status plan_attention(const CudaDevice &device, const attention_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = attention_buffers;
  auto bind = [hasSinks = params.has_sinks](void *const *buffers) {
    return AttentionBuffers{.q = buffers[b::q],
                            .k = buffers[b::k],
                            .v = buffers[b::v],
                            .o = buffers[b::o],
                            .lse = buffers[b::lse],
                            .sinks = hasSinks ? buffers[b::sinks] : nullptr};
  };
  auto results = [o = params.heads * params.value_dim,
                  lse = 2 * params.heads](void *const *buffers) {
    return std::array<Result, 3>{Result{buffers[b::o], o},
                                 {buffers[b::lse], lse}};
  };
  return planGraph(device, params, bind, b::documents, b::rng, results, plan);
}

Status plan_attention_backward(const CudaDevice &device,
                               const attention_backward_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = attention_backward_buffers;
  auto bind = [](void *const *buffers) {
    return AttentionBuffers{.q = buffers[b::q],
                            .k = buffers[b::k],
                            .v = buffers[b::v],
                            .o = buffers[b::o],
                            .lse = buffers[b::lse],
                            .dout = buffers[b::dout],
                            .dq = buffers[b::dq],
                            .dk = buffers[b::dk],
                            .dv = buffers[b::dv]};
  };
  auto results = [q = params.heads * params.head_dim,
                  k = params.kv_heads * params.head_dim,
                  v = params.kv_heads *
                      params.value_dim](void *const *buffers) {
    return std::array<Result, 3>{
        Result{buffers[b::dq], q}, {buffers[b::dk], k}, {buffers[b::dv], v}};
  };
  return planGraph(device, params, bind, b::documents, b::rng, results, plan);
}

} // namespace te::rt::cuda
