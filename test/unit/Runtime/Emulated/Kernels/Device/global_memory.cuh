//===- global_memory.cuh - accesses to global memory, emulated ------------===//

#ifndef TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH
#define TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH

#include "Runtime/Emulated/Emulator.h"

namespace te::rt::cuda::ptx {

inline void requireAligned16(const void *pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0)
    emulated::fail("accesses 16 bytes at an address that is not aligned");
}

inline void loadStreaming16(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                            const uint32_t *from) {
  requireAligned16(from);
  a = from[0], b = from[1], c = from[2], d = from[3];
}

inline void loadStreaming16If(bool inside, uint32_t &a, uint32_t &b,
                              uint32_t &c, uint32_t &d, const uint32_t *from) {
  a = b = c = d = 0;
  if (inside)
    loadStreaming16(a, b, c, d, from);
}

inline void loadHalfSector(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                           const uint32_t *from) {
  loadStreaming16(a, b, c, d, from);
}

inline void loadHalfSectorIf(bool inside, uint32_t &a, uint32_t &b, uint32_t &c,
                             uint32_t &d, const uint32_t *from) {
  loadStreaming16If(inside, a, b, c, d, from);
}

inline uint32_t loadReadOnly4(const void *from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}
inline uint2 loadReadOnly8(const void *from) {
  const auto *words = static_cast<const uint32_t *>(from);
  return {loadReadOnly4(words), loadReadOnly4(words + 1)};
}

inline void store16(void *to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  requireAligned16(to);
  const uint32_t words[] = {a, b, c, d};
  std::memcpy(to, words, sizeof(words));
}

} // namespace te::rt::cuda::ptx

#endif // TE_RUNTIME_KERNELS_DEVICE_GLOBAL_MEMORY_CUH
