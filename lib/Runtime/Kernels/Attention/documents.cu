//===- documents.cu - documents of attention ------------------------------===//
//
// te_attention_documents: one block checks the boundaries and writes the length
// of each document and where it begins in each matrix. If one boundary is
// malformed, all documents are empty, so nothing out of bounds is read, and the
// error words have the number and the value of the first one.
//
// te_attention_padding: fills the rows that are in no document, which cuDNN
// does not write.
//
// te_used_rows: marks the rows that are in documents.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Attention/attention_args.h"
#include "Kernels/Device/launch_sm90.cuh"

namespace te::rt::cuda {
namespace {

/// Whether boundary `d` is below the one before it, beyond the rows, or too far
/// behind the one before it.
__device__ __forceinline__ bool isMalformed(const AttentionDocumentsArgs &args,
                                            uint32_t d) {
  const int64_t boundary = args.documents[d];
  const int64_t before = d == 0 ? 0 : args.documents[d - 1];
  return boundary < before || boundary > args.tokens ||
         (d != 0 && boundary - before > args.sequence);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

extern "C" __global__ void __launch_bounds__(kDocumentsBlock)
    te_attention_documents(
        const __grid_constant__ AttentionDocumentsArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const auto last = static_cast<uint32_t>(args.boundaries - 1);
  __shared__ uint32_t firstMalformed;
  if (threadIdx.x == 0)
    firstMalformed = UINT32_MAX;
  __syncthreads();
  for (uint32_t d = threadIdx.x; d <= last; d += kDocumentsBlock)
    if (isMalformed(args, d))
      atomicMin(&firstMalformed, d);
  __syncthreads();
  const bool malformed = firstMalformed <= last;
  for (uint32_t d = threadIdx.x; d <= last; d += kDocumentsBlock) {
    const int64_t begin = malformed ? 0 : args.documents[d];
    if (d < last)
      args.lengths[d] =
          malformed ? 0 : static_cast<int32_t>(args.documents[d + 1] - begin);
    for (int n = 0; n < kDistances; ++n)
      args.offsets[n * args.boundaries + d] = begin * args.distances[n];
  }
  if (threadIdx.x != 0)
    return;
  *args.all = {malformed ? 0 : args.documents[0],
               malformed ? 0 : args.documents[last], malformed};
  if (malformed && *args.error == 0) {
    args.error[1] =
        args.firstError | static_cast<uint32_t>(args.documents[firstMalformed]);
    // The host reads the value once it finds the error.
    __threadfence_system();
    *args.error = args.firstError + firstMalformed;
  }
}

extern "C" __global__ void __launch_bounds__(kPaddingBlock)
    te_attention_padding(const __grid_constant__ AttentionPaddingArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const AttentionDocuments all = *args.all;
  const uint16_t fill = all.malformed ? 0xffff : 0; // a NaN, or 0
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * kPaddingBlock + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kPaddingBlock;
  for (int n = 0; n < 3; ++n) {
    const int64_t halves = args.halves[n];
    for (int64_t i = first; i < all.begin * halves; i += step)
      args.matrices[n][i] = fill;
    for (int64_t i = all.end * halves + first; i < args.tokens * halves;
         i += step)
      args.matrices[n][i] = fill;
  }
}

extern "C" __global__ void __launch_bounds__(kUsedRowsBlock)
    te_used_rows(const __grid_constant__ UsedRowsArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t t =
      static_cast<int64_t>(blockIdx.x) * kUsedRowsBlock + threadIdx.x;
  if (t < args.tokens)
    args.used[t] =
        t >= args.documents[0] && t < args.documents[args.boundaries - 1]
            ? 1.0f
            : 0.0f;
}
