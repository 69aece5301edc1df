//===- KernelBench.cpp - each kernel alone, at the MLP block's shapes -----===//
//
// Kernels are planned and launched through the ABI compiled code uses. Bytes
// are the fewest a kernel must move (inputs once, outputs once); the fraction
// is against a copy of the same number of bytes measured right before it.
//
//===----------------------------------------------------------------------===//

#include "BenchKernel.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace te::bench;

namespace {

struct Buffer {
  int64_t count;
  te_rt_dtype type;
  float sigma = 1.0f;
};
constexpr Buffer none = {-1, TE_RT_F32};

struct Case {
  std::string name;
  Planner planner;
  /// In the order of the kernel's row; `none` for an absent optional one, which
  /// the last ones need not be told.
  std::vector<Buffer> buffers;
  /// Bytes that must move, or 0 for a GEMM.
  int64_t bytes;
  double flops = 0;
};

class KernelBench {
public:
  KernelBench(te_rt_context *context, const Effort &effort,
              const std::string &filter)
      : context(context), effort(effort), filter(filter) {}

  void run(const Case &test) {
    if (test.name.find(filter) == std::string::npos)
      return;
    DeviceBuffers memory(context);
    // Three sets, so that no launch finds its input in the cache.
    constexpr int sets = 3;
    std::vector<std::vector<void *>> pointers(sets);
    for (auto &set : pointers) {
      for (const Buffer &buffer : test.buffers)
        set.push_back(buffer.count < 0
                          ? nullptr
                          : memory.allocateRandom(buffer.count, buffer.type,
                                                  buffer.sigma));
      set.resize(set.size() + 4);
    }
    Kernel kernel(context, test.planner);
    double copyMs = test.bytes ? copyTime(test.bytes) : 0;
    Timing timing = measure(context, effort, [&](int64_t i) {
      kernel.enqueue(pointers[i % sets].data());
    });
    llvm::json::Object row{{"name", test.name},
                           {"burst_us", timing.burstMs * 1e3},
                           {"sustained_us", timing.sustainedMs * 1e3}};
    llvm::outs() << llvm::format("%-46s %9.1f %9.1f us", test.name.c_str(),
                                 timing.burstMs * 1e3,
                                 timing.sustainedMs * 1e3);
    if (test.bytes) {
      double fraction = copyMs / timing.sustainedMs;
      row["bytes"] = test.bytes;
      row["copy_us"] = copyMs * 1e3;
      row["fraction_of_copy"] = fraction;
      llvm::outs() << llvm::format("  %5.2f TB/s  %4.0f %% of copy\n",
                                   test.bytes / timing.sustainedMs * 1e-9,
                                   fraction * 100);
    } else {
      row["tflops_burst"] = test.flops / timing.burstMs * 1e-9;
      row["tflops_sustained"] = test.flops / timing.sustainedMs * 1e-9;
      llvm::outs() << llvm::format("  %5.0f burst %5.0f sustained TFLOPS\n",
                                   test.flops / timing.burstMs * 1e-9,
                                   test.flops / timing.sustainedMs * 1e-9);
    }
    llvm::outs().flush();
    rows.push_back(std::move(row));
  }

  llvm::json::Array rows;

private:
  double copyTime(int64_t bytes) {
    int64_t half = bytes / 2;
    DeviceBuffers memory(context);
    void *buffers[3][2];
    for (auto &set : buffers) {
      set[0] = memory.allocateRandom(half, TE_RT_F8E4M3FN, 1.0f);
      set[1] = memory.allocate(half);
    }
    Kernel kernel(context, [=](te_rt_instance *instance) {
      return te_rt_plan_copy(instance, 0, half);
    });
    return measure(context, effort,
                   [&](int64_t i) { kernel.enqueue(buffers[i % 3]); })
        .sustainedMs;
  }

  te_rt_context *context;
  const Effort &effort;
  const std::string &filter;
};

} // namespace

llvm::json::Array te::bench::runKernelBench(te_rt_context *context,
                                            const Effort &effort,
                                            const std::string &filter) {
  KernelBench bench(context, effort, filter);
  constexpr int64_t T = 8192, H = 4096, F = 14336;
  auto scales = [](int64_t outer, int64_t contraction) {
    return (contraction + 127) / 128 * ((outer + 3) / 4 * 4);
  };
  auto squareScales = [](int64_t outer, int64_t contraction) {
    return (outer + 127) / 128 * (((contraction + 127) / 128 + 3) / 4 * 4);
  };
  // Bytes of the scales of a usage of MX or NVFP4 values.
  auto microscales = [](int64_t outer, int64_t contraction, int64_t block) {
    return (outer + 127) / 128 * 128 * ((contraction / block + 3) / 4 * 4);
  };
  llvm::outs() << "kernel                                             "
                  "burst sustained\n";

  for (int64_t cols : {H, F}) {
    const int64_t n = T * cols;
    const std::string size = " 8192x" + std::to_string(cols);
    bench.run({"amax" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_amax(i, 0, n, TE_RT_BF16);
               },
               {{n, TE_RT_BF16}, {1, TE_RT_F32}},
               2 * n});
    bench.run({"count_nonfinite" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_count_nonfinite(i, 0, n, TE_RT_BF16, 1, 0,
                                                   464.0f);
               },
               {{n, TE_RT_BF16}, none, {3, TE_RT_I32}, {3, TE_RT_I32}},
               2 * n});
    bench.run({"tensor_stats of a per-tensor cast" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_tensor_stats(i, 0, T, cols, TE_RT_BF16,
                                                TE_RT_F8E4M3FN,
                                                TE_RT_PER_TENSOR, 1, 0, 0);
               },
               {{n, TE_RT_BF16},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none,
                {14, TE_RT_F32}},
               3 * n});
    bench.run({"quantize_tensor row" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_quantize_tensor(i, 0, 1, T, cols, TE_RT_BF16,
                                                   TE_RT_F8E4M3FN);
               },
               {{n, TE_RT_BF16},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none,
                none,
                none},
               3 * n});
    // Delayed scaling of a forward alone: one usage, and the next step's amax.
    bench.run({"quantize_tensor row+amax" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_quantize_tensor(i, 0, 1, T, cols, TE_RT_BF16,
                                                   TE_RT_F8E4M3FN);
               },
               {{n, TE_RT_BF16},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none,
                none,
                {1, TE_RT_F32}},
               3 * n});
    bench.run({"quantize_tensor row+col" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_quantize_tensor(i, 0, 1, T, cols, TE_RT_BF16,
                                                   TE_RT_F8E4M3FN);
               },
               {{n, TE_RT_BF16},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none},
               4 * n});
    bench.run({"quantize_tensor row+col+amax" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_quantize_tensor(i, 0, 1, T, cols, TE_RT_BF16,
                                                   TE_RT_F8E4M3FN);
               },
               {{n, TE_RT_BF16},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                {1, TE_RT_F32}},
               4 * n});
    auto block = [=](int32_t scheme) {
      return [=](te_rt_instance *i) {
        return te_rt_plan_quantize_block(i, 0, 1, T, cols, TE_RT_BF16,
                                         TE_RT_F8E4M3FN, scheme, 1, 0.0f);
      };
    };
    const int64_t rowScales = scales(T, cols), colScales = scales(cols, T);
    bench.run({"quantize_block 1x128 row" + size,
               block(TE_RT_BLOCK_1X128),
               {{n, TE_RT_BF16},
                {n, TE_RT_F8E4M3FN},
                {rowScales, TE_RT_F32},
                none,
                none},
               3 * n + 4 * rowScales});
    bench.run({"quantize_block 1x128 row+col" + size,
               block(TE_RT_BLOCK_1X128),
               {{n, TE_RT_BF16},
                {n, TE_RT_F8E4M3FN},
                {rowScales, TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {colScales, TE_RT_F32}},
               4 * n + 4 * (rowScales + colScales)});
    bench.run({"quantize_block 128x128 row" + size,
               block(TE_RT_BLOCK_128X128),
               {{n, TE_RT_BF16},
                {n, TE_RT_F8E4M3FN},
                {squareScales(T, cols), TE_RT_F32},
                none,
                none},
               3 * n});
    // Half of the matrix, as the second of two ranks has it.
    const int64_t numBlocks = (T + 127) / 128 * ((cols + 127) / 128);
    bench.run({"partial_amax half" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_partial_amax(i, 0, n / 2, T, cols, n / 2,
                                                128, 128, TE_RT_BF16, 1, 0);
               },
               {{n / 2, TE_RT_BF16}, {numBlocks, TE_RT_F32}, none},
               n});
    bench.run({"quantize_shard half" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_quantize_shard(
                     i, 0, n / 2, T, cols, n / 2, TE_RT_BF16, TE_RT_F8E4M3FN,
                     TE_RT_BLOCK_128X128, 1, 1, 0.0f, 1, 0);
               },
               {{n / 2, TE_RT_BF16},
                {numBlocks, TE_RT_F32},
                {n / 2, TE_RT_F8E4M3FN},
                {squareScales(T, cols), TE_RT_F32},
                none},
               3 * n / 2});
    for (int32_t axis : {1, 0}) {
      const std::string blocks = axis ? " 1x32 half" : " 32x1 half";
      const int64_t scales =
          axis ? microscales(T, cols, 32) : microscales(cols, T, 32);
      bench.run({"partial_amax" + blocks + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_partial_amax(i, 0, n / 2, T, cols, n / 2,
                                                  axis ? 1 : 32, axis ? 32 : 1,
                                                  TE_RT_BF16, 1, 0);
                 },
                 {{n / 2, TE_RT_BF16}, {n / 32, TE_RT_F32}, none},
                 n + n / 8});
      bench.run({"quantize_shard" + blocks + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_quantize_shard(
                       i, 0, n / 2, T, cols, n / 2, TE_RT_BF16, TE_RT_F8E4M3FN,
                       TE_RT_MX_1X32, axis, 0, 0.0f, 1, 0);
                 },
                 {{n / 2, TE_RT_BF16},
                  {n / 32, TE_RT_F32},
                  {n / 2, TE_RT_F8E4M3FN},
                  {scales, TE_RT_F8E8M0FNU},
                  none},
                 3 * n / 2 + n / 8 + scales});
    }
    for (bool square : {true, false}) {
      const std::string blocks = square ? " 16x16 half" : " 1x16 half";
      const int64_t count = square ? n / 256 : n / 16;
      const int64_t scales = microscales(T, cols, 16);
      bench.run({"partial_amax" + blocks + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_partial_amax(i, 0, n / 2, T, cols, n / 2,
                                                  square ? 16 : 1, 16,
                                                  TE_RT_BF16, 1, 0);
                 },
                 {{n / 2, TE_RT_BF16}, {count, TE_RT_F32}, none},
                 n + 4 * count});
      bench.run({"quantize_nvfp4_shard" + blocks + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_quantize_nvfp4_shard(
                       i, 0, n / 2, T, cols, n / 2, TE_RT_BF16,
                       square ? TE_RT_NV_16X16 : TE_RT_NV_1X16, 448, 1, 0);
                 },
                 {{n / 2, TE_RT_BF16},
                  {count, TE_RT_F32},
                  {n / 4, TE_RT_F4E2M1FN},
                  {scales, TE_RT_F8E4M3FN},
                  {1, TE_RT_F32},
                  none},
                 n + n / 4 + 4 * count + scales});
    }
    bench.run({"quantize_block 128x128 row+col" + size,
               block(TE_RT_BLOCK_128X128),
               {{n, TE_RT_BF16},
                {n, TE_RT_F8E4M3FN},
                {squareScales(T, cols), TE_RT_F32},
                {n, TE_RT_F8E4M3FN},
                {squareScales(cols, T), TE_RT_F32}},
               4 * n});
    bench.run(
        {"dequantize block 1x128" + size,
         [=](te_rt_instance *i) {
           return te_rt_plan_dequantize(i, 0, 1, T, cols, TE_RT_F8E4M3FN,
                                        TE_RT_BLOCK_1X128, 1, 0, 0, TE_RT_BF16);
         },
         {{n, TE_RT_F8E4M3FN}, {rowScales, TE_RT_F32}, none, {n, TE_RT_BF16}},
         3 * n});
    const int64_t mxRow = microscales(T, cols, 32);
    const int64_t mxCol = microscales(cols, T, 32);
    for (bool square : {false, true}) {
      const std::string name =
          std::string("quantize_mx ") + (square ? "32x32" : "1x32");
      auto mx = [=](te_rt_instance *i) {
        return te_rt_plan_quantize_mx(i, 0, 1, T, cols, TE_RT_BF16,
                                      TE_RT_F8E4M3FN,
                                      square ? TE_RT_MX_32X32 : TE_RT_MX_1X32);
      };
      bench.run({name + " row" + size,
                 mx,
                 {{n, TE_RT_BF16},
                  {n, TE_RT_F8E4M3FN},
                  {mxRow, TE_RT_F8E8M0FNU},
                  none,
                  none},
                 3 * n + mxRow});
      bench.run({name + " row+col" + size,
                 mx,
                 {{n, TE_RT_BF16},
                  {n, TE_RT_F8E4M3FN},
                  {mxRow, TE_RT_F8E8M0FNU},
                  {n, TE_RT_F8E4M3FN},
                  {mxCol, TE_RT_F8E8M0FNU}},
                 4 * n + mxRow + mxCol});
    }
    const int64_t nvRow = microscales(T, cols, 16);
    const int64_t nvCol = microscales(cols, T, 16);
    struct NvCase {
      const char *name;
      int32_t scheme, fourOverSix, stochastic;
      bool col;
    };
    for (const NvCase &c :
         {NvCase{"1x16 row", TE_RT_NV_1X16, 0, 0, false},
          NvCase{"1x16 row+col", TE_RT_NV_1X16, 0, 0, true},
          NvCase{"1x16 row+col 4over6", TE_RT_NV_1X16, 1, 0, true},
          NvCase{"1x16 row+col stochastic", TE_RT_NV_1X16, 0, 1, true},
          NvCase{"16x16 row+col", TE_RT_NV_16X16, 0, 0, true}})
      bench.run({std::string("quantize_nvfp4 ") + c.name + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_quantize_nvfp4(
                       i, 0, 1, T, cols, TE_RT_BF16, c.scheme, 0, 448,
                       c.fourOverSix, c.stochastic, 0);
                 },
                 // An amax of the size that normal values have.
                 {{n, TE_RT_BF16},
                  {1, TE_RT_F32, 5.0f},
                  {2, TE_RT_I32},
                  {n / 2, TE_RT_F4E2M1FN},
                  {nvRow, TE_RT_F8E4M3FN},
                  {1, TE_RT_F32},
                  c.col ? Buffer{n / 2, TE_RT_F4E2M1FN} : none,
                  c.col ? Buffer{nvCol, TE_RT_F8E4M3FN} : none,
                  c.col ? Buffer{1, TE_RT_F32} : none},
                 2 * n + n / 2 + nvRow + (c.col ? n / 2 + nvCol : 0)});
    bench.run(
        {"hadamard" + size,
         [=](te_rt_instance *i) { return te_rt_plan_hadamard(i, 0, T, cols); },
         {{n, TE_RT_BF16}, {n, TE_RT_BF16}},
         4 * n});
    bench.run({"amax_rows" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_amax_rows(i, 0, T, cols, TE_RT_BF16);
               },
               {{n, TE_RT_BF16}, {T, TE_RT_F32}},
               2 * n});
    bench.run(
        {"dequantize mx 1x32" + size,
         [=](te_rt_instance *i) {
           return te_rt_plan_dequantize(i, 0, 1, T, cols, TE_RT_F8E4M3FN,
                                        TE_RT_MX_1X32, 1, 0, 0, TE_RT_BF16);
         },
         {{n, TE_RT_F8E4M3FN}, {mxRow, TE_RT_F8E8M0FNU}, none, {n, TE_RT_BF16}},
         3 * n + mxRow});
    for (int32_t axis : {1, 0}) {
      const int64_t nvScales =
          axis == 1 ? microscales(T, cols, 16) : microscales(cols, T, 16);
      bench.run({"dequantize nv 1x16 axis " + std::to_string(axis) + size,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_dequantize(i, 0, 1, T, cols,
                                                TE_RT_F4E2M1FN, TE_RT_NV_1X16,
                                                axis, 0, 448, TE_RT_BF16);
                 },
                 {{n / 2, TE_RT_F4E2M1FN},
                  {nvScales, TE_RT_F8E4M3FN},
                  {1, TE_RT_F32},
                  {n, TE_RT_BF16}},
                 n / 2 + nvScales + 2 * n});
    }
    bench.run({"transpose_scaled nv 16x16" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_transpose_scaled(i, 0, 1, T, cols,
                                                    TE_RT_NV_16X16);
               },
               {{n / 2, TE_RT_F4E2M1FN},
                {microscales(T, cols, 16), TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                {n / 2, TE_RT_F4E2M1FN},
                {microscales(cols, T, 16), TE_RT_F8E4M3FN},
                {1, TE_RT_F32}},
               n + microscales(T, cols, 16) + microscales(cols, T, 16)});
    bench.run({"transpose_scaled per_tensor" + size,
               [=](te_rt_instance *i) {
                 return te_rt_plan_transpose_scaled(i, 0, 1, T, cols,
                                                    TE_RT_PER_TENSOR);
               },
               {{n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none,
                {n, TE_RT_F8E4M3FN},
                {1, TE_RT_F32},
                none},
               2 * n});
  }

  bench.run({"rms_norm 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_rms_norm(i, 0, T, H, TE_RT_BF16, 1e-5f, 0);
             },
             {{T * H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {T * H, TE_RT_BF16},
              {T, TE_RT_F32},
              none},
             4 * T * H});
  bench.run({"rms_norm_backward 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_rms_norm_backward(i, 0, T, H, TE_RT_BF16, 0);
             },
             {{T * H, TE_RT_BF16},
              {T * H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {T, TE_RT_F32},
              {T * H, TE_RT_BF16},
              {H, TE_RT_BF16}},
             6 * T * H});
  bench.run({"layer_norm 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_layer_norm(i, 0, T, H, TE_RT_BF16, 1e-5f, 0);
             },
             {{T * H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {T * H, TE_RT_BF16},
              {T, TE_RT_F32},
              {T, TE_RT_F32},
              none},
             4 * T * H});
  bench.run({"layer_norm_backward 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_layer_norm_backward(i, 0, T, H, TE_RT_BF16, 0);
             },
             {{T * H, TE_RT_BF16},
              {T * H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {T, TE_RT_F32},
              {T, TE_RT_F32},
              {T * H, TE_RT_BF16},
              {H, TE_RT_BF16},
              {H, TE_RT_BF16}},
             6 * T * H});
  // swiglu has kernels of its own, geglu those of every other gated kind.
  for (auto [kind, name] :
       {std::pair<int32_t, std::string>(TE_RT_SWIGLU, "swiglu"),
        {TE_RT_GEGLU, "geglu"}}) {
    bench.run({"activation " + name + " 8192x14336",
               [=](te_rt_instance *i) {
                 return te_rt_plan_activation(i, 0, T, F, TE_RT_BF16, kind,
                                              7.0f, 1.702f, 1.0f);
               },
               {{2 * T * F, TE_RT_BF16}, {T * F, TE_RT_BF16}, none},
               6 * T * F});
    bench.run({"activation_backward " + name + " 8192x14336",
               [=](te_rt_instance *i) {
                 return te_rt_plan_activation_backward(
                     i, 0, T, F, TE_RT_BF16, kind, 7.0f, 1.702f, 1.0f);
               },
               {{T * F, TE_RT_BF16},
                {2 * T * F, TE_RT_BF16},
                {2 * T * F, TE_RT_BF16},
                none},
               10 * T * F});
    bench.run({"activation_quantize_block " + name + " row+col",
               [=](te_rt_instance *i) {
                 return te_rt_plan_activation_quantize_block(
                     i, 0, T, F, TE_RT_BF16, kind, 7.0f, 1.702f, 1.0f,
                     TE_RT_F8E4M3FN, 1, 0.0f);
               },
               {{2 * T * F, TE_RT_BF16},
                {T * F, TE_RT_F8E4M3FN},
                {scales(T, F), TE_RT_F32},
                {T * F, TE_RT_F8E4M3FN},
                {scales(F, T), TE_RT_F32}},
               6 * T * F});
    if (kind == TE_RT_SWIGLU) {
      bench.run({"gated_activation " + name + " 8192x14336",
                 [=](te_rt_instance *i) {
                   return te_rt_plan_gated_activation(i, 0, T, F, TE_RT_BF16,
                                                      kind, 7.0f, 1.702f, 1.0f);
                 },
                 {{T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  none},
                 6 * T * F});
      bench.run({"gated_activation_backward " + name + " 8192x14336",
                 [=](te_rt_instance *i) {
                   return te_rt_plan_gated_activation_backward(
                       i, 0, T, F, TE_RT_BF16, kind, 7.0f, 1.702f, 1.0f);
                 },
                 {{T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  {T * F, TE_RT_BF16},
                  none,
                  none},
                 10 * T * F});
    }
    bench.run({"activation_backward_quantize_block " + name + " row+col",
               [=](te_rt_instance *i) {
                 return te_rt_plan_activation_backward_quantize_block(
                     i, 0, T, F, TE_RT_BF16, kind, 7.0f, 1.702f, 1.0f,
                     TE_RT_F8E4M3FN, 1, 0.0f);
               },
               {{T * F, TE_RT_BF16},
                {2 * T * F, TE_RT_BF16},
                {2 * T * F, TE_RT_F8E4M3FN},
                {scales(T, 2 * F), TE_RT_F32},
                {2 * T * F, TE_RT_F8E4M3FN},
                {scales(2 * F, T), TE_RT_F32}},
               10 * T * F});
  }
  // Sequences of 4096, 32 heads of 128.
  bench.run({"rope 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_rope(i, 0, T, 32, 128, 4096, 128, TE_RT_BF16,
                                      0, 0);
             },
             {{T * H, TE_RT_BF16},
              {4096 * 64, TE_RT_F32},
              {4096 * 64, TE_RT_F32},
              {T * H, TE_RT_BF16}},
             4 * T * H + 8 * 4096 * 64});
  // Two sequences of 4096, 32 heads of 128 over 8, causal: half of the pairs of
  // positions are multiplied, in 2 products forward and 5 backward.
  const double pairs = 4.0 * T * 4096 * H / 2;
  const float scale = 0.08838835f; // 1 / sqrt(128)
  // A window of 1024 keys has 7/16 of the pairs.
  struct Scores {
    const char *name;
    int64_t windowLeft;
    float softcap;
    bool sinks = false;
  };
  for (const Scores &s :
       {Scores{"causal", -1, 0}, Scores{"window 1024", 1023, 0},
        Scores{"softcap 50 causal", -1, 50},
        Scores{"softcap 50 window 1024", 1023, 50},
        Scores{"sinks causal", -1, 0, true},
        Scores{"sinks window 1024", 1023, 0, true}})
    bench.run({std::string("attention ") + s.name + " 2x4096, 32/8 x 128",
               [=](te_rt_instance *i) {
                 return te_rt_plan_attention(i, 0, T, 4096, 32, 8, 128,
                                             TE_RT_BF16, 1, s.windowLeft, scale,
                                             s.softcap, s.sinks);
               },
               {{T * H, TE_RT_BF16},
                {T * H / 4, TE_RT_BF16},
                {T * H / 4, TE_RT_BF16},
                {32, TE_RT_F32},
                {T * H, TE_RT_BF16},
                {T * 32, TE_RT_F32}},
               0,
               s.windowLeft < 0 ? pairs : pairs * 7 / 16});
  struct Backward {
    const char *name;
    bool deterministic;
    float softcap;
  };
  for (const Backward &s :
       {Backward{"causal", true, 0}, Backward{"any order causal", false, 0},
        Backward{"softcap 50 causal", true, 50},
        Backward{"any order softcap 50 causal", false, 50}})
    bench.run(
        {std::string("attention_backward ") + s.name + " 2x4096, 32/8 x 128",
         [=](te_rt_instance *i) {
           return te_rt_plan_attention_backward(i, 0, T, 4096, 32, 8, 128,
                                                TE_RT_BF16, 1, -1, scale,
                                                s.softcap, s.deterministic);
         },
         // An lse that is no softmax's: the time does not depend on it.
         {{T * H, TE_RT_BF16},
          {T * H, TE_RT_BF16},
          {T * H / 4, TE_RT_BF16},
          {T * H / 4, TE_RT_BF16},
          {T * H, TE_RT_BF16},
          {T * 32, TE_RT_F32},
          {T * H, TE_RT_BF16},
          {T * H / 4, TE_RT_BF16},
          {T * H / 4, TE_RT_BF16}},
         0,
         2.5 * pairs});
  bench.run({"attention_sink_grad 2x4096, 32 x 128",
             [=](te_rt_instance *i) {
               return te_rt_plan_attention_sink_grad(i, 0, T, 4096, 32, 128,
                                                     TE_RT_BF16);
             },
             {{T * H, TE_RT_BF16},
              {T * H, TE_RT_BF16},
              {T * 32, TE_RT_F32},
              {32, TE_RT_F32},
              {32, TE_RT_F32}},
             4 * T * H + 4 * T * 32});
  bench.run({"pointwise add 8192x4096",
             [=](te_rt_instance *i) {
               return te_rt_plan_pointwise(i, 0, T * H, TE_RT_ADD, TE_RT_BF16,
                                           TE_RT_BF16);
             },
             {{T * H, TE_RT_BF16}, {T * H, TE_RT_BF16}, {T * H, TE_RT_BF16}},
             6 * T * H});

  // m, n, k of the block's GEMMs: fprop and dgrad, then wgrad.
  struct Shape {
    const char *name;
    int64_t m, n, k;
    bool wgrad;
  };
  for (const Shape &s : {Shape{"gate_up fprop", T, 2 * F, H, false},
                         Shape{"down fprop", T, H, F, false},
                         Shape{"gate_up dgrad", T, H, 2 * F, false},
                         Shape{"down dgrad", T, F, H, false},
                         Shape{"gate_up wgrad", 2 * F, H, T, true},
                         Shape{"down wgrad", H, F, T, true}}) {
    double flops = 2.0 * s.m * s.n * s.k;
    bench.run({std::string("matmul bf16 ") + s.name,
               [=](te_rt_instance *i) {
                 return te_rt_plan_matmul(i, 0, s.m, s.n, s.k, 0, 0, TE_RT_BF16,
                                          TE_RT_BF16);
               },
               {{s.m * s.k, TE_RT_BF16},
                {s.n * s.k, TE_RT_BF16, 0.02f},
                none,
                none,
                none,
                {s.m * s.n, TE_RT_BF16}},
               0,
               flops});
    for (bool fast : {true, false})
      bench.run({std::string("scaled_matmul per_tensor ") +
                     (fast ? "fast " : "split ") + s.name,
                 [=](te_rt_instance *i) {
                   return te_rt_plan_scaled_matmul(
                       i, 0, s.m, s.n, s.k, TE_RT_F8E4M3FN, TE_RT_PER_TENSOR,
                       TE_RT_F8E4M3FN, TE_RT_PER_TENSOR, TE_RT_BF16, fast, 1, 1,
                       0, 0, 0, 0);
                 },
                 {{s.m * s.k, TE_RT_F8E4M3FN},
                  {1, TE_RT_F32},
                  none,
                  {s.n * s.k, TE_RT_F8E4M3FN},
                  {1, TE_RT_F32},
                  none,
                  none,
                  none,
                  {s.m * s.n, TE_RT_BF16}},
                 0,
                 flops});
    bench.run(
        {std::string("scaled_matmul block ") + s.name,
         [=](te_rt_instance *i) {
           return te_rt_plan_scaled_matmul(i, 0, s.m, s.n, s.k, TE_RT_F8E4M3FN,
                                           TE_RT_BLOCK_1X128, TE_RT_F8E4M3FN,
                                           s.wgrad ? TE_RT_BLOCK_1X128
                                                   : TE_RT_BLOCK_128X128,
                                           TE_RT_BF16, 0, 1, 1, 0, 0, 0, 0);
         },
         {{s.m * s.k, TE_RT_F8E4M3FN},
          {scales(s.m, s.k), TE_RT_F32},
          none,
          {s.n * s.k, TE_RT_F8E4M3FN},
          {s.wgrad ? scales(s.n, s.k) : squareScales(s.n, s.k), TE_RT_F32},
          none,
          none,
          none,
          {s.m * s.n, TE_RT_BF16}},
         0,
         flops});
  }
  return std::move(bench.rows);
}
