//===- wgmma_sm90.cuh - warpgroup matrix multiply-accumulate --------------===//
//
// wgmma.mma_async multiplies two operand tiles in shared memory, which
// descriptors describe, and accumulates in f32 registers. It is asynchronous:
// an accumulator may be read only after its group was committed and waited for.
// Compiled for sm_90a only.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_WGMMA_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_WGMMA_SM90_CUH

#include "Kernels/Device/shared_address.cuh"

#include <cstdint>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// The descriptor of a K-major operand tile with rows of 128 bytes in the
/// 128-byte swizzle that TMA writes; 8 rows are 1024 bytes apart. Adding 2
/// moves 32 bytes along K.
__device__ __forceinline__ uint64_t wgmmaDescriptor(const void *tile) {
  return static_cast<uint64_t>((sharedAddress(tile) & 0x3ffff) >> 4) |
         uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

/// The descriptor of an MN-major operand tile of 16-bit elements: the M or N
/// axis is contiguous, in chunks of 64 elements (rows of 128 bytes, one for
/// each element of K, in the same swizzle), and the next chunk is `chunkBytes`
/// on. Adding 128 moves 16 rows along K.
__device__ __forceinline__ uint64_t
wgmmaDescriptorMnMajor(const void *tile, uint32_t chunkBytes) {
  return static_cast<uint64_t>((sharedAddress(tile) & 0x3ffff) >> 4) |
         uint64_t(chunkBytes >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

/// wgmma.fence: required before the first wgmma that accesses registers which
/// other instructions have accessed.
__device__ __forceinline__ void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// wgmma.commit_group: ends the group of the wgmmas since the last call.
__device__ __forceinline__ void wgmmaCommitGroup() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// wgmma.wait_group: waits until at most `Pending` committed groups are
/// unfinished.
template <int Pending> __device__ __forceinline__ void wgmmaWaitGroup() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Emits no instruction. The compiler may neither move uses of d above it nor
/// definitions of d below it: wgmma writes d after the instruction that starts
/// it.
__device__ __forceinline__ void pinAccumulator(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
}

/// wgmma.mma_async.m64n128: d[64 x 128] = a[64 x K] b[128 x K]^T (+ d), where K
/// is 32 for 8-bit operands and 16 for bf16. `majors` selects which operands
/// are MN-major. With w = t / 32 and l = t % 32, thread t of the warpgroup has
/// in d[4j + 2h + e] the element of row 16w + l / 4 + 8h and column 8j + 2 (l %
/// 4) + e.
#define TE_WGMMA_M64N128(name, types, majors)                                  \
  __device__ __forceinline__ void name(float (&d)[64], uint64_t a, uint64_t b, \
                                       bool accumulate) {                      \
    asm volatile(                                                              \
        "{\n"                                                                  \
        ".reg .pred p;\n"                                                      \
        "setp.ne.b32 p, %66, 0;\n"                                             \
        "wgmma.mma_async.sync.aligned.m64n128" types " {"                      \
        "%0, %1, %2, %3, %4, %5, %6, %7, "                                     \
        "%8, %9, %10, %11, %12, %13, %14, %15, "                               \
        "%16, %17, %18, %19, %20, %21, %22, %23, "                             \
        "%24, %25, %26, %27, %28, %29, %30, %31, "                             \
        "%32, %33, %34, %35, %36, %37, %38, %39, "                             \
        "%40, %41, %42, %43, %44, %45, %46, %47, "                             \
        "%48, %49, %50, %51, %52, %53, %54, %55, "                             \
        "%56, %57, %58, %59, %60, %61, %62, %63}, "                            \
        "%64, %65, p, 1, 1" majors ";\n"                                       \
        "}"                                                                    \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),          \
          "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),          \
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),     \
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),     \
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),     \
          "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),     \
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),     \
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]),     \
          "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),     \
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),     \
          "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),     \
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                   \
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                  \
  }

TE_WGMMA_M64N128(wgmmaE4M3E4M3, "k32.f32.e4m3.e4m3", "")
TE_WGMMA_M64N128(wgmmaE5M2E4M3, "k32.f32.e5m2.e4m3", "")
TE_WGMMA_M64N128(wgmmaE4M3E5M2, "k32.f32.e4m3.e5m2", "")
TE_WGMMA_M64N128(wgmmaBf16, "k16.f32.bf16.bf16", ", 0, 0")
TE_WGMMA_M64N128(wgmmaBf16MnMajorB, "k16.f32.bf16.bf16", ", 0, 1")
TE_WGMMA_M64N128(wgmmaBf16MnMajor, "k16.f32.bf16.bf16", ", 1, 1")
#undef TE_WGMMA_M64N128

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_WGMMA_SM90_CUH
