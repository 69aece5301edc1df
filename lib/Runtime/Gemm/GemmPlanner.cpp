//===- GemmPlanner.cpp - cuBLASLt plans with tuned algorithms -------------===//
//
// How an algorithm is chosen: a cached one if the library still accepts it,
// else the fastest of the library's candidates, else (small problem, one
// candidate, no memory to measure in) its first guess. The variant with a bias
// takes the same algorithm where that is possible.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmPlanner.h"

#include "Cuda/CudaBackend.h"
#include "Gemm/GemmTuner.h"
#include "Kernels/Gemm/BlockGemm.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

constexpr int maxCandidates = 16;

/// Products with fewer multiplications are limited by their launch.
constexpr double minTunedWork = 1 << 27;

std::string operandText(const GemmOperand &operand) {
  std::string text = support::typeName(operand.type);
  if (operand.scheme != GemmOperand::unscaled)
    text += "/" + support::schemeName(operand.scheme);
  return text + (operand.transposed ? "/t" : "");
}

/// Forms worth trying, preferred one first. Only a pair of different block
/// shapes gains from the other form, and only there do both give the same
/// bits: with two 1x128 operands the forms apply the two scales in different
/// orders.
std::vector<GemmOrder> orders(const GemmProblem &problem) {
  if (problem.a.scheme == TE_RT_BLOCK_1X128 &&
      problem.b.scheme == TE_RT_BLOCK_128X128)
    return {GemmOrder::aFirst, GemmOrder::bFirst};
  if (problem.a.scheme == TE_RT_BLOCK_128X128 &&
      problem.b.scheme == TE_RT_BLOCK_1X128)
    return {GemmOrder::bFirst, GemmOrder::aFirst};
  return {GemmOrder::bFirst};
}

std::string machineText(const CudaDevice &device, const CublasLt &library) {
  return device.name + " sm_" + std::to_string(device.computeMajor) +
         std::to_string(device.computeMinor) + " x" +
         std::to_string(device.multiprocessors) + ", driver " +
         std::to_string(device.driverVersion) + ", cuBLASLt " +
         std::to_string(library.cublasLtGetVersion());
}

} // namespace

std::string GemmProblem::text() const {
  return "m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k) + " a=" + operandText(a) +
         " b=" + operandText(b) + " out=" + support::typeName(outType) +
         (fastAccumulation ? " fast" : "");
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

GemmPlanner::GemmPlanner(const CudaDevice &device, const CublasLt &library)
    : device(device), library(library), cache(machineText(device, library)) {}

Status GemmPlanner::choosePlain(const GemmProblem &problem,
                                GemmProduct::Variant *chosen) {
  const bool tune =
      static_cast<double>(problem.m) * problem.n * problem.k >= minTunedWork;
  std::vector<std::unique_ptr<GemmDescriptors>> forms;
  for (GemmOrder order : orders(problem)) {
    std::unique_ptr<GemmDescriptors> form;
    TE_RT_RETURN_IF_FAILED(
        GemmDescriptors::create(library, problem, order, false, &form));
    forms.push_back(std::move(form));
  }

  if (tune) {
    if (std::optional<GemmAlgorithm> cached = cache.find(problem)) {
      for (std::unique_ptr<GemmDescriptors> &form : forms) {
        if (form->accepts(&*cached)) {
          *chosen = {std::move(form), *cached};
          return Status::ok();
        }
      }
    }
  }

  std::vector<GemmCandidate> candidates;
  for (std::unique_ptr<GemmDescriptors> &form : forms) {
    // Without measuring, the first algorithm of the preferred form is it.
    if (!tune && !candidates.empty())
      break;
    std::vector<GemmAlgorithm> algorithms;
    TE_RT_RETURN_IF_FAILED(
        form->suggest(tune ? maxCandidates : 1, &algorithms));
    for (const GemmAlgorithm &algorithm : algorithms)
      candidates.push_back({form.get(), algorithm});
  }
  if (candidates.empty())
    return {TE_RT_UNSUPPORTED,
            "cublasLtMatmulAlgoGetHeuristic: cuBLASLt " +
                std::to_string(library.cublasLtGetVersion()) +
                " has no algorithm for [" + problem.text() + "] on '" +
                device.name + "' (compute capability " +
                std::to_string(device.computeMajor) + "." +
                std::to_string(device.computeMinor) + ")"};

  size_t best = 0;
  if (tune && candidates.size() > 1) {
    std::optional<size_t> fastest;
    TE_RT_RETURN_IF_FAILED(findFastest(device, problem, candidates, &fastest));
    best = fastest.value_or(0);
    if (fastest)
      cache.insert(problem, candidates[best].algorithm);
  }
  for (std::unique_ptr<GemmDescriptors> &form : forms)
    if (form.get() == candidates[best].descriptors)
      *chosen = {std::move(form), candidates[best].algorithm};
  return Status::ok();
}

Status GemmPlanner::chooseWithBias(const GemmProblem &problem,
                                   const GemmAlgorithm &preferred,
                                   GemmProduct::Variant *chosen) {
  // A high-precision product adds a bias of its own type to a result of that
  // type, and nothing else (te_runtime_kernels.inc).
  if (problem.a.scheme == GemmOperand::unscaled &&
      problem.biasType != problem.outType)
    return Status::ok();
  std::unique_ptr<GemmDescriptors> form;
  TE_RT_RETURN_IF_FAILED(GemmDescriptors::create(
      library, problem, GemmOrder::bFirst, true, &form));
  std::vector<GemmAlgorithm> algorithms = {preferred};
  if (!form->accepts(&algorithms.front())) {
    algorithms.clear();
    TE_RT_RETURN_IF_FAILED(form->suggest(1, &algorithms));
  }
  if (!algorithms.empty())
    *chosen = {std::move(form), algorithms.front()};
  return Status::ok();
}

Status GemmPlanner::plan(const GemmProblem &problem,
                         std::unique_ptr<GemmProduct> *product) {
  GemmProduct::Variant plain, withBias;
  TE_RT_RETURN_IF_FAILED(choosePlain(problem, &plain));
  TE_RT_RETURN_IF_FAILED(chooseWithBias(problem, plain.algorithm, &withBias));
  *product =
      std::make_unique<GemmProduct>(std::move(plain), std::move(withBias));
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

int64_t GemmProduct::workspaceBytes() const {
  return std::max(plain.algorithm.workspaceBytes,
                  withBias.algorithm.workspaceBytes);
}

Status GemmProduct::launch(const GemmBuffers &buffers, void *workspace,
                           void *stream) {
  Variant &variant = buffers.bias ? withBias : plain;
  if (!variant.descriptors)
    return {TE_RT_UNSUPPORTED,
            "cuBLASLt has no algorithm that adds a bias to this product; add "
            "it with a 'pointwise' kernel"};
  return variant.descriptors->launch(variant.algorithm, buffers, workspace,
                                     stream);
}

//===----------------------------------------------------------------------===//
// The two kernels
//===----------------------------------------------------------------------===//

namespace {

class GemmPlan : public Plan {
public:
  explicit GemmPlan(std::unique_ptr<GemmProduct> product)
      : product(std::move(product)) {}

  int64_t workspaceBytes() const override { return product->workspaceBytes(); }
  void setWorkspace(void *pointer) override { workspace = pointer; }

protected:
  std::unique_ptr<GemmProduct> product;
  void *workspace = nullptr;
};

class MatmulPlan final : public GemmPlan {
public:
  using GemmPlan::GemmPlan;

  Status launch(void *stream, void *const *buffers) override {
    using namespace matmul_buffers;
    GemmBuffers given;
    given.a = buffers[a];
    given.b = buffers[b];
    given.bias = buffers[bias];
    given.c = buffers[c];
    given.out = buffers[out];
    return product->launch(given, workspace, stream);
  }
};

class ScaledMatmulPlan final : public GemmPlan {
public:
  using GemmPlan::GemmPlan;

  Status launch(void *stream, void *const *buffers) override {
    using namespace scaled_matmul_buffers;
    return product->launch({.a = buffers[a],
                            .aScale = buffers[a_scale],
                            .b = buffers[b],
                            .bScale = buffers[b_scale],
                            .bias = buffers[bias],
                            .c = buffers[c],
                            .out = buffers[out]},
                           workspace, stream);
  }
};

/// A product over an empty axis: nothing to write, or an empty sum.
class EmptyProductPlan final : public Plan {
public:
  EmptyProductPlan(const CudaDevice &device, int64_t outBytes, int bias, int c,
                   int out)
      : device(device), outBytes(outBytes), bias(bias), c(c), out(out) {}

  Status launch(void *stream, void *const *buffers) override {
    if (outBytes == 0)
      return Status::ok();
    if (buffers[bias])
      return {TE_RT_UNSUPPORTED,
              "expected 'k' to be at least 1 in a product with a bias, but got "
              "0"};
    const Driver &driver = *device.driver;
    const auto address = [&](int index) {
      return reinterpret_cast<CUdeviceptr>(buffers[index]);
    };
    if (!buffers[c])
      return device.check(driver.cuMemsetD8Async(address(out), 0,
                                                 static_cast<size_t>(outBytes),
                                                 static_cast<CUstream>(stream)),
                          "cuMemsetD8Async");
    if (buffers[c] == buffers[out])
      return Status::ok();
    return device.check(driver.cuMemcpyDtoDAsync(address(out), address(c),
                                                 static_cast<size_t>(outBytes),
                                                 static_cast<CUstream>(stream)),
                        "cuMemcpyDtoDAsync");
  }

private:
  const CudaDevice &device;
  const int64_t outBytes;
  const int bias, c, out;
};

/// `bias`, `c` and `out` are the kernel's buffer indices.
template <typename KernelPlan>
Status planProduct(const CudaDevice &device, const GemmProblem &problem,
                   int bias, int c, int out, std::unique_ptr<Plan> *plan) {
  if (problem.m == 0 || problem.n == 0 || problem.k == 0) {
    *plan = std::make_unique<EmptyProductPlan>(
        device, problem.m * problem.n * byteSize(problem.outType), bias, c,
        out);
    return Status::ok();
  }
  std::unique_ptr<GemmProduct> product;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &product));
  *plan = std::make_unique<KernelPlan>(std::move(product));
  return Status::ok();
}

} // namespace

Status plan_matmul(const CudaDevice &device, const matmul_params &params,
                   std::unique_ptr<Plan> *plan) {
  using namespace matmul_buffers;
  GemmProblem problem;
  problem.m = params.m;
  problem.n = params.n;
  problem.k = params.k;
  problem.a = {params.type, GemmOperand::unscaled, params.trans_a != 0};
  problem.b = {params.type, GemmOperand::unscaled, params.trans_b != 0};
  problem.biasType = params.type;
  problem.outType = params.out_type;
  return planProduct<MatmulPlan>(device, problem, bias, c, out, plan);
}

/// What the support table says of this product on this device. GPUs without a
/// column there are left to cuBLASLt's judgement.
static Status checkTarget(const CudaDevice &device, const CublasLt &library,
                          const scaled_matmul_params &params) {
  const std::optional<support::Target> target =
      device.computeMajor == 9    ? std::optional(support::Target::Sm90)
      : device.computeMajor == 10 ? std::optional(support::Target::Sm100)
                                  : std::nullopt;
  if (!target)
    return Status::ok();
  // Whether scales are powers of two was the compiler's to check.
  std::string refusal = support::refusePair(params.a_scheme, params.b_scheme);
  if (refusal.empty())
    refusal = support::refuseTarget(params.a_scheme, params.b_scheme, *target,
                                    {.pow2 = true});
  if (refusal.empty())
    refusal = support::refuseLibrary(
        params.a_scheme, params.b_scheme, *target,
        static_cast<int64_t>(library.cublasLtGetVersion()));
  return refusal.empty() ? Status::ok() : Status(TE_RT_UNSUPPORTED, refusal);
}

Status plan_scaled_matmul(const CudaDevice &device,
                          const scaled_matmul_params &params,
                          std::unique_ptr<Plan> *plan) {
  using namespace scaled_matmul_buffers;
  if (supportsBlockGemm(device, params))
    return planBlockGemm(device, params, plan);
  TE_RT_RETURN_IF_FAILED(checkTarget(device, device.gemm->cublasLt(), params));
  GemmProblem problem;
  problem.m = params.m;
  problem.n = params.n;
  problem.k = params.k;
  problem.a = {params.a_type, params.a_scheme, false};
  problem.b = {params.b_type, params.b_scheme, false};
  problem.biasType = TE_RT_BF16;
  problem.outType = params.out_type;
  problem.fastAccumulation = params.fast_accumulation != 0;
  return planProduct<ScaledMatmulPlan>(device, problem, bias, c, out, plan);
}

} // namespace te::rt::cuda
