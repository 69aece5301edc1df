//===- CrossEntropyQuantize.cpp - plan of the cast of a loss gradient -----===//

#include "Kernels/Cast/TileKernels.h"

namespace te::rt::cuda {

Status plan_cross_entropy_backward_quantize(
    const CudaDevice &device,
    const cross_entropy_backward_quantize_params &params,
    std::unique_ptr<Plan> *plan) {
  const bool perTensor = params.scheme == TE_RT_PER_TENSOR;
  const auto find = [&](const std::string &scaling, TileKernels &kernels) {
    const std::string name = "te_cross_entropy_quantize_" + scaling + "_" +
                             inputTypeName(params.type) + "_" +
                             fp8TypeName(params.fp8_type);
    // Only bf16 has fast kernels.
    TE_RT_RETURN_IF_FAILED(kernels.find(
        device, params.type == TE_RT_BF16 ? name : "", kTileSharedBytes,
        name + "_general", generalSharedBytes(byteSize(params.type))));
    // An empty value has a scale and an amax too, which one block writes.
    const int64_t least = perTensor ? 1 : 0;
    const int64_t cols = std::max(params.cols, least);
    return kernels.setGrid(std::max(params.rows, least), cols, cols);
  };
  TileKernels plain, measuring;
  TE_RT_RETURN_IF_FAILED(find(perTensor ? "tensor" : "block_1x128", plain));
  TE_RT_RETURN_IF_FAILED(find("tensor_amax", measuring));
  *plan = makePlan(device, [plain, measuring, params, perTensor,
                            slot = takeAmaxSlots(1)](const Launcher &launch,
                                                     void *const *buffers) {
    namespace index = cross_entropy_backward_quantize_buffers;
    CrossEntropyQuantizeArgs args{};
    args.loss.weight = static_cast<float *>(buffers[index::weight]);
    args.loss.logits = buffers[index::logits];
    args.loss.targets = static_cast<const int32_t *>(buffers[index::targets]);
    args.loss.lse = static_cast<float *>(buffers[index::lse]);
    args.loss.tokens = params.rows;
    args.loss.vocab = params.vocab;
    args.loss.cols = params.cols;
    args.loss.ignoreIndex = params.ignore_index;
    placeRows(params, slot, buffers + index::scale, args);
    const bool isFast = isAligned(args.loss.logits, 16) &&
                        storesVectors(args.out, args.rows, args.cols);
    return (perTensor && args.amax ? measuring : plain)
        .launch(launch, isFast, args);
  });
  return Status::ok();
}

} // namespace te::rt::cuda
