//===- GemmPlanner.cpp - cuBLASLt plans with tuned algorithms -------------===//
//
// The algorithm is a cached one if the library still accepts it, otherwise the
// fastest of the library's candidates. The library's first guess is used if the
// problem is small, there is only one candidate, or there is no memory to
// measure in. The variants with a bias or a factor use the same algorithm where
// that is possible.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmPlanner.h"

#include "Gemm/GemmTuner.h"
#include "TEDialect/Support/SupportTable.h"

#include <algorithm>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

constexpr int maxCandidates = 16;

/// The time of a GEMM with fewer multiplications is that of its launch.
constexpr double minTunedWork = 1 << 27;

std::string operandText(const GemmOperand &operand) {
  std::string text = support::typeName(operand.type);
  if (operand.scheme != GemmOperand::unscaled)
    text += "/" + support::schemeName(operand.scheme);
  return text + (operand.transposed ? "/t" : "");
}

/// The forms to try, the preferred one first. Only a pair of different block
/// shapes can be faster in the other form, and only there both forms give the
/// same bits: with two 1x128 operands they apply the two scales in different
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

GemmPlanner::~GemmPlanner() {
  if (constants)
    (void)device.driver->cuMemFree(constants);
}

Status GemmPlanner::zeroAndOne(const float **pointer) {
  if (!constants) {
    static const float values[2] = {0.0f, 1.0f};
    CUdeviceptr memory = 0;
    TE_RT_RETURN_IF_FAILED(device.check(
        device.driver->cuMemAlloc(&memory, sizeof(values)), "cuMemAlloc"));
    const CUresult copied = device.driver->cuMemcpyHtoDAsync(
        memory, values, sizeof(values), device.stream);
    const CUresult done = device.driver->cuStreamSynchronize(device.stream);
    if (copied != CUDA_SUCCESS || done != CUDA_SUCCESS)
      (void)device.driver->cuMemFree(memory);
    TE_RT_RETURN_IF_FAILED(device.check(copied, "cuMemcpyHtoDAsync"));
    TE_RT_RETURN_IF_FAILED(device.check(done, "cuStreamSynchronize"));
    constants = memory;
  }
  *pointer = reinterpret_cast<const float *>(constants);
  return Status::ok();
}

Status GemmPlanner::choosePlain(const GemmProblem &problem, GemmExtras extras,
                                PlannedGemm::Variant *chosen) {
  const bool tune =
      static_cast<double>(problem.m) * problem.n * problem.k >= minTunedWork;
  std::vector<std::unique_ptr<GemmDescriptors>> forms;
  for (GemmOrder order : orders(problem)) {
    std::unique_ptr<GemmDescriptors> form;
    TE_RT_RETURN_IF_FAILED(
        GemmDescriptors::create(library, problem, order, extras, &form));
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
    // Without measuring, the first algorithm of the preferred form is chosen.
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
    TE_RT_RETURN_IF_FAILED(
        findFastest(device, problem, extras, candidates, &fastest));
    best = fastest.value_or(0);
    if (fastest)
      cache.insert(problem, candidates[best].algorithm);
  }
  for (std::unique_ptr<GemmDescriptors> &form : forms)
    if (form.get() == candidates[best].descriptors)
      *chosen = {std::move(form), candidates[best].algorithm};
  return Status::ok();
}

Status GemmPlanner::chooseLike(const GemmAlgorithm &preferred,
                               const GemmProblem &problem, GemmExtras extras,
                               PlannedGemm::Variant *chosen) {
  // A high-precision GEMM can only add a bias of its own type to a result of
  // that type (Kernels.td).
  if (extras.bias && problem.a.scheme == GemmOperand::unscaled &&
      problem.biasType != problem.outType)
    return Status::ok();
  std::unique_ptr<GemmDescriptors> form;
  TE_RT_RETURN_IF_FAILED(GemmDescriptors::create(
      library, problem, GemmOrder::bFirst, extras, &form));
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
                         std::unique_ptr<PlannedGemm> *gemm) {
  auto made = std::make_unique<PlannedGemm>();
  const bool withAlpha = problem.alpha == GemmAlpha::present;
  GemmExtras extras;
  if (withAlpha)
    TE_RT_RETURN_IF_FAILED(zeroAndOne(&extras.zeroAndOne));
  TE_RT_RETURN_IF_FAILED(
      choosePlain(problem, extras, &made->variant(withAlpha, false)));
  // A copy, because each of the other variants corrects the scratch size.
  const GemmAlgorithm plain = made->variant(withAlpha, false).algorithm;
  extras.bias = true;
  TE_RT_RETURN_IF_FAILED(
      chooseLike(plain, problem, extras, &made->variant(withAlpha, true)));
  if (problem.alpha == GemmAlpha::optional) {
    TE_RT_RETURN_IF_FAILED(zeroAndOne(&extras.zeroAndOne));
    for (bool bias : {false, true}) {
      extras.bias = bias;
      TE_RT_RETURN_IF_FAILED(
          chooseLike(plain, problem, extras, &made->variant(true, bias)));
    }
  }
  *gemm = std::move(made);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

int64_t PlannedGemm::workspaceBytes() const {
  int64_t bytes = 0;
  for (const auto &withSameAlpha : variants)
    for (const Variant &variant : withSameAlpha)
      bytes = std::max(bytes, variant.algorithm.workspaceBytes);
  return bytes;
}

Status PlannedGemm::launch(const GemmBuffers &buffers, void *workspace,
                           void *stream) {
  Variant &chosen = variant(buffers.alpha, buffers.bias);
  if (chosen.descriptors)
    return chosen.descriptors->launch(chosen.algorithm, buffers, workspace,
                                      stream);
  if (!buffers.bias)
    return {TE_RT_UNSUPPORTED,
            "cuBLASLt has no algorithm that takes the 'alpha' of this matmul "
            "from the device; multiply its result instead"};
  return {TE_RT_UNSUPPORTED,
          "cuBLASLt has no algorithm that adds a bias to this matmul; add it "
          "with 'bias_add'"};
}

} // namespace te::rt::cuda
