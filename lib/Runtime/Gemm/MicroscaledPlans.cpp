//===- MicroscaledPlans.cpp - products with 8-bit block scales ------------===//
//
// The tensor cores of compute capability 10 read a scale for each 32 elements
// of an mx operand or 16 of an nv one, in the order of swizzle_scales. On it,
//
//   mx           is one product;
//   nv           computes alpha from both amaxes, and the product reads it;
//   nv, rows     that have a factor each: an f32 product without a factor, then
//                te_scale_rows, since cuBLASLt takes one factor for all rows;
//   block        has its power-of-two scales reduced to exponents, four for
//                each, and is an mx product then. An operand c is added to the
//                rounded product, as the row of scaled_matmul says.
//
// What a plan computes beside the product lies in its scratch memory, before
// that of the product.
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

/// Hands out a plan's scratch memory in aligned pieces.
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

/// A product with pieces of scratch memory before its own.
class ProductPlan : public Plan {
public:
  ProductPlan(const CudaDevice &device, std::unique_ptr<GemmProduct> product,
              Scratch scratch)
      : device(device), product(std::move(product)), scratch(scratch) {}

  int64_t workspaceBytes() const override {
    return scratch.size() + product->workspaceBytes();
  }
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
    return product->launch(buffers, workspace + scratch.size(), stream);
  }

  const CudaDevice &device; // outlives every plan of its backend
  std::unique_ptr<GemmProduct> product;
  const Scratch scratch;
  char *workspace = nullptr;
};

class MxPlan final : public ProductPlan {
public:
  using ProductPlan::ProductPlan;

  Status launch(void *stream, void *const *buffers) override {
    return multiply(given(buffers), stream);
  }
};

class BlockAsMxPlan final : public ProductPlan {
public:
  /// The scales of `a` come first. `add` adds c to the rounded product that
  /// lies at `rounded`; null where rounding changes nothing.
  struct Offsets {
    int64_t bScale = 0, rounded = 0;
  };
  BlockAsMxPlan(const CudaDevice &device, std::unique_ptr<GemmProduct> product,
                Scratch scratch, Offsets offsets, std::unique_ptr<Plan> aScales,
                std::unique_ptr<Plan> bScales, std::unique_ptr<Plan> add)
      : ProductPlan(device, std::move(product), scratch), offsets(offsets),
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
    operands.out = sum[pointwise_buffers::a];
    operands.c = nullptr;
    TE_RT_RETURN_IF_FAILED(multiply(operands, stream));
    return add->launch(stream, sum);
  }

private:
  const Offsets offsets;
  std::unique_ptr<Plan> aScales, bScales, add;
};

class NvPlan final : public ProductPlan {
public:
  /// The factors lie at the start of the scratch memory. `rows` finishes the
  /// product that lies at `productOffset`, where there is one.
  NvPlan(const CudaDevice &device, std::unique_ptr<GemmProduct> product,
         Scratch scratch, const scaled_matmul_params &params,
         std::unique_ptr<Plan> alpha, std::optional<ScaleRows> rows,
         int64_t productOffset)
      : ProductPlan(device, std::move(product), scratch), params(params),
        alpha(std::move(alpha)), rows(std::move(rows)),
        productOffset(productOffset) {}

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
    operands.out = workspace + productOffset;
    TE_RT_RETURN_IF_FAILED(multiply(operands, stream));
    return rows->launch(
        Launcher(device, stream),
        {.unscaled = reinterpret_cast<float *>(workspace + productOffset),
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
  const int64_t productOffset;
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
    TE_RT_RETURN_IF_FAILED(plan_pointwise(
        device, {count, TE_RT_ADD, params.out_type, params.out_type}, &add));
    offsets.rounded = scratch.add(count * byteSize(params.out_type));
  }
  problem.a.scheme = problem.b.scheme = TE_RT_MX_1X32;
  std::unique_ptr<GemmProduct> product;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &product));
  *plan = std::make_unique<BlockAsMxPlan>(device, std::move(product), scratch,
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
  int64_t productOffset = 0;
  if (byRow) {
    rows.emplace();
    TE_RT_RETURN_IF_FAILED(
        rows->plan(device, params.m, params.n, params.out_type));
    productOffset = scratch.add(params.m * params.n * 4);
    problem.outType = TE_RT_F32;
  } else {
    problem.alpha = GemmAlpha::present;
  }
  std::unique_ptr<GemmProduct> product;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(problem, &product));
  *plan = std::make_unique<NvPlan>(device, std::move(product), scratch, params,
                                   std::move(alpha), std::move(rows),
                                   productOffset);
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
  // The tensor core has one accumulator for these.
  GemmProblem exact = problem;
  exact.fastAccumulation = false;
  if (isNv(params.a_scheme))
    return planNv(device, params, exact, plan);
  exact.a.transposed = params.a_axis == 0;
  exact.b.transposed = params.b_axis == 0;
  std::unique_ptr<GemmProduct> product;
  TE_RT_RETURN_IF_FAILED(device.gemm->plan(exact, &product));
  *plan = std::make_unique<MxPlan>(device, std::move(product), Scratch());
  return Status::ok();
}

} // namespace te::rt::cuda
