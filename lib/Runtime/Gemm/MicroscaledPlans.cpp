//===- MicroscaledPlans.cpp - GEMMs with 8-bit block scales ---------------===//
//
// The tensor cores of compute capability 10 read a scale for each 32 elements
// of an mx operand, or 16 of an nv operand, in the order of swizzle_scales.
// There,
//
//   mx           is one GEMM;
//   nv           computes alpha from both amaxes, and the GEMM reads it;
//   nv rows      with a factor each: an f32 GEMM without a factor, then
//                te_scale_rows, since cuBLASLt takes one factor for all rows;
//   block        converts its power-of-two scales to exponents, four for each,
//   and
//                is an mx GEMM then. An operand c is added to the rounded
//                result, as Kernels.td says for scaled_matmul.
//
// What a plan computes beside the GEMM is in its scratch memory, before the
// scratch memory of the GEMM.
//
//===----------------------------------------------------------------------===//

#include "Gemm/MicroscaledPlans.h"

#include "Core/Capabilities.h"
#include "Cuda/CudaBackend.h"
#include "Gemm/GemmPlanner.h"
#include "Kernels/Gemm/GemmScales.h"
#include "TEDialect/Support/SupportTable.h"

#include <optional>

namespace te::rt::cuda {

namespace support = te_table;
namespace {

/// Divides a plan's scratch memory into aligned pieces.
class Scratch {
public:
  /// Offset of a new piece.
  int64_t add(int64_t size) {
    const int64_t offset = bytes;
    bytes += roundUp(size, 256);
    return offset;
  }
  int64_t size() const { return bytes; }

private:
  int64_t bytes = 0;
};

/// A GEMM of the library, with pieces of scratch memory before its own.
class MicroscaledPlan : public Plan {
public:
  MicroscaledPlan(const CudaDevice &device, std::unique_ptr<PlannedGemm> gemm,
                  Scratch scratch)
      : device(device), gemm(std::move(gemm)), scratch(scratch) {}

  int64_t workspaceBytes() const override {
    return scratch.size() + gemm->workspaceBytes();
  }
  const GemmRecord *gemmRecord() const override { return &gemm->record; }
  void setWorkspace(void *pointer) override {
    workspace = static_cast<char *>(pointer);
  }

protected:
  static GemmBuffers given(void *const *buffers) {
    using namespace scaled_matmul_buffers;
    return {.a = buffers[a],
            .aScale = buffers[a_scale],
            .b = buffers[b],
            .bScale = buffers[b_scale],
            .alpha = nullptr,
            .bias = buffers[bias],
            .c = buffers[c],
            .out = buffers[out]};
  }
  Status multiply(const GemmBuffers &buffers, void *stream) {
    return gemm->launch(buffers, workspace + scratch.size(), stream);
  }

  const CudaDevice &device; // outlives every plan of its backend
  std::unique_ptr<PlannedGemm> gemm;
  const Scratch scratch;
  char *workspace = nullptr;
};

class MxPlan final : public MicroscaledPlan {
public:
  using MicroscaledPlan::MicroscaledPlan;

  Status launch(void *stream, void *const *buffers) override {
    return multiply(given(buffers), stream);
  }
};

class BlockAsMxPlan final : public MicroscaledPlan {
public:
  /// The scales of `a` come first in the scratch memory. `add` adds c to the
  /// rounded result of the GEMM at `rounded`; it is null where rounding changes
  /// nothing.
  struct Offsets {
    int64_t bScale = 0, rounded = 0;
  };
  BlockAsMxPlan(const CudaDevice &device, std::unique_ptr<PlannedGemm> gemm,
                Scratch scratch, Offsets offsets, std::unique_ptr<Plan> aScales,
                std::unique_ptr<Plan> bScales, std::unique_ptr<Plan> add)
      : MicroscaledPlan(device, std::move(gemm), scratch), offsets(offsets),
        aScales(std::move(aScales)), bScales(std::move(bScales)),
        add(std::move(add)) {}

  Status launch(void *stream, void *const *buffers) override {
    GemmBuffers operands = given(buffers);
    void *const aOnes[] = {operands.aScale, workspace};
    void *const bOnes[] = {operands.bScale, workspace + offsets.bScale};
    TE_RT_RETURN_IF_FAILED(aScales->launch(stream, aOnes));
    TE_RT_RETURN_IF_FAILED(bScales->launch(stream, bOnes));
    operands.aScale = aOnes[block_to_mx_scales_buffers::mx_scale];
    operands.bScale = bOnes[block_to_mx_scales_buffers::mx_scale];
    if (!operands.c || !add)
      return multiply(operands, stream);
    void *const sum[] = {workspace + offsets.rounded, operands.c, operands.out};
    operands.out = sum[bias_add_buffers::x];
    operands.c = nullptr;
    TE_RT_RETURN_IF_FAILED(multiply(operands, stream));
    return add->launch(stream, sum);
  }

private:
  const Offsets offsets;
  std::unique_ptr<Plan> aScales, bScales, add;
};

class NvPlan final : public MicroscaledPlan {
public:
  /// The factors are at the start of the scratch memory. `rows`, where there is
  /// one, scales the rows of the f32 result at `gemmOffset`.
  NvPlan(const CudaDevice &device, std::unique_ptr<PlannedGemm> gemm,
         Scratch scratch, const scaled_matmul_params &params,
         std::unique_ptr<Plan> alpha, std::optional<ScaleRows> rows,
         int64_t gemmOffset)
      : MicroscaledPlan(device, std::move(gemm), scratch), params(params),
        alpha(std::move(alpha)), rows(std::move(rows)), gemmOffset(gemmOffset) {
  }

  Status launch(void *stream, void *const *buffers) override {
    using namespace scaled_matmul_buffers;
    TE_RT_RETURN_IF_FAILED(checkBuffers(params, buffers));
    void *const amaxes[] = {buffers[a_amax], buffers[b_amax], workspace};
    TE_RT_RETURN_IF_FAILED(alpha->launch(stream, amaxes));
    GemmBuffers operands = given(buffers);
    if (!rows) {
      operands.alpha = workspace;
      return multiply(operands, stream);
    }
    operands.bias = operands.c = nullptr;
    operands.out = workspace + gemmOffset;
    TE_RT_RETURN_IF_FAILED(multiply(operands, stream));
    return rows->launch(
        Launcher(device, stream),
        {.unscaled = reinterpret_cast<float *>(workspace + gemmOffset),
         .alpha = reinterpret_cast<float *>(workspace),
         .bias = buffers[bias],
         .c = buffers[c],
         .out = buffers[out],
         .n = 0,
         .rowBlocks = 0});
  }

private:
  const scaled_matmul_params params;
  std::unique_ptr<Plan> alpha;
  std::optional<ScaleRows> rows;
  const int64_t gemmOffset;
};

Status planBlockAsMx(const CudaDevice &device,
                     const scaled_matmul_params &params, GemmProblem problem,
                     std::unique_ptr<Plan> *plan) {
  std::unique_ptr<Plan> aScales, bScales, add;
  TE_RT_RETURN_IF_FAILED(plan_block_to_mx_scales(
      device, {params.m, params.k, params.a_scheme}, &aScales));
  TE_RT_RETURN_IF_FAILED(plan_block_to_mx_scales(
      device, {params.n, params.k, params.b_scheme}, &bScales));
  const int64_t pitch = roundUp(ceilDiv(params.k, 32), 4);
  Scratch scratch;
  scratch.add(roundUp(params.m, 128) * pitch);
  BlockAsMxPlan::Offsets offsets;
  offsets.bScale = scratch.add(roundUp(params.n, 128) * pitch);
  if (params.out_type != TE_RT_F32) {
    const int64_t count = params.m * params.n;
    TE_RT_RETURN_IF_FAILED(
        plan_bias_add(device, {1, count, params.out_type}, &add));
    offsets.rounded = scratch.add(count * byteSize(params.out_type));
  }
  problem.a.scheme = problem.b.scheme = TE_RT_MX_1X32;
  std::unique_ptr<PlannedGemm> gemm;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &gemm));
  *plan = std::make_unique<BlockAsMxPlan>(device, std::move(gemm), scratch,
                                          offsets, std::move(aScales),
                                          std::move(bScales), std::move(add));
  return Status::ok();
}

Status planNv(const CudaDevice &device, const scaled_matmul_params &params,
              GemmProblem problem, std::unique_ptr<Plan> *plan) {
  const bool byRow = params.a_row_scaled != 0;
  const int64_t numFactors = byRow ? params.m : 1;
  std::unique_ptr<Plan> alpha;
  TE_RT_RETURN_IF_FAILED(plan_nvfp4_alpha(
      device, {1, numFactors, params.a_scale_max, params.b_scale_max}, &alpha));
  Scratch scratch;
  scratch.add(numFactors * 4);
  std::optional<ScaleRows> rows;
  int64_t gemmOffset = 0;
  if (byRow) {
    rows.emplace();
    TE_RT_RETURN_IF_FAILED(
        rows->plan(device, params.m, params.n, params.out_type));
    gemmOffset = scratch.add(params.m * params.n * 4);
    problem.outType = TE_RT_F32;
  } else {
    problem.alpha = GemmAlpha::present;
  }
  std::unique_ptr<PlannedGemm> gemm;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &gemm));
  *plan =
      std::make_unique<NvPlan>(device, std::move(gemm), scratch, params,
                               std::move(alpha), std::move(rows), gemmOffset);
  return Status::ok();
}

} // namespace

bool isMicroscaled(const CudaDevice &device,
                   const scaled_matmul_params &params) {
  return isMx(params.a_scheme) || isNv(params.a_scheme) ||
         (device.computeMajor == 10 &&
          support::productOn(params.a_scheme, params.b_scheme,
                             support::Target::Sm100)
                  .path == support::Path::ThroughMX);
}

Status planMicroscaled(const CudaDevice &device,
                       const scaled_matmul_params &params,
                       const GemmProblem &problem,
                       std::unique_ptr<Plan> *plan) {
  if (!isMx(params.a_scheme) && !isNv(params.a_scheme))
    return planBlockAsMx(device, params, problem, plan);
  if (!params.swizzled)
    return {TE_RT_UNSUPPORTED,
            "expected 'swizzled' to be 1 (cuBLASLt reads mx and nv scales in "
            "the order of 'swizzle_scales' only), but got 0"};
  // The tensor core has only one accumulation mode for these.
  GemmProblem exact = problem;
  exact.fastAccumulation = false;
  if (isNv(params.a_scheme))
    return planNv(device, params, exact, plan);
  exact.a.transposed = params.a_axis == 0;
  exact.b.transposed = params.b_axis == 0;
  std::unique_ptr<PlannedGemm> gemm;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(exact, &gemm));
  *plan = std::make_unique<MxPlan>(device, std::move(gemm), Scratch());
  return Status::ok();
}

} // namespace te::rt::cuda
