//===- ptx_sm90.cuh - Hopper instructions by name -------------------------===//
//
// The only place with inline PTX for mbarriers, bulk copies, clusters and
// warpgroup matrix products. Each wrapper is one instruction; the waiting rules
// stand at the wrapper that needs them. Compiled empty below and above sm_90a,
// whose products these are.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_PTX_SM90_CUH
#define TE_RUNTIME_KERNELS_DEVICE_PTX_SM90_CUH

#include <cstdint>
#include <cuda.h>

namespace te::rt::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ uint32_t sharedAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- clusters ---------------------------------------------------------------

__device__ __forceinline__ uint32_t clusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Every thread of every CTA of the cluster; orders shared memory accesses.
__device__ __forceinline__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// --- mbarriers --------------------------------------------------------------

__device__ __forceinline__ void barrierInit(uint64_t *barrier, uint32_t count) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(count));
}

/// Makes initialised barriers visible to the copy engine and to other CTAs.
__device__ __forceinline__ void barrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// One arrival that also announces `bytes` of bulk copies.
__device__ __forceinline__ void barrierArriveExpect(uint64_t *barrier,
                                                    uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

/// One arrival on the same barrier of CTA `rank` of the cluster. It says that
/// this thread has read, not that it has written: release at cluster scope
/// would cost a device-wide fence.
__device__ __forceinline__ void barrierArriveRemote(uint64_t *barrier,
                                                    uint32_t rank) {
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, "
               "[remote];\n"
               "}" ::"r"(sharedAddress(barrier)),
               "r"(rank)
               : "memory");
}

/// Returns once the phase with `parity` has completed.
__device__ __forceinline__ void barrierWait(uint64_t *barrier,
                                            uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "TE_WAIT_%=:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra TE_DONE_%=;\n"
               "bra TE_WAIT_%=;\n"
               "TE_DONE_%=:\n"
               "}" ::"r"(sharedAddress(barrier)),
               "r"(parity)
               : "memory");
}

/// What this thread wrote to its CTA's shared memory is there for the tensor
/// core and the copy engine, once a barrier has told their user.
__device__ __forceinline__ void proxyFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The first `Threads` threads of named barrier `Barrier` (0 is __syncthreads).
template <int Barrier, int Threads>
__device__ __forceinline__ void barrierSync() {
  asm volatile("bar.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}

// --- bulk copies (completion counted in bytes on a barrier) -----------------

/// Box of `map` at element (x, y).
__device__ __forceinline__ void copyTile(void *to, const CUtensorMap *map,
                                         uint64_t *barrier, int32_t x,
                                         int32_t y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(sharedAddress(to)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y)
      : "memory");
}

/// As copyTile, of a map of three dimensions.
__device__ __forceinline__ void copyTile3(void *to, const CUtensorMap *map,
                                          uint64_t *barrier, int32_t x,
                                          int32_t y, int32_t z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
                   sharedAddress(to)),
               "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

/// The same box into every CTA whose bit is set in `ctas`, at the same offset
/// of its shared memory and counted on the same barrier there.
__device__ __forceinline__ void copyTileMulticast(void *to,
                                                  const CUtensorMap *map,
                                                  uint64_t *barrier, int32_t x,
                                                  int32_t y, uint16_t ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
               "[%2], %5;" ::"r"(sharedAddress(to)),
               "l"(map), "r"(sharedAddress(barrier)), "r"(x), "r"(y), "h"(ctas)
               : "memory");
}

/// `bytes` contiguous bytes; addresses and size are multiples of 16.
__device__ __forceinline__ void copyBytes(void *to, const void *from,
                                          uint64_t *barrier, uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %3, [%2];" ::"r"(sharedAddress(to)),
               "l"(from), "r"(sharedAddress(barrier)), "r"(bytes)
               : "memory");
}

/// Box of `map` at element (x, y) into L2.
__device__ __forceinline__ void prefetchTile(const CUtensorMap *map, int32_t x,
                                             int32_t y) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map),
      "r"(x), "r"(y)
      : "memory");
}

__device__ __forceinline__ void prefetchMap(const CUtensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// --- registers ---------------------------------------------------------------

template <int Registers> __device__ __forceinline__ void registersIncrease() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> __device__ __forceinline__ void registersDecrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// --- warpgroup matrix products ----------------------------------------------

/// Describes a K-major operand tile with 128-byte rows in the 128-byte swizzle
/// a tensor map writes; 8 rows are 1024 bytes apart. Adding 2 moves 32 bytes
/// along K.
__device__ __forceinline__ uint64_t operandDescriptor(const void *tile) {
  return static_cast<uint64_t>((sharedAddress(tile) & 0x3ffff) >> 4) |
         uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

/// Describes a tile whose *other* axis is contiguous, in chunks of 64 16-bit
/// elements (128-byte rows, one for each element of K, in the same swizzle);
/// the next chunk is `chunkBytes` on. Adding 128 moves 16 rows along K.
__device__ __forceinline__ uint64_t
operandDescriptorAcross(const void *tile, uint32_t chunkBytes) {
  return static_cast<uint64_t>((sharedAddress(tile) & 0x3ffff) >> 4) |
         uint64_t(chunkBytes >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

/// Before the first product that touches registers the compiler also uses.
__device__ __forceinline__ void productFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void productCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most `Pending` committed groups are unfinished.
template <int Pending> __device__ __forceinline__ void productWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Where the compiler may neither move uses of d up nor its definitions down:
/// products write d after the instruction that starts them.
__device__ __forceinline__ void productPin(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
}

/// d[64 x 128] = a[64 x K] b[128 x K]^T (+ d); K is 32 of 8-bit operands, 16 of
/// bf16. `suffix` says which of these lie across. Thread t of
/// the warpgroup holds, with w = t / 32 and l = t % 32, in d[4j + 2h + e] the
/// element of row 16w + l / 4 + 8h and column 8j + 2 (l % 4) + e.
#define TE_PRODUCT_M64N128(name, types, suffix)                                \
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
        "%64, %65, p, 1, 1" suffix ";\n"                                       \
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

TE_PRODUCT_M64N128(productE4M3E4M3, "k32.f32.e4m3.e4m3", "")
TE_PRODUCT_M64N128(productE5M2E4M3, "k32.f32.e5m2.e4m3", "")
TE_PRODUCT_M64N128(productE4M3E5M2, "k32.f32.e4m3.e5m2", "")
TE_PRODUCT_M64N128(productBf16, "k16.f32.bf16.bf16", ", 0, 0")
TE_PRODUCT_M64N128(productBf16BAcross, "k16.f32.bf16.bf16", ", 0, 1")
TE_PRODUCT_M64N128(productBf16Across, "k16.f32.bf16.bf16", ", 1, 1")
#undef TE_PRODUCT_M64N128

#endif // __CUDA_ARCH_FEAT_SM90_ALL

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_PTX_SM90_CUH
