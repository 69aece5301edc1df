//===- CudnnGraph.cpp - attention graphs through cuDNN's frontend ---------===//
//
// Only this file includes the frontend, which throws exceptions. No exception
// leaves a function that the rest of the runtime calls.
//
// Matrices of heads are [batch, heads, sequence, head_dim] tensors with the
// strides of [batch * sequence, heads * head_dim] matrices, so nothing is
// copied. Graphs are built with the first engine that cuDNN's heuristics
// return. Its deterministic backward stores the gradients of all scores in
// scratch memory (on Hopper); the other backward adds rows of dq with atomics.
//
// Documents are the batch: a matrix has ragged offsets, the element where each
// document begins, and each document has a length. lse is then [tokens, heads],
// because the frontend sizes scratch memory by that layout.
//
//===----------------------------------------------------------------------===//

#include "Attention/Cudnn.h"

#include "Kernels/Attention/attention_args.h"

#include "TEDialect/Runtime/te_runtime_types.h"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <unordered_map>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
// The frontend's messages are a third of its code. The first header defines
// their macros, which the others use.
#include <cudnn.h>
#include <cudnn_frontend_ConvDesc.h>
#undef CUDNN_FE_LOG
#undef CUDNN_FE_LOG_LABEL
#undef CUDNN_FE_LOG_LABEL_ENDL
#undef CUDNN_FE_LOG_BANNER
#define CUDNN_FE_LOG(message)
#define CUDNN_FE_LOG_LABEL(message)
#define CUDNN_FE_LOG_LABEL_ENDL(message)
#define CUDNN_FE_LOG_BANNER(message)
#include <cudnn_frontend.h>

namespace cudnn_frontend {
/// The library in which the frontend looks for cuDNN's symbols. It declares
/// this variable, and the program must define it.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace te::rt::cuda {

namespace fe = cudnn_frontend;

namespace {

const char *const cudnnRemedy =
    "install cuDNN 9 for CUDA 13 (Debian package 'libcudnn9-cuda-13', PyPI "
    "package 'nvidia-cudnn-cu13')";
const char *const cudartRemedy =
    "install the CUDA 13 runtime (Debian package 'cuda-cudart-13-0', PyPI "
    "package 'nvidia-cuda-runtime')";

/// Names of the tensors of a graph.
enum Uid : int64_t {
  Q = 1,
  K,
  V,
  O,
  Lse,
  Sinks,
  Seed,
  Offset,
  Dout,
  Dq,
  Dk,
  Dv,
  Lengths,
  Offsets // and the next kDistances
};

/// Calls `body`, which returns a Status, and converts an exception to one.
template <typename Body> Status guarded(Body body) {
  try {
    return body();
  } catch (const std::exception &exception) {
    return {TE_RT_INTERNAL, std::string("cuDNN: ") + exception.what()};
  }
}

Status check(cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return Status::ok();
  return {TE_RT_DEVICE_ERROR,
          std::string(what) + ": " + fe::detail::get_error_string(status)};
}

Status check(fe::error_t error, te_rt_status code, const char *what) {
  if (error.is_good())
    return Status::ok();
  return {code, std::string(what) + ": " + error.get_message()};
}

class Graph final : public CudnnGraph {
public:
  Graph(cudnnHandle_t handle) : handle(handle) {}

  template <typename Params> Status build(const Params &params) {
    boundaries = params.boundaries;
    // cuDNN has no backward of sequences of one token.
    rows = boundaries == 0 ? params.sequence
                           : std::max<int64_t>(params.sequence, 2);
    graph
        .set_io_data_type(params.type == TE_RT_F16 ? fe::DataType_t::HALF
                                                   : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    add(params);
    TE_RT_RETURN_IF_FAILED(check(graph.build(handle, {fe::HeurMode_t::A}),
                                 TE_RT_UNSUPPORTED,
                                 "cuDNN has no engine for this attention"));
    return check(graph.get_workspace_size(bytes), TE_RT_INTERNAL,
                 "workspace of cuDNN");
  }

  int64_t workspaceBytes() const override { return bytes; }

  Status launch(const AttentionBuffers &buffers, void *workspace,
                void *stream) override {
    return guarded([&]() -> Status {
      TE_RT_RETURN_IF_FAILED(check(
          fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream)),
          "cudnnSetStream"));
      auto *const seed = static_cast<int64_t *>(buffers.seed);
      std::unordered_map<int64_t, void *> pointers = {
          {Q, buffers.q},
          {K, buffers.k},
          {V, buffers.v},
          {O, buffers.o},
          {Lse, buffers.lse},
          {Sinks, buffers.sinks},
          {Dout, buffers.dout},
          {Dq, buffers.dq},
          {Dk, buffers.dk},
          {Dv, buffers.dv},
          {Seed, seed},
          {Offset, seed ? seed + 1 : nullptr},
          {Lengths, buffers.lengths}};
      for (int n = 0; buffers.offsets && n < kDistances; ++n)
        pointers[Offsets + n] =
            static_cast<int64_t *>(buffers.offsets) + n * boundaries;
      // A forward has no gradients; the graph has no such tensors.
      std::erase_if(pointers, [](const auto &each) { return !each.second; });
      return check(graph.execute(handle, pointers, workspace),
                   TE_RT_DEVICE_ERROR, "cuDNN");
    });
  }

private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

  /// How many heads a matrix of tokens has, the size of each, and the matrix
  /// whose distance from row to row it has.
  struct Heads {
    int64_t count, size;
    int distance;
  };
  template <typename Params> struct Shape {
    explicit Shape(const Params &p)
        : q{p.heads, p.head_dim, kQueries}, k{p.kv_heads, p.head_dim, kKeys},
          v{p.kv_heads, p.value_dim, kValues},
          o{p.heads, p.value_dim, kOutputs} {}
    Heads q, k, v, o;
  };

  template <typename Params> static int64_t batchOf(const Params &p) {
    return p.boundaries == 0 ? p.tokens / p.sequence : p.boundaries - 1;
  }

  /// A tensor of numbers [size, 1, 1, 1]; the same for the same `uid`.
  Tensor numbers(int64_t uid, int64_t size, fe::DataType_t type) {
    Tensor &tensor = tables[uid];
    if (!tensor)
      tensor = graph.tensor(fe::graph::Tensor_attributes()
                                .set_uid(uid)
                                .set_dim({size, 1, 1, 1})
                                .set_stride({1, 1, 1, 1})
                                .set_data_type(type));
    return tensor;
  }

  void setOffsets(fe::graph::Tensor_attributes &tensor, int distance) {
    if (boundaries != 0)
      tensor.set_ragged_offset(
          numbers(Offsets + distance, boundaries, fe::DataType_t::INT64));
  }

  /// Sets the shape and strides of `tensor` to the heads of a matrix of tokens.
  template <typename Params>
  void asHeads(fe::graph::Tensor_attributes &tensor, Uid uid, const Params &p,
               Heads heads) {
    const int64_t columns = heads.count * heads.size;
    tensor.set_uid(uid)
        .set_dim({batchOf(p), heads.count, rows, heads.size})
        .set_stride({rows * columns, heads.size, columns, 1});
    setOffsets(tensor, heads.distance);
  }
  template <typename Params>
  void asLse(fe::graph::Tensor_attributes &tensor, const Params &p) {
    using Strides = std::vector<int64_t>;
    tensor.set_uid(Lse)
        .set_dim({batchOf(p), p.heads, rows, 1})
        .set_stride(boundaries == 0 ? Strides{p.heads * rows, rows, 1, 1}
                                    : Strides{p.heads * rows, 1, p.heads, 1})
        .set_data_type(fe::DataType_t::FLOAT);
    setOffsets(tensor, kSums);
  }

  template <typename Params>
  Tensor input(Uid uid, const Params &p, Heads heads) {
    fe::graph::Tensor_attributes tensor;
    asHeads(tensor, uid, p, heads);
    return graph.tensor(tensor);
  }
  template <typename Params>
  void output(const Tensor &tensor, Uid uid, const Params &p, Heads heads) {
    asHeads(*tensor, uid, p, heads);
    tensor->set_output(true);
  }

  /// The rows after the end of a document are masked. With a score modifier,
  /// the modifier does that.
  template <typename Options, typename Params>
  void setDocuments(Options &options, const Params &p) {
    if (boundaries == 0)
      return;
    const Tensor lengths = lengthsOf(p);
    options.set_padding_mask(p.softcap == 0.0f)
        .set_seq_len_q(lengths)
        .set_seq_len_kv(lengths);
    if constexpr (requires { options.set_max_total_seq_len_q(p.tokens); })
      options.set_max_total_seq_len_q(p.tokens).set_max_total_seq_len_kv(
          p.tokens);
  }
  /// Null without documents.
  template <typename Params> Tensor lengthsOf(const Params &p) {
    return boundaries == 0
               ? nullptr
               : numbers(Lengths, batchOf(p), fe::DataType_t::INT32);
  }

  /// Sets the mask in the terms of the frontend: its left bound includes the
  /// position itself, that is keys `j > i - bound`. A window that hides nothing
  /// is none.
  struct Mask {
    template <typename Params> explicit Mask(const Params &p) {
      if (p.causal)
        right = 0;
      if (p.window_left >= 0 && p.window_left < p.sequence - 1)
        left = p.window_left + 1;
    }
    std::optional<int64_t> left, right;
  };

  /// Caps the scores and then masks them. With a score modifier the frontend
  /// does not accept its own masks, so the modifier masks, too. The modifier of
  /// the backward only differentiates the cap: masked scores have weight 0, so
  /// the gradient that it gets for them is 0.
  template <typename Options, typename Params>
  void setScores(Options &options, const Params &p) {
    const Mask mask(p);
    if (p.softcap == 0.0f) {
      options.set_causal_mask(p.causal != 0);
      if (mask.left)
        options.set_diagonal_band_left_bound(static_cast<int>(*mask.left));
      return;
    }
    namespace modifiers = fe::graph::attn::score_modifiers;
    using SubGraph = std::shared_ptr<fe::graph::Graph>;
    auto cap = std::make_shared<modifiers::Softcap>();
    auto bound = std::make_shared<fe::graph::Tensor_attributes>(p.softcap);
    options.set_score_mod([=, s = rows, lengths = lengthsOf(p)](
                              const SubGraph &sub, const Tensor &scores) {
      const Tensor seen = modifiers::sliding_window_mask(
          sub, cap->forward(sub, scores, bound),
          fe::DiagonalAlignment_t::TOP_LEFT, mask.left, mask.right, s, s,
          /*s_q_ptr=*/nullptr, /*s_kv_ptr=*/nullptr);
      return lengths ? modifiers::padding_mask(sub, seen, lengths, lengths)
                     : seen;
    });
    if constexpr (requires { options.set_score_mod_bprop(nullptr); })
      options.set_score_mod_bprop([=](const SubGraph &sub, const Tensor &ds) {
        return cap->backward(sub, ds, bound);
      });
  }

  template <typename Options, typename Params>
  void setDropout(Options &options, const Params &p) {
    if (p.dropout == 0.0f)
      return;
    options.set_dropout(p.dropout, numbers(Seed, 1, fe::DataType_t::INT64),
                        numbers(Offset, 1, fe::DataType_t::INT64));
  }

  void add(const attention_params &p) {
    const Shape shape(p);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_attn_scale(p.scale);
    setScores(options, p);
    setDocuments(options, p);
    setDropout(options, p);
    if (p.has_sinks)
      options.set_sink_token(
          graph.tensor(fe::graph::Tensor_attributes()
                           .set_uid(Sinks)
                           .set_dim({1, p.heads, 1, 1})
                           .set_stride({p.heads, 1, 1, 1})
                           .set_data_type(fe::DataType_t::FLOAT)));
    auto [o, lse] = graph.sdpa(input(Q, p, shape.q), input(K, p, shape.k),
                               input(V, p, shape.v), std::move(options));
    output(o, O, p, shape.o);
    asLse(*lse, p);
    lse->set_output(true);
  }

  /// Sinks do not change the backward, because lse includes them. A separate
  /// kernel computes their own gradient (plan_attention_sink_grad).
  void add(const attention_backward_params &p) {
    const Shape shape(p);
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_attn_scale(p.scale)
                       .set_deterministic_algorithm(p.deterministic != 0);
    setScores(options, p);
    setDocuments(options, p);
    setDropout(options, p);
    fe::graph::Tensor_attributes lse;
    asLse(lse, p);
    auto [dq, dk, dv] = graph.sdpa_backward(
        input(Q, p, shape.q), input(K, p, shape.k), input(V, p, shape.v),
        input(O, p, shape.o), input(Dout, p, shape.o), graph.tensor(lse),
        std::move(options));
    output(dq, Dq, p, shape.q);
    output(dk, Dk, p, shape.k);
    output(dv, Dv, p, shape.v);
  }

  cudnnHandle_t handle;
  fe::graph::Graph graph;
  std::unordered_map<int64_t, Tensor> tables;
  int64_t boundaries = 0, bytes = 0;
  /// Of the longest sequence.
  int64_t rows = 0;
};

class LoadedCudnn final : public Cudnn {
public:
  ~LoadedCudnn() override {
    if (handle)
      (void)guarded([&] {
        return check(fe::detail::destroy_handle(handle), "cudnnDestroy");
      });
  }

  Status initialize() {
    return guarded([&]() -> Status {
      // With older versions the frontend copies from the host in every launch.
      constexpr size_t oldest = 91600;
      if (const size_t version = fe::detail::get_backend_version();
          version < oldest)
        return {TE_RT_UNSUPPORTED, "expected cuDNN 9.16 or newer, but got 9." +
                                       std::to_string(version / 100 % 100) +
                                       "; " + cudnnRemedy};
      return check(fe::detail::create_handle(&handle), "cudnnCreate");
    });
  }

  Status plan(const attention_params &params,
              std::unique_ptr<CudnnGraph> *graph) override {
    return build(params, graph);
  }
  Status plan(const attention_backward_params &params,
              std::unique_ptr<CudnnGraph> *graph) override {
    return build(params, graph);
  }

private:
  template <typename Params>
  Status build(const Params &params, std::unique_ptr<CudnnGraph> *graph) {
    return guarded([&]() -> Status {
      auto made = std::make_unique<Graph>(handle);
      TE_RT_RETURN_IF_FAILED(made->build(params));
      *graph = std::move(made);
      return Status::ok();
    });
  }

  cudnnHandle_t handle = nullptr;
};

} // namespace

Status Cudnn::load(const LibraryPaths &paths, std::unique_ptr<Cudnn> *cudnn) {
  Library library, cudart;
  TE_RT_RETURN_IF_FAILED(Library::open(paths.cudnn, cudnnRemedy, &library));
  // The frontend opens the CUDA runtime by its name only, which finds the one
  // that is already open.
  TE_RT_RETURN_IF_FAILED(Library::open(paths.cudart, cudartRemedy, &cudart));
  fe::cudnn_dlhandle = library.rawHandle();
  auto loaded = std::make_unique<LoadedCudnn>();
  TE_RT_RETURN_IF_FAILED(loaded->initialize());
  *cudnn = std::move(loaded);
  return Status::ok();
}

} // namespace te::rt::cuda
