//===- MatmulPlans.cpp - plans of matmul and scaled_matmul ----------------===//
//
// A plan is one GEMM of the library. A launch passes the buffers of the kernel
// to it.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmPlanner.h"

#include "Cuda/CudaBackend.h"
#include "Gemm/MicroscaledPlans.h"
#include "Kernels/Gemm/BlockGemm.h"
#include "TEDialect/Support/SupportTable.h"

namespace te::rt::cuda {

namespace support = te_table;
namespace {

class GemmPlan : public Plan {
public:
  explicit GemmPlan(std::unique_ptr<PlannedGemm> gemm)
      : gemm(std::move(gemm)) {}

  int64_t workspaceBytes() const override { return gemm->workspaceBytes(); }
  const GemmRecord *gemmRecord() const override { return &gemm->record; }
  void setWorkspace(void *pointer) override { workspace = pointer; }

protected:
  std::unique_ptr<PlannedGemm> gemm;
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
    given.alpha = buffers[alpha];
    given.bias = buffers[bias];
    given.c = buffers[c];
    given.out = buffers[out];
    return gemm->launch(given, workspace, stream);
  }
};

class ScaledMatmulPlan final : public GemmPlan {
public:
  using GemmPlan::GemmPlan;

  Status launch(void *stream, void *const *buffers) override {
    using namespace scaled_matmul_buffers;
    return gemm->launch({.a = buffers[a],
                         .aScale = buffers[a_scale],
                         .b = buffers[b],
                         .bScale = buffers[b_scale],
                         .bias = buffers[bias],
                         .c = buffers[c],
                         .out = buffers[out]},
                        workspace, stream);
  }
};

/// A matmul with an empty axis: there is nothing to write, or the sum is empty.
class EmptyMatmulPlan final : public Plan {
public:
  EmptyMatmulPlan(const CudaDevice &device, int64_t outBytes, int bias, int c,
                  int out)
      : device(device), outBytes(outBytes), bias(bias), c(c), out(out) {}

  Status launch(void *stream, void *const *buffers) override {
    if (outBytes == 0)
      return Status::ok();
    if (buffers[bias])
      return {TE_RT_UNSUPPORTED,
              "expected 'k' to be at least 1 in a matmul with a bias, but got "
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

/// `bias`, `c` and `out` are the buffer indices of the kernel.
template <typename KernelPlan>
Status planGemm(const CudaDevice &device, const GemmProblem &problem, int bias,
                int c, int out, std::unique_ptr<Plan> *plan) {
  if (problem.m == 0 || problem.n == 0 || problem.k == 0) {
    *plan = std::make_unique<EmptyMatmulPlan>(
        device, problem.m * problem.n * byteSize(problem.outType), bias, c,
        out);
    return Status::ok();
  }
  std::unique_ptr<PlannedGemm> gemm;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &gemm));
  *plan = std::make_unique<KernelPlan>(std::move(gemm));
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
  problem.alpha = GemmAlpha::optional;
  return planGemm<MatmulPlan>(device, problem, bias, c, out, plan);
}

/// Refuses what the support table excludes on this device. For GPUs without a
/// column in the table, cuBLASLt decides.
static Status checkTarget(const CudaDevice &device, const CublasLt &library,
                          const scaled_matmul_params &params) {
  const std::optional<support::Target> target =
      device.computeMajor == 9    ? std::optional(support::Target::Sm90)
      : device.computeMajor == 10 ? std::optional(support::Target::Sm100)
                                  : std::nullopt;
  if (!target)
    return Status::ok();
  // The compiler has checked that scales are powers of two where they must be.
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

/// Whether the tensor cores read 8-bit operands in any layout.
static bool readsAnyLayout(const CudaDevice &device) {
  return device.computeMajor == 10 || device.computeMajor == 11 ||
         device.computeMajor >= 13;
}

Status plan_scaled_matmul(const CudaDevice &device,
                          const scaled_matmul_params &params,
                          std::unique_ptr<Plan> *plan) {
  using namespace scaled_matmul_buffers;
  if (runsOwnGemm(device, params))
    return planOwnGemm(device, params, plan);
  TE_RT_RETURN_IF_FAILED(checkTarget(device, device.gemm->cublasLt(), params));
  GemmProblem problem;
  problem.m = params.m;
  problem.n = params.n;
  problem.k = params.k;
  const bool perTensor = params.a_scheme == TE_RT_PER_TENSOR;
  problem.a = {params.a_type, params.a_scheme, perTensor && params.a_axis == 0};
  problem.b = {params.b_type, params.b_scheme, perTensor && params.b_axis == 0};
  if ((problem.a.transposed || problem.b.transposed) && !readsAnyLayout(device))
    return {TE_RT_UNSUPPORTED,
            "expected the operands of a per_tensor matmul to be quantised for "
            "the axis that it contracts, but got 'a_axis' " +
                std::to_string(params.a_axis) + " and 'b_axis' " +
                std::to_string(params.b_axis) + " on compute capability " +
                std::to_string(device.computeMajor) + "." +
                std::to_string(device.computeMinor) +
                "; the nearest supported is a step compiled for its target"};
  problem.biasType = TE_RT_BF16;
  problem.outType = params.out_type;
  problem.fastAccumulation = params.fast_accumulation != 0;
  const bool isEmpty = params.m == 0 || params.n == 0 || params.k == 0;
  if (!isEmpty && isMicroscaled(device, params))
    return planMicroscaled(device, params, problem, plan);
  return planGemm<ScaledMatmulPlan>(device, problem, bias, c, out, plan);
}

} // namespace te::rt::cuda
