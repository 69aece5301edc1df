//===- embedding.cu - row gather and its gradient -------------------------===//
//
// te_embedding_<bytes of a unit>: rows of every type are copied as bytes.
//
// te_embedding_backward_<type>_<type of dtable> adds the rows of dy that have
// the same id in token order, so it does not scatter: each row of dtable
// belongs to one block, which finds its tokens by reading `ids`. Most rows of a
// large vocabulary have none. A count for each id, which is computed before,
// tells the block whether and for how long it has to search.
//
// te_embedding_accumulate_<...> adds to the rows that tokens name and touches
// no other: a row belongs to the block of the first token with its id.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Device/elements.cuh"
#include "Kernels/Device/launch_sm90.cuh"
#include "Kernels/Embedding/embedding_args.h"

namespace te::rt::cuda {
namespace {

template <typename Unit>
__device__ __forceinline__ void embedding(const EmbeddingArgs &args) {
  const int64_t token = blockIdx.x / args.blocksPerRow;
  const int64_t first = static_cast<int64_t>(blockIdx.x % args.blocksPerRow) *
                            (kEmbeddingUnroll * kEmbeddingBlock) +
                        threadIdx.x;
  const int32_t id = args.ids[token];
  const bool inside = id >= 0 && id < args.vocab;
  const Unit *from =
      static_cast<const Unit *>(args.table) + (inside ? id * args.units : 0);
  Unit *to = static_cast<Unit *>(args.y) + token * args.units;
  Unit units[kEmbeddingUnroll] = {};
#pragma unroll
  for (int u = 0; u < kEmbeddingUnroll; ++u)
    if (inside && first + u * kEmbeddingBlock < args.units)
      units[u] = from[first + u * kEmbeddingBlock];
#pragma unroll
  for (int u = 0; u < kEmbeddingUnroll; ++u)
    if (first + u * kEmbeddingBlock < args.units)
      to[first + u * kEmbeddingBlock] = units[u];
}

/// Tokens examined between two barriers: 32 words of match bits.
constexpr int kScan = 1024;

/// Finds the tokens of one id, kScan at a time, for the whole block.
class TokenScan {
public:
  struct Storage {
    uint32_t matches[kScan / 32];
    int16_t found[kScan];
    int foundCount;
  };
  __device__ TokenScan(Storage &storage) : storage(storage) {}

  /// Finds the tokens base + storage.found[0 ... result) that have `id`, in
  /// increasing order. The whole block calls it; the list is valid until the
  /// next call.
  __device__ __forceinline__ int scan(const EmbeddingBackwardArgs &args,
                                      int64_t base, int32_t id) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int thread = static_cast<int>(threadIdx.x % 32);
    bool any = false;
#pragma unroll
    for (int k = 0; k < kScan / kEmbeddingBlock; ++k) {
      const int64_t token = base + k * kEmbeddingBlock + threadIdx.x;
      const bool match = token < args.tokens && args.ids[token] == id;
      const uint32_t bits = __ballot_sync(~0u, match);
      if (thread == 0)
        storage.matches[k * (kEmbeddingBlock / 32) + warp] = bits;
      any |= match;
    }
    // This barrier also keeps this call from overwriting the list of the last
    // one while it is read.
    if (!__syncthreads_or(any))
      return 0;
    if (warp == 0) {
      uint32_t bits = storage.matches[thread];
      const int own = __popc(bits);
      int end = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int before = __shfl_up_sync(~0u, end, distance);
        end += thread >= distance ? before : 0;
      }
      for (int at = end - own; bits != 0; ++at, bits &= bits - 1)
        storage.found[at] = static_cast<int16_t>(thread * 32 + __ffs(bits) - 1);
      if (thread == 31)
        storage.foundCount = end;
    }
    __syncthreads();
    return storage.foundCount;
  }

private:
  Storage &storage;
};

/// Adds to `acc` the rows of dy with the id `row` at N columns from `col`, in
/// token order. The whole block calls it; threads without a column (`active` is
/// false) help to find the tokens. False, for the whole block, if `first` is a
/// token (not -1) and is not the first one with the id.
template <typename T, int N>
__device__ __forceinline__ bool
addTokens(const EmbeddingBackwardArgs &args, TokenScan::Storage &storage,
          int64_t row, int64_t first, int64_t col, bool active,
          float (&acc)[N]) {
  const T *dy = static_cast<const T *>(args.dy) + col;
  int remaining = args.counts[row];
  for (int64_t base = 0; remaining > 0; base += kScan) {
    const int count =
        TokenScan(storage).scan(args, base, static_cast<int32_t>(row));
    if (first >= 0 && count > 0) {
      if (base + storage.found[0] != first)
        return false;
      first = -1;
    }
    remaining -= count;
    constexpr int kBatch = 4;
    for (int begin = 0; active && begin < count; begin += kBatch) {
      Run<T, N> runs[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u)
        if (begin + u < count)
          runs[u] = Run<T, N>::load(dy + (base + storage.found[begin + u]) *
                                             args.hidden);
#pragma unroll
      for (int u = 0; u < kBatch; ++u)
        if (begin + u < count) {
          float values[N];
          runs[u].unpack(values);
#pragma unroll
          for (int k = 0; k < N; ++k)
            acc[k] = acc[k] + values[k];
        }
    }
  }
  return true;
}

/// Writes every row of dtable.
template <typename T, typename Out, int N>
__device__ __forceinline__ void
embeddingBackward(const EmbeddingBackwardArgs &args,
                  TokenScan::Storage &storage) {
  const int64_t col =
      (static_cast<int64_t>(blockIdx.x % args.columnBlocks) * kEmbeddingBlock +
       threadIdx.x) *
      N;
  const bool active = col < args.hidden;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / args.columnBlocks) *
                        kEmbeddingRowsPerBlock;
  for (int64_t row = begin;
       row < begin + kEmbeddingRowsPerBlock && row < args.vocab; ++row) {
    float acc[N] = {};
    addTokens<T, N>(args, storage, row, /*first=*/-1, col, active, acc);
    float rounded[N];
    Run<T, N>::pack(acc).unpack(rounded);
    if (active)
      Run<Out, N>::pack(rounded).store(static_cast<Out *>(args.dtable) +
                                       row * args.hidden + col);
  }
}

/// Adds to the row of dtable of one token's id, if the token is the first one
/// with the id.
template <typename T, typename Out, int N>
__device__ __forceinline__ void
embeddingAccumulate(const EmbeddingBackwardArgs &args,
                    TokenScan::Storage &storage) {
  const int64_t token = blockIdx.x / args.columnBlocks;
  const int64_t col =
      (static_cast<int64_t>(blockIdx.x % args.columnBlocks) * kEmbeddingBlock +
       threadIdx.x) *
      N;
  const bool active = col < args.hidden;
  const int32_t row = args.ids[token];
  if (row < 0 || row >= args.vocab)
    return;
  float acc[N] = {};
  if (!addTokens<T, N>(args, storage, row, token, col, active, acc) || !active)
    return;
  Out *to = static_cast<Out *>(args.dtable) + row * args.hidden + col;
  float rounded[N], sum[N];
  Run<T, N>::pack(acc).unpack(rounded);
  Run<Out, N>::load(to).unpack(sum);
#pragma unroll
  for (int k = 0; k < N; ++k)
    sum[k] = sum[k] + rounded[k];
  Run<Out, N>::pack(sum).store(to);
}

} // namespace
} // namespace te::rt::cuda

using namespace te::rt::cuda;

#define TE_EMBEDDING(bytes, Unit)                                              \
  extern "C" __global__ void __launch_bounds__(kEmbeddingBlock)                \
      te_embedding_##bytes(const __grid_constant__ EmbeddingArgs args) {       \
    te::rt::cuda::ptx::beginKernel();                                          \
    embedding<Unit>(args);                                                     \
  }
TE_EMBEDDING(1, uint8_t)
TE_EMBEDDING(2, uint16_t)
TE_EMBEDDING(4, uint32_t)
TE_EMBEDDING(16, uint4)

extern "C" __global__ void __launch_bounds__(kEmbeddingBlock)
    te_embedding_count(const __grid_constant__ EmbeddingCountArgs args) {
  te::rt::cuda::ptx::beginKernel();
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * kEmbeddingBlock + threadIdx.x;
  if (token >= args.tokens)
    return;
  const int32_t id = args.ids[token];
  if (id >= 0 && id < args.vocab)
    atomicAdd(&args.counts[id], 1);
}

#define TE_EMBEDDING_BACKWARD(type, T, Out)                                    \
  extern "C" __global__ void __launch_bounds__(kEmbeddingBlock)                \
      te_embedding_backward_##type(                                            \
          const __grid_constant__ EmbeddingBackwardArgs args) {                \
    te::rt::cuda::ptx::beginKernel();                                          \
    __shared__ TokenScan::Storage storage;                                     \
    if (args.vectors)                                                          \
      embeddingBackward<T, Out, runLength<Out>>(args, storage);                \
    else                                                                       \
      embeddingBackward<T, Out, 1>(args, storage);                             \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kEmbeddingBlock)                \
      te_embedding_accumulate_##type(                                          \
          const __grid_constant__ EmbeddingBackwardArgs args) {                \
    te::rt::cuda::ptx::beginKernel();                                          \
    __shared__ TokenScan::Storage storage;                                     \
    if (args.vectors)                                                          \
      embeddingAccumulate<T, Out, runLength<Out>>(args, storage);              \
    else                                                                       \
      embeddingAccumulate<T, Out, 1>(args, storage);                           \
  }
TE_EMBEDDING_BACKWARD(f32_f32, float, float)
TE_EMBEDDING_BACKWARD(bf16_bf16, bf16, bf16)
TE_EMBEDDING_BACKWARD(bf16_f32, bf16, float)
TE_EMBEDDING_BACKWARD(f16_f16, f16, f16)
TE_EMBEDDING_BACKWARD(f16_f32, f16, float)
