//===- global_memory.cuh - accesses to global memory ----------------------===//
//
// These are loads and stores for which the compiler would choose another form.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH
#define TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH

#include <cstdint>

namespace te::rt::cuda::ptx {

/// Defines `name`, ld.global.nc.L1::<hint>.v4: 16 bytes of global memory that
/// the kernel does not write; and `name`If, which is predicated: the same if
/// `inside`, otherwise zeros, without a branch.
#define TE_LOAD_16(name, hint)                                                 \
  __device__ __forceinline__ void name(uint32_t &a, uint32_t &b, uint32_t &c,  \
                                       uint32_t &d, const uint32_t *from) {    \
    asm volatile("ld.global.nc.L1::" hint ".v4.u32 {%0, %1, %2, %3}, [%4];"    \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)                          \
                 : "l"(from));                                                 \
  }                                                                            \
  __device__ __forceinline__ void name##If(                                    \
      bool inside, uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,         \
      const uint32_t *from) {                                                  \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"             \
                 "mov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\t"                        \
                 "mov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"                        \
                 "@p ld.global.nc.L1::" hint ".v4.u32 {%0, %1, %2, %3}, "      \
                 "[%4];\n\t}"                                                  \
                 : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)                      \
                 : "l"(from), "r"(static_cast<uint32_t>(inside)));             \
  }

/// For memory that is read once.
TE_LOAD_16(loadStreaming16, "no_allocate")
/// For a half of a sector of 32 bytes of which the thread reads the other half
/// next: without L1, the sector would come from L2 twice.
TE_LOAD_16(loadHalfSector, "evict_first")
#undef TE_LOAD_16

/// ld.global.nc: memory that the kernel does not write. The compiler does not
/// move these loads before beginKernel, as it may those of the intrinsic.
__device__ __forceinline__ uint32_t loadReadOnly4(const void *from) {
  uint32_t word;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}
__device__ __forceinline__ uint2 loadReadOnly8(const void *from) {
  uint2 words;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
               : "=r"(words.x), "=r"(words.y)
               : "l"(from));
  return words;
}

/// st.global.v4: one 16-byte store. NVVM splits an ordinary one if it sees
/// how the words are computed.
__device__ __forceinline__ void store16(void *to, uint32_t a, uint32_t b,
                                        uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH
