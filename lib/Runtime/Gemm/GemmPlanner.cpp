//===- GemmPlanner.cpp - cuBLASLt plans with tuned algorithms -------------===//
//
// The algorithm is the stored one if the library still accepts it, otherwise
// the fastest of the library's candidates, which is stored then. The library's
// first guess is used if the problem is small, the context's options say so,
// the budget is spent, or there is no memory to measure in. The variants with a
// bias or a factor use the same algorithm where that is possible.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmPlanner.h"

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

GemmPlanner::GemmPlanner(const CudaDevice &device, const CublasLt &library,
                         const int32_t &slot)
    : device(device), library(library), slot(slot),
      cache(machineText(device, library)) {}

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

Status GemmPlanner::setOptions(const te_rt_gemm_options &given) {
  if (given.choice != TE_RT_GEMM_FIRST)
    TE_RT_RETURN_IF_FAILED(
        cache.open(given.file, /*mustExist=*/given.choice == TE_RT_GEMM_FILE));
  options = given;
  hasOptions = true;
  options.file = nullptr; // The cache has its own copy.
  measured.clear();
  spent = {};
  return Status::ok();
}

Status GemmPlanner::setDeterministic(bool is) {
  if (is && hasOptions && options.choice == TE_RT_GEMM_TUNED)
    return {TE_RT_INVALID_ARGUMENT,
            "expected the choice of the algorithms of GEMMs to be 'first' or "
            "'file' for a step that was compiled with 'deterministic', but it "
            "is 'tuned', which measures times"};
  isDeterministic = is;
  return Status::ok();
}

int32_t GemmPlanner::choice() const {
  return isDeterministic && !hasOptions ? int32_t{TE_RT_GEMM_FIRST}
                                        : options.choice;
}

bool GemmPlanner::takeStored(const GemmProblem &problem, Forms &forms,
                             bool *isStored, PlannedGemm::Variant *chosen) {
  std::optional<GemmAlgorithm> stored = cache.find(problem);
  *isStored = stored.has_value();
  for (std::unique_ptr<GemmDescriptors> &form : forms)
    if (stored && form->accepts(&*stored)) {
      *chosen = {std::move(form), *stored};
      return true;
    }
  return false;
}

Status GemmPlanner::notStored(const GemmProblem &problem, bool isStored) const {
  const std::string gemm = "[" + problem.text() + "]";
  return {TE_RT_INVALID_ARGUMENT,
          (isStored ? "expected cuBLASLt to accept the algorithm of " + gemm +
                          " in the tuning file '" + cache.file() + "'"
                    : "expected the tuning file '" + cache.file() +
                          "' to have " + gemm) +
              ", but it does not; load the step once with the choice 'tuned' "
              "and this file, or choose 'first'"};
}

Status GemmPlanner::suggest(const GemmProblem &problem, const Forms &forms,
                            bool all,
                            std::vector<GemmCandidate> *candidates) const {
  for (const std::unique_ptr<GemmDescriptors> &form : forms) {
    // Without measuring, the first algorithm of the preferred form is chosen.
    if (!all && !candidates->empty())
      break;
    std::vector<GemmAlgorithm> algorithms;
    TE_RT_RETURN_IF_FAILED(form->suggest(all ? maxCandidates : 1, &algorithms));
    for (const GemmAlgorithm &algorithm : algorithms)
      candidates->push_back({form.get(), algorithm});
  }
  if (!candidates->empty())
    return Status::ok();
  return {TE_RT_UNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic: cuBLASLt " +
                                 std::to_string(library.cublasLtGetVersion()) +
                                 " has no algorithm for [" + problem.text() +
                                 "] on '" + device.name +
                                 "' (compute capability " +
                                 std::to_string(device.computeMajor) + "." +
                                 std::to_string(device.computeMinor) + ")"};
}

Status GemmPlanner::measure(const GemmProblem &problem, GemmExtras extras,
                            const std::vector<GemmCandidate> &candidates,
                            std::optional<size_t> *fastest) {
  const auto start = std::chrono::steady_clock::now();
  if (options.tuning)
    options.tuning(options.user, slot, problem.text().c_str());
  const Status status =
      findFastest(device, problem, extras, candidates, fastest);
  spent += std::chrono::steady_clock::now() - start;
  return status;
}

Status GemmPlanner::choosePlain(const GemmProblem &problem, GemmExtras extras,
                                te_rt_gemm_origin *origin,
                                PlannedGemm::Variant *chosen) {
  Forms forms;
  for (GemmOrder order : orders(problem)) {
    std::unique_ptr<GemmDescriptors> form;
    TE_RT_RETURN_IF_FAILED(
        GemmDescriptors::create(library, problem, order, extras, &form));
    forms.push_back(std::move(form));
  }

  const bool isLarge =
      static_cast<double>(problem.m) * problem.n * problem.k >= minTunedWork;
  bool isStored = false;
  if (isLarge && choice() != TE_RT_GEMM_FIRST) {
    if (takeStored(problem, forms, &isStored, chosen)) {
      *origin = measured.contains(problem.text()) ? TE_RT_GEMM_ORIGIN_MEASURED
                                                  : TE_RT_GEMM_ORIGIN_FILE;
      return Status::ok();
    }
    if (choice() == TE_RT_GEMM_FILE)
      return notStored(problem, isStored);
  }

  const bool tune = isLarge && choice() == TE_RT_GEMM_TUNED &&
                    (options.budget_ms == 0 ||
                     spent < std::chrono::milliseconds(options.budget_ms));
  std::vector<GemmCandidate> candidates;
  TE_RT_RETURN_IF_FAILED(suggest(problem, forms, tune, &candidates));
  std::optional<size_t> fastest;
  if (tune && candidates.size() == 1)
    fastest = 0;
  else if (tune)
    TE_RT_RETURN_IF_FAILED(measure(problem, extras, candidates, &fastest));
  const GemmCandidate best = candidates[fastest.value_or(0)];
  *origin = isLarge ? TE_RT_GEMM_ORIGIN_FIRST : TE_RT_GEMM_ORIGIN_SMALL;
  if (fastest) {
    GemmAlgorithm stored = best.algorithm;
    TE_RT_RETURN_IF_FAILED(cache.insert(problem, isStored, &stored));
    // Another process may have stored one meanwhile.
    const bool isOwn = stored.text() == best.algorithm.text();
    if (!isOwn && takeStored(problem, forms, &isStored, chosen)) {
      *origin = TE_RT_GEMM_ORIGIN_FILE;
      return Status::ok();
    }
    measured.insert(problem.text());
    *origin = TE_RT_GEMM_ORIGIN_MEASURED;
  }
  for (std::unique_ptr<GemmDescriptors> &form : forms)
    if (form.get() == best.descriptors)
      *chosen = {std::move(form), best.algorithm};
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
  TE_RT_RETURN_IF_FAILED(choosePlain(problem, extras, &made->record.origin,
                                     &made->variant(withAlpha, false)));
  // A copy, because each of the other variants corrects the scratch size.
  const GemmAlgorithm plain = made->variant(withAlpha, false).algorithm;
  made->record.gemm = problem.text();
  made->record.algorithm = plain.text();
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
