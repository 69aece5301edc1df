//===- Embedding.cpp - plans of the embedding -----------------------------===//
//
// The gather copies rows in the widest unit that their size and the buffers of
// the launch allow. The gradient first counts ids in its workspace.
//
//===----------------------------------------------------------------------===//

#include "Cuda/CudaBackend.h"

#include "Core/Workspaces.h"
#include "Kernels/Embedding/embedding_args.h"
#include "Kernels/Pointwise/KernelLookup.h"

namespace te::rt::cuda {

namespace {

/// Finds te_embedding_<unit>, and sets a grid for `tokens` rows of `rowBytes`.
Status findGather(const CudaDevice &device, const char *kernel, int64_t unit,
                  int64_t tokens, int64_t rowBytes, LaunchConfig *config) {
  TE_RT_RETURN_IF_FAILED(config->find(device, kernel));
  config->block = kEmbeddingBlock;
  return setGrid(
      tokens * ceilDiv(rowBytes / unit, kEmbeddingBlock * kEmbeddingUnroll),
      config);
}

const char *gatherOfElements(int64_t bytes) {
  return bytes == 4   ? "te_embedding_4"
         : bytes == 2 ? "te_embedding_2"
                      : "te_embedding_1";
}

/// The kernels of one gradient, for aligned and for other buffers.
struct BackwardKernels {
  LaunchConfig scalars, vectors;
  int64_t hidden = 0, length = 1;

  uint32_t columnBlocks(bool isAligned) const {
    return static_cast<uint32_t>(
        ceilDiv(hidden, kEmbeddingBlock * (isAligned ? length : 1)));
  }
  const LaunchConfig &of(bool isAligned) const {
    return isAligned ? vectors : scalars;
  }
  /// Finds the kernels `family`, with `rows` times the blocks of a row.
  Status find(const CudaDevice &device, const char *family,
              const embedding_backward_params &params, int64_t rows) {
    hidden = params.hidden;
    length = runLength({params.type, params.out_type});
    TE_RT_RETURN_IF_FAILED(
        findTyped(device, family, {params.type, params.out_type}, &scalars));
    scalars.block = kEmbeddingBlock;
    vectors = scalars;
    TE_RT_RETURN_IF_FAILED(setGrid(rows * columnBlocks(false), &scalars));
    return setGrid(rows * columnBlocks(true), &vectors);
  }
};

} // namespace

Status plan_embedding(const CudaDevice &device, const embedding_params &params,
                      std::unique_ptr<Plan> *plan) {
  namespace b = embedding_buffers;
  const int64_t elementBytes = byteSize(params.type);
  const int64_t rowBytes = params.hidden * elementBytes;
  LaunchConfig elements, vectors;
  TE_RT_RETURN_IF_FAILED(findGather(device, gatherOfElements(elementBytes),
                                    elementBytes, params.tokens, rowBytes,
                                    &elements));
  TE_RT_RETURN_IF_FAILED(findGather(device, "te_embedding_16", 16,
                                    params.tokens, rowBytes, &vectors));
  *plan = makePlan(device, [=](Launcher launch, void *const *buffers) {
    EmbeddingArgs args{};
    args.ids = static_cast<const int32_t *>(buffers[b::ids]);
    args.table = buffers[b::table];
    args.y = buffers[b::y];
    args.vocab = params.vocab;
    const bool wide = rowBytes % 16 == 0 && areAligned({args.table, args.y});
    args.units = rowBytes / (wide ? 16 : elementBytes);
    args.blocksPerRow = static_cast<uint32_t>(
        ceilDiv(args.units, kEmbeddingBlock * kEmbeddingUnroll));
    return launch(wide ? vectors : elements, args);
  });
  return Status::ok();
}

Status plan_embedding_backward(const CudaDevice &device,
                               const embedding_backward_params &params,
                               std::unique_ptr<Plan> *plan) {
  namespace b = embedding_backward_buffers;
  BackwardKernels all, named;
  LaunchConfig count;
  TE_RT_RETURN_IF_FAILED(count.find(device, "te_embedding_count"));
  count.block = kEmbeddingBlock;
  TE_RT_RETURN_IF_FAILED(
      setGrid(ceilDiv(params.tokens, kEmbeddingBlock), &count));
  TE_RT_RETURN_IF_FAILED(
      all.find(device, "te_embedding_backward", params,
               ceilDiv(params.vocab, kEmbeddingRowsPerBlock)));
  TE_RT_RETURN_IF_FAILED(
      named.find(device, "te_embedding_accumulate", params, params.tokens));
  const int64_t length = runLength({params.type, params.out_type});
  const int64_t tableBytes =
      params.vocab * params.hidden * byteSize(params.out_type);
  const int64_t countBytes = workspaceBytes(params);
  *plan = makeWorkspacePlan(
      device, countBytes,
      [=](Launcher launch, void *const *buffers, void *workspace) {
        EmbeddingBackwardArgs args{};
        args.ids = static_cast<const int32_t *>(buffers[b::ids]);
        args.counts = static_cast<const int32_t *>(workspace);
        args.dy = buffers[b::dy];
        args.dtable = buffers[b::dtable];
        args.tokens = params.tokens;
        args.vocab = params.vocab;
        args.hidden = params.hidden;
        args.vectors =
            params.hidden % length == 0 && areAligned({args.dy, args.dtable});
        const void *accumulate = buffers[b::accumulate];
        const BackwardKernels &kernels = accumulate ? named : all;
        args.columnBlocks = kernels.columnBlocks(args.vectors);
        TE_RT_RETURN_IF_FAILED(launch.zero(workspace, countBytes));
        TE_RT_RETURN_IF_FAILED(
            launch(count, EmbeddingCountArgs{args.ids,
                                             static_cast<int32_t *>(workspace),
                                             params.tokens, params.vocab}));
        if (accumulate && accumulate != args.dtable)
          TE_RT_RETURN_IF_FAILED(
              launch.copy(args.dtable, accumulate, tableBytes));
        return launch(kernels.of(args.vectors), args);
      });
  return Status::ok();
}

} // namespace te::rt::cuda
