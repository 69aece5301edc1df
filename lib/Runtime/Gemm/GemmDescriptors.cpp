//===- GemmDescriptors.cpp - a GEMM as cuBLASLt sees it -------------------===//
//
// The operation is created before the layouts, and released after them. Every
// GEMM accumulates and scales in f32. beta is 0 or 1; alpha is 1 on the host,
// or a value in device memory.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmDescriptors.h"

#include <algorithm>
#include <cstring>

namespace te::rt::cuda {
namespace {

/// The most scratch memory that an algorithm may need.
constexpr uint64_t maxWorkspaceBytes = 32 << 20;

/// The alignment of addresses that the planner assumes; a launch refuses
/// pointers that are less aligned.
constexpr uint32_t pointerAlignment = 16;

cudaDataType dataType(int32_t type) {
  switch (type) {
  case TE_RT_BF16:
    return CUDA_R_16BF;
  case TE_RT_F16:
    return CUDA_R_16F;
  case TE_RT_F8E4M3FN:
    return CUDA_R_8F_E4M3;
  case TE_RT_F8E5M2:
    return CUDA_R_8F_E5M2;
  case TE_RT_F4E2M1FN:
    return CUDA_R_4F_E2M1;
  default:
    return CUDA_R_32F;
  }
}

cublasLtMatmulMatrixScale_t scaleMode(int32_t scheme) {
  switch (scheme) {
  case TE_RT_BLOCK_1X128:
    return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  case TE_RT_BLOCK_128X128:
    return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  // The scale of a square block is stored for each of its lines.
  case TE_RT_MX_1X32:
  case TE_RT_MX_32X32:
    return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  case TE_RT_NV_1X16:
  case TE_RT_NV_16X16:
    return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
  default:
    return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

class Preference {
public:
  explicit Preference(const CublasLt &library) : library(library) {}
  ~Preference() {
    if (handle)
      (void)library.cublasLtMatmulPreferenceDestroy(handle);
  }

  Status initialize() {
    TE_RT_RETURN_IF_FAILED(
        library.check(library.cublasLtMatmulPreferenceCreate(&handle),
                      "cublasLtMatmulPreferenceCreate"));
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, maxWorkspaceBytes));
    // Partial sums of a split k may only be added in f32 and in a fixed order,
    // so that results do not depend on timing.
    TE_RT_RETURN_IF_FAILED(
        set<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      TE_RT_RETURN_IF_FAILED(set(attribute, pointerAlignment));
    return Status::ok();
  }

  cublasLtMatmulPreference_t get() const { return handle; }

private:
  template <typename T>
  Status set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return library.check(library.cublasLtMatmulPreferenceSetAttribute(
                             handle, attribute, &value, sizeof(value)),
                         "cublasLtMatmulPreferenceSetAttribute");
  }

  const CublasLt &library;
  cublasLtMatmulPreference_t handle = nullptr;
};

/// A layout of `operand`, which has `outer` rows of k elements.
Status createLayout(const CublasLt &library, const GemmOperand &operand,
                    int64_t outer, int64_t k, cublasLtMatrixLayout_t *layout) {
  const int64_t rows = operand.transposed ? outer : k;
  const int64_t cols = operand.transposed ? k : outer;
  return library.check(
      library.cublasLtMatrixLayoutCreate(layout, dataType(operand.type),
                                         static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(cols), rows),
      "cublasLtMatrixLayoutCreate");
}

} // namespace

Status GemmDescriptors::create(const CublasLt &library,
                               const GemmProblem &problem, GemmOrder order,
                               GemmExtras extras,
                               std::unique_ptr<GemmDescriptors> *descriptors) {
  std::unique_ptr<GemmDescriptors> created(
      new GemmDescriptors(library, order, extras));
  TE_RT_RETURN_IF_FAILED(created->initialize(problem));
  *descriptors = std::move(created);
  return Status::ok();
}

Status GemmDescriptors::initialize(const GemmProblem &problem) {
  const bool aFirst = order == GemmOrder::aFirst;
  const GemmOperand &one = aFirst ? problem.a : problem.b;
  const GemmOperand &two = aFirst ? problem.b : problem.a;
  const int64_t oneOuter = aFirst ? problem.m : problem.n;
  const int64_t twoOuter = aFirst ? problem.n : problem.m;

  TE_RT_RETURN_IF_FAILED(
      library.check(library.cublasLtMatmulDescCreate(
                        &operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                    "cublasLtMatmulDescCreate"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return library.check(library.cublasLtMatmulDescSetAttribute(
                             operation, attribute, &value, sizeof(value)),
                         "cublasLtMatmulDescSetAttribute");
  };
  TE_RT_RETURN_IF_FAILED(set(CUBLASLT_MATMUL_DESC_TRANSA,
                             one.transposed ? CUBLAS_OP_N : CUBLAS_OP_T));
  TE_RT_RETURN_IF_FAILED(set(CUBLASLT_MATMUL_DESC_TRANSB,
                             two.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));

  // A placeholder for pointers that are known at launch: the library reads
  // their alignment when it searches for algorithms.
  void *const unknown = reinterpret_cast<void *>(uintptr_t{pointerAlignment});
  if (one.scheme != GemmOperand::unscaled) {
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scaleMode(one.scheme)));
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scaleMode(two.scheme)));
    TE_RT_RETURN_IF_FAILED(setPointer(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                      unknown, &lastFirstScale));
    TE_RT_RETURN_IF_FAILED(setPointer(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                      unknown, &lastSecondScale));
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_FAST_ACCUM,
            static_cast<int8_t>(problem.fastAccumulation ? 1 : 0)));
  }
  if (extras.zeroAndOne)
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE));
  if (extras.bias) {
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    TE_RT_RETURN_IF_FAILED(
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dataType(problem.biasType)));
    TE_RT_RETURN_IF_FAILED(
        setPointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER, unknown, &lastBias));
  }

  TE_RT_RETURN_IF_FAILED(
      createLayout(library, one, oneOuter, problem.k, &first));
  TE_RT_RETURN_IF_FAILED(
      createLayout(library, two, twoOuter, problem.k, &second));
  TE_RT_RETURN_IF_FAILED(library.check(
      library.cublasLtMatrixLayoutCreate(
          &out, dataType(problem.outType), static_cast<uint64_t>(oneOuter),
          static_cast<uint64_t>(twoOuter), problem.n),
      "cublasLtMatrixLayoutCreate"));
  if (!aFirst)
    return Status::ok();
  const cublasLtOrder_t rows = CUBLASLT_ORDER_ROW;
  return library.check(
      library.cublasLtMatrixLayoutSetAttribute(
          out, CUBLASLT_MATRIX_LAYOUT_ORDER, &rows, sizeof(rows)),
      "cublasLtMatrixLayoutSetAttribute");
}

std::string hexText(const cublasLtMatmulAlgo_t &algo) {
  unsigned char bytes[sizeof(algo)];
  std::memcpy(bytes, &algo, sizeof(algo));
  const char *const digits = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

GemmDescriptors::~GemmDescriptors() {
  for (cublasLtMatrixLayout_t layout : {out, second, first})
    if (layout)
      (void)library.cublasLtMatrixLayoutDestroy(layout);
  if (operation)
    (void)library.cublasLtMatmulDescDestroy(operation);
}

Status GemmDescriptors::suggest(int count,
                                std::vector<GemmAlgorithm> *algorithms) const {
  Preference preference(library);
  TE_RT_RETURN_IF_FAILED(preference.initialize());
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      static_cast<size_t>(count));
  int found = 0;
  const cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(
      library.handle, operation, first, second, out, out, preference.get(),
      count, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(
      library.check(status, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      algorithms->push_back({order,
                             static_cast<int64_t>(results[i].workspaceSize),
                             results[i].algo});
  return Status::ok();
}

bool GemmDescriptors::accepts(GemmAlgorithm *algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  if (algorithm->order != order ||
      library.cublasLtMatmulAlgoCheck(library.handle, operation, first, second,
                                      out, out, &algorithm->algo,
                                      &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > maxWorkspaceBytes)
    return false;
  algorithm->workspaceBytes = static_cast<int64_t>(result.workspaceSize);
  return true;
}

Status GemmDescriptors::setPointer(cublasLtMatmulDescAttributes_t attribute,
                                   void *pointer, void **last) {
  if (pointer == *last)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(
      library.check(library.cublasLtMatmulDescSetAttribute(
                        operation, attribute, &pointer, sizeof(pointer)),
                    "cublasLtMatmulDescSetAttribute"));
  *last = pointer;
  return Status::ok();
}

Status GemmDescriptors::launch(const GemmAlgorithm &algorithm,
                               const GemmBuffers &buffers, void *workspace,
                               void *stream) {
  const bool aFirst = order == GemmOrder::aFirst;
  const auto address = [](void *pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
  };
  // Scales are not checked: a per-tensor scale may be at any f32, and block
  // scales come from kernels that write whole aligned buffers.
  if ((address(buffers.a) | address(buffers.b) | address(buffers.bias) |
       address(buffers.c) | address(buffers.out)) %
      pointerAlignment)
    return {TE_RT_INVALID_ARGUMENT,
            "expected every matrix of a matmul to start at a multiple of 16 "
            "bytes"};
  TE_RT_RETURN_IF_FAILED(setPointer(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                    aFirst ? buffers.aScale : buffers.bScale,
                                    &lastFirstScale));
  TE_RT_RETURN_IF_FAILED(setPointer(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                    aFirst ? buffers.bScale : buffers.aScale,
                                    &lastSecondScale));
  TE_RT_RETURN_IF_FAILED(
      setPointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffers.bias, &lastBias));

  const float hostAlpha = 1.0f, hostBeta = buffers.c ? 1.0f : 0.0f;
  const void *alpha = &hostAlpha, *beta = &hostBeta;
  if (extras.zeroAndOne) {
    alpha = buffers.alpha;
    beta = extras.zeroAndOne + (buffers.c ? 1 : 0);
  }
  return library.check(
      library.cublasLtMatmul(library.handle, operation, alpha,
                             aFirst ? buffers.a : buffers.b, first,
                             aFirst ? buffers.b : buffers.a, second, beta,
                             buffers.c ? buffers.c : buffers.out, out,
                             buffers.out, out, &algorithm.algo, workspace,
                             static_cast<size_t>(algorithm.workspaceBytes),
                             static_cast<cudaStream_t>(stream)),
      "cublasLtMatmul");
}

} // namespace te::rt::cuda
