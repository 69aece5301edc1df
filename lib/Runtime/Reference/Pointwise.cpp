//===- Pointwise.cpp - generated code, bias_add, copies and fills ---------===//

#include "Reference/Reference.h"

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <cstring>

namespace te::rt::reference {

void generated(const generated_params &p, void *const *buffers) {
  const auto *code = reinterpret_cast<const te_rt_generated *>(p.function);
  const int64_t block = code->block_elements;
  for (int i = 0; generated_buffers::out0 + i < generated_buffers::count_; ++i)
    if (code->amaxes >> i & 1)
      *static_cast<float *>(buffers[generated_buffers::out0 + i]) = 0.0f;
  parallelFor(ceilDiv(p.count, block), p.count,
              [&](int64_t begin, int64_t end) {
                code->host(buffers, begin * block,
                           std::min(end * block, p.count), code->stream);
              });
}

void copy(const copy_params &p, void *const *buffers) {
  std::memmove(buffers[copy_buffers::y], buffers[copy_buffers::x], p.bytes);
}

void copy_strided(const copy_strided_params &p, void *const *buffers) {
  const auto *x = static_cast<const char *>(buffers[copy_strided_buffers::x]);
  auto *y = static_cast<char *>(buffers[copy_strided_buffers::y]);
  for (int64_t part = 0; part < p.parts; ++part)
    for (int64_t r = 0; r < p.rows; ++r)
      if (p.bytes != 0)
        std::memcpy(y + part * p.y_part + r * p.y_row,
                    x + part * p.x_part + r * p.x_row, p.bytes);
}

void bias_add(const bias_add_params &p, void *const *buffers) {
  namespace b = bias_add_buffers;
  for (int64_t i = 0; i < p.rows * p.cols; ++i)
    store(buffers[b::y], i,
          load(buffers[b::x], i, p.type) +
              load(buffers[b::bias], i % p.cols, p.type),
          p.type);
}

void fill(const fill_params &p, void *const *buffers) {
  if (isSkipped(buffers[fill_buffers::skip]))
    return;
  for (int64_t i = 0; i < p.count; ++i)
    store(buffers[fill_buffers::y], i, p.value, p.type);
}

} // namespace te::rt::reference
