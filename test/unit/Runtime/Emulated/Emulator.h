//===- Emulator.h - CUDA kernels as code of the host ----------------------===//
//
// Include this before a .cu file of lib/Runtime/Kernels, compiled as C++. The
// threads of a block are fibers of one thread of the host, which run until they
// wait for each other. A launch runs the blocks one after the other.
//
// This shows what a kernel computes, with which grid and which alignment. It
// does not show its speed, and it does not show a race between threads, except
// that the order of blocks and threads alternates. Instructions that are
// written in PTX are replaced by the headers in Kernels/Device, which are found
// before those of lib/Runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_EMULATED_EMULATOR_H
#define TE_UNITTEST_RUNTIME_EMULATED_EMULATOR_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace te::emulated {

/// Calls a kernel, whose argument is a struct at `arguments[0]`.
using Call = void (*)(const void *function, void **arguments);

/// Adds a kernel to those that launches find by name.
struct Registration {
  template <typename Args>
  Registration(const char *name, void (*function)(Args))
      : Registration(name, reinterpret_cast<const void *>(function),
                     [](const void *kernel, void **arguments) {
                       reinterpret_cast<void (*)(Args)>(const_cast<void *>(
                           kernel))(*static_cast<const Args *>(arguments[0]));
                     }) {}
  Registration(const char *name, const void *function, Call call);
};

#define TE_EMULATED(kernel)                                                    \
  static const te::emulated::Registration register_##kernel(#kernel, kernel);

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
/// Of the thread that runs.
extern Index thread, block, blockSize, gridSize;

/// Waits for all threads of the block.
void waitForBlock();

/// The values of the 32 lanes of a warp, after all lanes of `mask` have called
/// the intrinsic `name`. Those of other lanes are unspecified.
const uint64_t *exchange(const char *name, uint32_t mask, uint64_t value);

/// Starts a copy of 16 bytes, or of zeros if `from` is null. It is made as late
/// as possible: when the thread leaves at most `pending` groups unfinished.
void startCopy(void *to, const void *from);
void commitCopies();
void waitForCopies(size_t pending);

/// Ends the process with a message that names the kernel and the thread.
[[noreturn]] void fail(const std::string &message);

inline unsigned lane() { return thread.x % 32; }

template <typename T>
const uint64_t *exchangeBits(const char *name, uint32_t mask, T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return exchange(name, mask, bits);
}

/// The value of lane `from`, which is in `mask`.
template <typename T>
T shuffle(const char *name, uint32_t mask, T value, unsigned from) {
  const uint64_t *values = exchangeBits(name, mask, value);
  if ((mask >> from & 1) == 0)
    fail("reads a lane that is not in the mask");
  std::memcpy(&value, &values[from], sizeof(value));
  return value;
}

/// The values of all lanes of `mask`, combined.
template <typename T, typename Combine>
T reduce(const char *name, uint32_t mask, T value, Combine combine) {
  const uint64_t *values = exchangeBits(name, mask, value);
  for (unsigned other = 0; other < 32; ++other)
    if (other != lane() && (mask >> other & 1))
      value = combine(value, static_cast<T>(values[other]));
  return value;
}

} // namespace te::emulated

//===----------------------------------------------------------------------===//
// The language
//===----------------------------------------------------------------------===//

// Variables of a function or of the namespace, also where they are declared
// `extern`. The fibers of a block are in one thread of the host.
#undef __shared__
#define __shared__ thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __forceinline__
#define __forceinline__ inline

#define threadIdx te::emulated::thread
#define blockIdx te::emulated::block
#define blockDim te::emulated::blockSize
#define gridDim te::emulated::gridSize

using std::isfinite;
using std::isnan;
using std::signbit;

template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }

//===----------------------------------------------------------------------===//
// Intrinsics
//===----------------------------------------------------------------------===//

inline void __syncthreads() { te::emulated::waitForBlock(); }
inline void __syncwarp(uint32_t mask = ~0u) {
  te::emulated::exchange("__syncwarp", mask, 0);
}
template <typename T> T __shfl_sync(uint32_t mask, T value, int from) {
  return te::emulated::shuffle("__shfl_sync", mask, value, from & 31);
}
template <typename T> T __shfl_xor_sync(uint32_t mask, T value, int with) {
  return te::emulated::shuffle("__shfl_xor_sync", mask, value,
                               (te::emulated::lane() ^ with) & 31);
}
template <typename T> T __shfl_up_sync(uint32_t mask, T value, unsigned by) {
  const unsigned lane = te::emulated::lane();
  return te::emulated::shuffle("__shfl_up_sync", mask, value,
                               lane < by ? lane : lane - by);
}
template <typename T> T __shfl_down_sync(uint32_t mask, T value, unsigned by) {
  const unsigned lane = te::emulated::lane();
  return te::emulated::shuffle("__shfl_down_sync", mask, value,
                               lane + by > 31 ? lane : lane + by);
}
inline uint32_t __ballot_sync(uint32_t mask, bool holds) {
  const uint32_t own = uint32_t{holds} << te::emulated::lane();
  return te::emulated::reduce("__ballot_sync", mask, own,
                              [](uint32_t a, uint32_t b) { return a | b; });
}
template <typename T> uint32_t __match_any_sync(uint32_t mask, T value) {
  const uint64_t *values =
      te::emulated::exchangeBits("__match_any_sync", mask, value);
  uint32_t equal = 0;
  for (unsigned other = 0; other < 32; ++other)
    if (mask >> other & 1)
      equal |= uint32_t{values[other] == values[te::emulated::lane()]} << other;
  return equal;
}
template <typename T> void __stcs(T *to, T value) { *to = value; }
template <typename T> T __reduce_max_sync(uint32_t mask, T value) {
  return te::emulated::reduce("__reduce_max_sync", mask, value,
                              [](T a, T b) { return a < b ? b : a; });
}
template <typename T> T __reduce_add_sync(uint32_t mask, T value) {
  return te::emulated::reduce("__reduce_add_sync", mask, value,
                              [](T a, T b) { return a + b; });
}
inline int __syncthreads_or(int holds) {
  __shared__ int any;
  __syncthreads();
  any = 0;
  __syncthreads();
  any |= holds != 0;
  __syncthreads();
  return any;
}
inline void __threadfence() {}
inline void __threadfence_system() {}

// Only one fiber runs at a time, and it stops only where it waits.
template <typename T, typename U> T atomicAdd(T *to, U value) {
  const T before = *to;
  *to = before + static_cast<T>(value);
  return before;
}
template <typename T, typename U> T atomicMax(T *to, U value) {
  const T before = *to;
  *to = max(before, static_cast<T>(value));
  return before;
}
template <typename T, typename U> T atomicMin(T *to, U value) {
  const T before = *to;
  *to = min(before, static_cast<T>(value));
  return before;
}
template <typename T, typename U> T atomicExch(T *to, U value) {
  const T before = *to;
  *to = static_cast<T>(value);
  return before;
}
inline unsigned atomicInc(unsigned *to, unsigned last) {
  const unsigned before = *to;
  *to = before >= last ? 0 : before + 1;
  return before;
}

inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline int __popc(uint32_t x) { return std::popcount(x); }
inline int __ffs(uint32_t x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = selectors >> 4 * i & 0xf;
    if (selector & 8)
      te::emulated::fail("replicates a sign in __byte_perm");
    result |= static_cast<uint32_t>(bytes >> 8 * selector & 0xff) << 8 * i;
  }
  return result;
}
template <typename T> T __ldcs(const T *from) { return *from; }
[[noreturn]] inline void __trap() { te::emulated::fail("__trap"); }

#endif // TE_UNITTEST_RUNTIME_EMULATED_EMULATOR_H
