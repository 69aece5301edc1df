//===- GroupedBench.cpp - products of groups of rows, and a layer of them -===//
//
// Shapes of mixture-of-experts layers. Operations are counted on the rows that
// groups have, not on padding. Groups are alike, or have the sizes of a
// Dirichlet(1) sample with two empty ones. For comparison, one product after
// another from the host, which is only possible where it knows the sizes: by
// cuBLASLt (per_tensor), and by the own kernel for one matrix (block).
//
// One set of buffers is enough: each shape is many times the size of the cache.
//
//===----------------------------------------------------------------------===//

#include "BenchKernel.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <memory>

using namespace te::bench;

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

struct Shape {
  const char *name;
  int64_t groups, tokens, n, k; // tokens: of each group, on average
};

/// Launches in order.
using Step = std::function<void()>;

class GroupedBench {
public:
  GroupedBench(te_rt_context *context, const Effort &effort)
      : context(context), effort(effort) {}

  void run(const Shape &shape, bool even);
  void runPlain(const Shape &shape, bool even);
  void runLayer(const Shape &shape, bool even);
  void runTensorLayer(const Shape &shape, bool even);

  llvm::json::Array rows;

private:
  /// Sizes of the groups, and where each starts.
  void setGroups(const Shape &shape, bool even);
  void *random(int64_t count, te_rt_dtype type) {
    return memory->allocateRandom(count, type, 1.0f);
  }
  void *empty(int64_t bytes) { return memory->allocate(bytes); }
  template <typename T> T *at(void *pointer, int64_t offset) {
    return static_cast<T *>(pointer) + offset;
  }
  /// Of one plan; buffers in the order of the kernel's row.
  Step kernel(Planner planner, std::vector<void *> buffers);
  static Step all(std::vector<Step> steps) {
    return [=] {
      for (const Step &step : steps)
        step();
    };
  }
  void report(const std::string &name, double flops, const Step &step);

  // Products of the groups in one launch, and group by group.
  // `aType` is that of the left operand; the other is f8E4M3FN.
  Step product(int32_t aScheme, int32_t bScheme, int64_t n, int64_t k, void *a,
               void *aScale, void *b, void *bScale, void *out,
               te_rt_dtype aType = TE_RT_F8E4M3FN, bool fast = false);
  Step gradient(int32_t scheme, te_rt_dtype outType, int64_t m, int64_t n,
                void *a, void *aScale, void *b, void *bScale, void *c,
                void *out, te_rt_dtype aType = TE_RT_F8E4M3FN);
  Step productLoop(bool block, int64_t n, int64_t k, void *a, void *aScale,
                   void *b, void *bScale, void *out);

  te_rt_context *context;
  const Effort &effort;
  std::unique_ptr<DeviceBuffers> memory;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<int32_t> sizes;
  std::vector<int64_t> starts;
  int64_t total = 0;    // rows of the groups
  int64_t capacity = 0; // rows of the matrix
  void *deviceSizes = nullptr;
};

void GroupedBench::setGroups(const Shape &shape, bool even) {
  kernels.clear();
  memory = std::make_unique<DeviceBuffers>(context);
  const int64_t tokens = shape.groups * shape.tokens;
  std::vector<double> weights(shape.groups, 1.0);
  if (!even) {
    std::mt19937 generator(3);
    std::exponential_distribution<double> exponential(1.0);
    for (double &weight : weights)
      weight = exponential(generator);
    weights[1] = weights[shape.groups - 2] = 0.0;
  }
  double sum = 0, before = 0;
  for (double weight : weights)
    sum += weight;
  sizes.clear();
  starts.clear();
  total = capacity = 0;
  for (double weight : weights) {
    const auto begin = static_cast<int64_t>(before / sum * tokens);
    before += weight;
    const auto end = static_cast<int64_t>(before / sum * tokens);
    sizes.push_back(static_cast<int32_t>(end - begin));
    starts.push_back(capacity);
    total += end - begin;
    capacity += roundUp(end - begin, 128);
  }
  deviceSizes = empty(shape.groups * 4);
  check(te_rt_copy_to_device(context, deviceSizes, sizes.data(),
                             shape.groups * 4),
        "copy");
}

Step GroupedBench::kernel(Planner planner, std::vector<void *> buffers) {
  // Optional buffers at the end need not be given.
  buffers.resize(buffers.size() + 4);
  kernels.push_back(std::make_unique<Kernel>(context, planner));
  Kernel *planned = kernels.back().get();
  return [=] { planned->enqueue(buffers.data()); };
}

void GroupedBench::report(const std::string &name, double flops,
                          const Step &step) {
  const Timing timing = measure(context, effort, [&](int64_t) { step(); });
  rows.push_back(llvm::json::Object{
      {"name", name},
      {"burst_us", timing.burstMs * 1e3},
      {"sustained_us", timing.sustainedMs * 1e3},
      {"tflops_burst", flops / timing.burstMs * 1e-9},
      {"tflops_sustained", flops / timing.sustainedMs * 1e-9}});
  llvm::outs() << llvm::format(
      "%-58s %9.1f %9.1f us  %5.0f burst %5.0f sustained TFLOPS\n",
      name.c_str(), timing.burstMs * 1e3, timing.sustainedMs * 1e3,
      flops / timing.burstMs * 1e-9, flops / timing.sustainedMs * 1e-9);
  llvm::outs().flush();
}

Step GroupedBench::product(int32_t aScheme, int32_t bScheme, int64_t n,
                           int64_t k, void *a, void *aScale, void *b,
                           void *bScale, void *out, te_rt_dtype aType,
                           bool fast) {
  const auto groups = static_cast<int64_t>(sizes.size()), height = capacity;
  return kernel(
      [=](te_rt_instance *i) {
        return te_rt_plan_grouped_scaled_matmul(
            i, 0, height, n, k, groups, 128, aType, aScheme, TE_RT_F8E4M3FN,
            bScheme, TE_RT_BF16, fast, 1, 0, 0, 0);
      },
      {a, aScale, nullptr, b, bScale, nullptr, deviceSizes, nullptr, out});
}

Step GroupedBench::gradient(int32_t scheme, te_rt_dtype outType, int64_t m,
                            int64_t n, void *a, void *aScale, void *b,
                            void *bScale, void *c, void *out,
                            te_rt_dtype aType) {
  const auto groups = static_cast<int64_t>(sizes.size()), height = capacity;
  return kernel(
      [=](te_rt_instance *i) {
        return te_rt_plan_grouped_scaled_wgrad(i, 0, height, m, n, groups, 128,
                                               aType, scheme, TE_RT_F8E4M3FN,
                                               scheme, outType, 0, 0, 0);
      },
      {a, aScale, nullptr, b, bScale, nullptr, deviceSizes, c, out});
}

/// Block products of the loop share the scales of its first group: their values
/// are nothing to the time.
Step GroupedBench::productLoop(bool block, int64_t n, int64_t k, void *a,
                               void *aScale, void *b, void *bScale, void *out) {
  std::vector<Step> steps;
  for (size_t g = 0; g < sizes.size(); ++g) {
    const int64_t m = roundUp(sizes[g], 16);
    if (m == 0)
      continue;
    steps.push_back(kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_scaled_matmul(
              i, 0, m, n, k, TE_RT_F8E4M3FN,
              block ? TE_RT_BLOCK_1X128 : TE_RT_PER_TENSOR, TE_RT_F8E4M3FN,
              block ? TE_RT_BLOCK_128X128 : TE_RT_PER_TENSOR, TE_RT_BF16, 0, 1,
              1, 0, 0, 0, 0);
        },
        {at<uint8_t>(a, starts[g] * k), aScale, nullptr,
         at<uint8_t>(b, static_cast<int64_t>(g) * n * k), bScale, nullptr,
         nullptr, nullptr, at<uint16_t>(out, starts[g] * n)}));
  }
  return all(steps);
}

void GroupedBench::run(const Shape &shape, bool even) {
  setGroups(shape, even);
  const auto [name, groups, tokens, n, k] = shape;
  const std::string suffix =
      std::string(" ") + name + (even ? " even" : " uneven");
  const double flops =
      2.0 * static_cast<double>(total) * static_cast<double>(n * k);
  void *x = random(capacity * k, TE_RT_F8E4M3FN);
  void *dy = random(capacity * n, TE_RT_F8E4M3FN);
  void *w = random(groups * n * k, TE_RT_F8E4M3FN);
  // Enough for the scales of any operand here.
  void *scales = random(ceilDiv(capacity, 128) * roundUp(n + k, 128) * 2 +
                            capacity * ceilDiv(n + k, 128),
                        TE_RT_F32);
  void *tensorScales = random(groups, TE_RT_F32);
  void *wScales = random(
      groups * (ceilDiv(n, 128) + 1) * (ceilDiv(k, 128) + 4) * 2, TE_RT_F32);
  void *out =
      empty(std::max(capacity * std::max(n, k) * 2, groups * n * k * 4));

  constexpr int32_t lines = TE_RT_BLOCK_1X128, squares = TE_RT_BLOCK_128X128,
                    tensor = TE_RT_PER_TENSOR;
  report("grouped block fprop" + suffix, flops,
         product(lines, squares, n, k, x, scales, w, wScales, out));
  report("grouped block dgrad" + suffix, flops,
         product(lines, squares, k, n, dy, scales, w, wScales, out));
  const Step first =
      gradient(lines, TE_RT_F32, n, k, dy, scales, x, scales, nullptr, out);
  report("grouped block wgrad f32" + suffix, flops, first);
  report("grouped block wgrad f32 accumulated" + suffix, flops,
         gradient(lines, TE_RT_F32, n, k, dy, scales, x, scales, out, out));
  report(
      "grouped block wgrad bf16" + suffix, flops,
      gradient(lines, TE_RT_BF16, n, k, dy, scales, x, scales, nullptr, out));
  report("grouped per_tensor fprop" + suffix, flops,
         product(tensor, tensor, n, k, x, tensorScales, w, tensorScales, out));
  first();
  report("grouped per_tensor wgrad f32 accumulated" + suffix, flops,
         gradient(tensor, TE_RT_F32, n, k, dy, tensorScales, x, tensorScales,
                  out, out));
  report("loop of per_tensor fprop (cuBLASLt)" + suffix, flops,
         productLoop(false, n, k, x, tensorScales, w, tensorScales, out));
  report("loop of block fprop (one matrix each)" + suffix, flops,
         productLoop(true, n, k, x, scales, w, wScales, out));
}

/// Products of bf16, which high precision and the overrides have.
void GroupedBench::runPlain(const Shape &shape, bool even) {
  setGroups(shape, even);
  const auto [name, groups, tokens, n, k] = shape;
  const std::string suffix =
      std::string(" ") + name + (even ? " even" : " uneven");
  const double flops =
      2.0 * static_cast<double>(total) * static_cast<double>(n * k);
  void *x = random(capacity * k, TE_RT_BF16);
  void *dy = random(capacity * n, TE_RT_BF16);
  void *w = random(groups * n * k, TE_RT_BF16);
  void *out =
      empty(std::max(capacity * std::max(n, k) * 2, groups * n * k * 4));
  const int64_t height = capacity, count = groups;
  auto product = [&](int64_t columns, int64_t depth, int32_t transposed,
                     void *a) {
    return kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_grouped_matmul(i, 0, height, columns, depth, count,
                                           128, transposed, TE_RT_BF16,
                                           TE_RT_BF16);
        },
        {a, w, deviceSizes, nullptr, nullptr, out});
  };
  auto wgrad = [&](te_rt_dtype type, void *c) {
    return kernel(
        [=, columns = n, depth = k](te_rt_instance *i) {
          return te_rt_plan_grouped_wgrad(i, 0, height, columns, depth, count,
                                          128, TE_RT_BF16, type);
        },
        {dy, x, deviceSizes, nullptr, c, out});
  };
  report("grouped bf16 fprop" + suffix, flops, product(n, k, 0, x));
  report("grouped bf16 dgrad" + suffix, flops, product(k, n, 1, dy));
  report("grouped bf16 wgrad bf16" + suffix, flops, wgrad(TE_RT_BF16, nullptr));
  report("grouped bf16 wgrad f32" + suffix, flops, wgrad(TE_RT_F32, nullptr));
  report("grouped bf16 wgrad f32 accumulated" + suffix, flops,
         wgrad(TE_RT_F32, out));
}

/// A linear layer of experts, forward and backward, with every cast.
void GroupedBench::runLayer(const Shape &shape, bool even) {
  setGroups(shape, even);
  const auto [name, groups, tokens, n, k] = shape;
  const int64_t height = capacity;
  const std::string suffix =
      std::string(" ") + name + (even ? " even" : " uneven");
  const double flops =
      6.0 * static_cast<double>(total) * static_cast<double>(n * k);
  auto lineScales = [](int64_t outer, int64_t inner) {
    return ceilDiv(inner, 128) * roundUp(outer, 4);
  };
  auto squareScales = [](int64_t outer, int64_t inner) {
    return ceilDiv(outer, 128) * roundUp(ceilDiv(inner, 128), 4);
  };
  struct Usages {
    void *source, *row, *rowScale, *col, *colScale;
  };
  auto activation = [&](int64_t cols) {
    return Usages{random(height * cols, TE_RT_BF16), empty(height * cols),
                  empty(lineScales(height, cols) * 4), empty(height * cols),
                  empty(lineScales(cols, height) * 4)};
  };
  const Usages x = activation(k), dy = activation(n);
  const Usages w{random(groups * n * k, TE_RT_BF16), empty(groups * n * k),
                 empty(groups * squareScales(n, k) * 4), empty(groups * n * k),
                 empty(groups * squareScales(k, n) * 4)};
  void *y = empty(height * n * 2), *dx = empty(height * k * 2),
       *dw = empty(groups * n * k * 4);

  auto cast = [&](const Usages &u, int64_t matrices, int64_t castRows,
                  int64_t cols, int32_t scheme) {
    return kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_quantize_block(
              i, 0, matrices, castRows, cols, castRows, cols, TE_RT_BF16,
              TE_RT_BF16, TE_RT_F8E4M3FN, scheme, 1, 0.0f);
        },
        {u.source, u.row, u.rowScale, u.col, u.colScale});
  };
  constexpr int32_t lines = TE_RT_BLOCK_1X128, squares = TE_RT_BLOCK_128X128;
  const Step castAll = cast(w, groups, n, k, squares);
  const Step castX = cast(x, 1, height, k, lines);
  const Step castDy = cast(dy, 1, height, n, lines);
  const Step fprop =
      product(lines, squares, n, k, x.row, x.rowScale, w.row, w.rowScale, y);
  const Step dgrad =
      product(lines, squares, k, n, dy.row, dy.rowScale, w.col, w.colScale, dx);
  // Quantised once, so that the products below run on what the layer has.
  all({castAll, castX, castDy})();
  report("grouped block fprop" + suffix, flops / 3, fprop);
  report("grouped block dgrad" + suffix, flops / 3, dgrad);
  for (te_rt_dtype type : {TE_RT_BF16, TE_RT_F32}) {
    const std::string kind = type == TE_RT_F32 ? " f32 accumulated" : " bf16";
    const Step wgrad =
        gradient(lines, type, n, k, dy.col, dy.colScale, x.col, x.colScale,
                 type == TE_RT_F32 ? dw : nullptr, dw);
    if (type == TE_RT_F32) // So that there is something to add to.
      gradient(lines, type, n, k, dy.col, dy.colScale, x.col, x.colScale,
               nullptr, dw)();
    report("grouped block wgrad" + kind + suffix, flops / 3, wgrad);
    report("grouped block layer, all casts, wgrad" + kind + suffix, flops,
           all({castX, castAll, fprop, castDy, dgrad, wgrad}));
  }
  report("casts of the weights" + suffix, 0, castAll);
  report("casts of x and dy" + suffix, 0, all({castX, castDy}));
}

/// The same layer under current scaling, step by step what te.grouped_linear
/// compiles to: a scale for each group, the left operand of the backward in
/// f8E5M2, and the columns of the weights made for their use, or, as under
/// transpose-policy=eager, with the rows.
void GroupedBench::runTensorLayer(const Shape &shape, bool even) {
  setGroups(shape, even);
  const auto [name, groups, tokens, n, k] = shape;
  const int64_t height = capacity;
  const std::string suffix =
      std::string(" ") + name + (even ? " even" : " uneven");
  const double flops =
      6.0 * static_cast<double>(total) * static_cast<double>(n * k);
  struct Operand {
    void *source, *amax, *scale, *row, *rowScale, *col, *colScale;
  };
  auto operand = [&, count = groups](int64_t elements) {
    return Operand{random(elements, TE_RT_BF16),
                   empty(count * 4),
                   empty(count * 4),
                   empty(elements),
                   empty(count * 4),
                   empty(elements),
                   empty(count * 4)};
  };
  const Operand x = operand(height * k), dy = operand(height * n),
                w = operand(groups * n * k);
  void *y = empty(height * n * 2), *dx = empty(height * k * 2),
       *dw = empty(groups * n * k * 4);

  auto scale = [&, count = groups](const Operand &of, te_rt_dtype type) {
    return kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_compute_scale(i, 0, count, type, 0, 0.0f);
        },
        {of.amax, of.scale});
  };
  auto amaxes = [&, count = groups](const Operand &of, int64_t cols) {
    return kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_grouped_amax(i, 0, height, cols, count, 128,
                                         TE_RT_BF16);
        },
        {of.source, deviceSizes, of.amax});
  };
  // Of x or dy: both usages from one read after that of the amaxes.
  auto cast = [&, count = groups](const Operand &of, int64_t cols,
                                  te_rt_dtype type) {
    const Step quantize = kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_grouped_quantize_tensor(i, 0, height, cols, count,
                                                    128, TE_RT_BF16, type);
        },
        {of.source, deviceSizes, of.scale, of.row, of.rowScale, of.col,
         of.colScale});
    return all({amaxes(of, cols), scale(of, type), quantize});
  };
  const Step castX = cast(x, k, TE_RT_F8E4M3FN);
  const Step castDy = cast(dy, n, TE_RT_F8E5M2);
  const Step amaxW = kernel(
      [count = groups, elements = n * k](te_rt_instance *i) {
        return te_rt_plan_amax_rows(i, 0, count, elements, TE_RT_BF16);
      },
      {w.source, w.amax});
  auto castWeights = [&, count = groups, height = n, cols = k](void *col) {
    const Step quantize = kernel(
        [=](te_rt_instance *i) {
          return te_rt_plan_quantize_tensor(i, 0, count, height, cols, height,
                                            cols, TE_RT_BF16, TE_RT_BF16,
                                            TE_RT_F8E4M3FN, 0, 0, 0.0f);
        },
        {w.source, w.scale, w.row, w.rowScale, col,
         col ? w.colScale : nullptr});
    return all({amaxW, scale(w, TE_RT_F8E4M3FN), quantize});
  };
  const Step castW = castWeights(nullptr), castBoth = castWeights(w.col);
  const Step transposeW = kernel(
      [count = groups, height = n, cols = k](te_rt_instance *i) {
        return te_rt_plan_transpose_scaled(i, 0, count, height, cols,
                                           TE_RT_PER_TENSOR);
      },
      {w.row, w.rowScale, nullptr, w.col, w.colScale});

  constexpr int32_t tensor = TE_RT_PER_TENSOR;
  const Step fprop = product(tensor, tensor, n, k, x.row, x.rowScale, w.row,
                             w.rowScale, y, TE_RT_F8E4M3FN, true);
  const Step dgrad = product(tensor, tensor, k, n, dy.row, dy.rowScale, w.col,
                             w.colScale, dx, TE_RT_F8E5M2);
  auto wgrad = [&, m = n, columns = k](void *c) {
    return gradient(tensor, TE_RT_F32, m, columns, dy.col, dy.colScale, x.col,
                    x.colScale, c, dw, TE_RT_F8E5M2);
  };
  const Step accumulated = wgrad(dw);
  // Quantised once, so that the products below run on what the layer has, and
  // so that there is something to add to.
  all({castX, castDy, castW, transposeW, wgrad(nullptr)})();
  report("grouped per_tensor fprop" + suffix, flops / 3, fprop);
  report("grouped per_tensor dgrad" + suffix, flops / 3, dgrad);
  report("grouped per_tensor wgrad f32 accumulated" + suffix, flops / 3,
         accumulated);
  report("grouped per_tensor layer, all casts, wgrad f32 accumulated" + suffix,
         flops,
         all({castX, castW, fprop, castDy, transposeW, dgrad, accumulated}));
  report("grouped per_tensor layer, all casts, transposes with them, wgrad f32 "
         "accumulated" +
             suffix,
         flops, all({castX, castBoth, fprop, castDy, dgrad, accumulated}));
  report("per_tensor amaxes of the weights" + suffix, 0, amaxW);
  report("per_tensor casts of the weights, transposes" + suffix, 0,
         all({castW, transposeW}));
  report("per_tensor casts of the weights, both usages" + suffix, 0, castBoth);
  report("per_tensor casts of x and dy" + suffix, 0, all({castX, castDy}));
  report("per_tensor amaxes of x and dy" + suffix, 0,
         all({amaxes(x, k), amaxes(dy, n)}));
}

} // namespace

llvm::json::Array te::bench::runGroupedBench(te_rt_context *context,
                                             const Effort &effort) {
  GroupedBench bench(context, effort);
  llvm::outs() << "groups                                                "
                  "         burst sustained\n";
  const Shape large = {"8x4096 7168->4096", 8, 4096, 4096, 7168};
  const Shape many = {"64x512 2048->1536", 64, 512, 1536, 2048};
  for (bool even : {true, false})
    bench.run(large, even);
  for (bool even : {true, false})
    bench.runPlain(large, even);
  for (bool even : {true, false})
    bench.runLayer(many, even);
  for (bool even : {true, false})
    bench.runTensorLayer(many, even);
  return std::move(bench.rows);
}
