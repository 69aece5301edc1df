//===- FakeCublasLt.cpp - libcublasLt.so.13 for tests ---------------------===//
//
// Every entry point of CublasLtSymbols.inc. A matmul checks its descriptors and
// their memory, and computes nothing.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

using namespace te::fake;

namespace {

cublasStatus_t injectedError() {
  static const cublasStatus_t codes[] = {CUBLAS_STATUS_ALLOC_FAILED,
                                         CUBLAS_STATUS_EXECUTION_FAILED,
                                         CUBLAS_STATUS_NOT_SUPPORTED};
  return codes[book().errorVariant()];
}

template <typename Handle> Handle handleOf(Object *object) {
  return reinterpret_cast<Handle>(object);
}

size_t elementBits(int type) {
  switch (type) {
  case CUDA_R_4F_E2M1:
    return 4;
  case CUDA_R_8F_E4M3:
  case CUDA_R_8F_E5M2:
    return 8;
  case CUDA_R_16BF:
  case CUDA_R_16F:
    return 16;
  default:
    return 32;
  }
}

/// An algorithm stores its number and scratch size.
struct AlgorithmBody {
  int number;
  uint64_t workspaceBytes;
};
static_assert(sizeof(AlgorithmBody) <= sizeof(cublasLtMatmulAlgo_t));

AlgorithmBody bodyOf(const cublasLtMatmulAlgo_t &algo) {
  AlgorithmBody body;
  std::memcpy(&body, &algo, sizeof(body));
  return body;
}

cublasLtMatmulHeuristicResult_t resultFor(int number) {
  cublasLtMatmulHeuristicResult_t result = {};
  AlgorithmBody body = {};
  body.number = number;
  body.workspaceBytes = static_cast<uint64_t>(number) * 1024;
  std::memcpy(&result.algo, &body, sizeof(body));
  result.workspaceSize = body.workspaceBytes;
  result.state = CUBLAS_STATUS_SUCCESS;
  return result;
}

template <typename T> T attribute(const Object *object, int key, T otherwise) {
  const auto found = object->attributes.find(key);
  if (found == object->attributes.end() || found->second.size() != sizeof(T))
    return otherwise;
  T value;
  std::memcpy(&value, found->second.data(), sizeof(T));
  return value;
}

cublasStatus_t setAttribute(const void *handle, Kind kind, int key,
                            const void *value, size_t bytes, const char *call) {
  Object *object = book().use(handle, kind, call);
  if (!object || !value)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto *begin = static_cast<const unsigned char *>(value);
  object->attributes[key].assign(begin, begin + bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool isTransposed(const Object *operation, int key) {
  return attribute<int>(operation, key, CUBLAS_OP_N) == CUBLAS_OP_T;
}

/// The bytes of the scales of a layout with `outer` columns (or rows, if
/// transposed) of k elements.
size_t scaleBytes(int mode, int64_t outer, int64_t k) {
  const auto up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  switch (mode) {
  case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
    return static_cast<size_t>(up(outer, 128) * up((k + 15) / 16, 4));
  case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:
    return static_cast<size_t>(up(outer, 128) * up((k + 31) / 32, 4));
  default:
    return 4;
  }
}

/// Whether the machine multiplies operands with these scales.
bool scalesSupported(const Object *operation, const Object *a,
                     const Object *b) {
  const int modeA = attribute<int>(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                                   CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
  const int modeB = attribute<int>(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                                   CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
  const int major = book().machine.computeMajor;
  const auto bits = [&](size_t n) {
    return elementBits(a->type) == n && elementBits(b->type) == n;
  };
  for (int mode : {modeA, modeB})
    switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      if (major != 10 || modeA != modeB || !bits(4))
        return false;
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:
      if (major != 10 || modeA != modeB || !bits(8))
        return false;
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      if (major != 9 || !bits(8))
        return false;
      break;
    default:
      if (bits(4))
        return false;
    }
  return true;
}

/// Whether the three layouts fit together; if not, that is a violation.
bool shapesAgree(const Object *operation, const Object *a, const Object *b,
                 const Object *d, const char *call) {
  const bool transA = isTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSA);
  const bool transB = isTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSB);
  const bool rowOrder =
      attribute<int>(d, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL) ==
      CUBLASLT_ORDER_ROW;
  // 8-bit operands on sm_90, and 4-bit operands on any machine.
  const bool onlyTN =
      elementBits(a->type) == 4 ||
      (elementBits(a->type) == 8 && book().machine.computeMajor == 9);
  const bool agree =
      (transA ? a->cols : a->rows) == d->rows &&
      (transB ? b->rows : b->cols) == d->cols &&
      (transA ? a->rows : a->cols) == (transB ? b->cols : b->rows) &&
      a->leading >= a->rows && b->leading >= b->rows &&
      d->leading >= (rowOrder ? d->cols : d->rows) &&
      (!onlyTN || (transA && !transB));
  if (!agree)
    book().violation(std::string(call) + " with layouts that do not agree");
  return agree;
}

} // namespace

#define ENTER(name)                                                            \
  if (book().enter(#name, true))                                               \
  return injectedError()
#define ENTER_WITHOUT_CONTEXT(name)                                            \
  if (book().enter(#name, false))                                              \
  return injectedError()
#define ENTER_RELEASE(name)                                                    \
  const cublasStatus_t failed =                                                \
      book().enter(#name, false) ? injectedError() : CUBLAS_STATUS_SUCCESS

// These do not count as calls: the first two are made after failures.
const char *CUBLASWINAPI cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  default:
    return "CUBLAS_STATUS_OTHER";
  }
}

const char *CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t) {
  return "a text of the library";
}

size_t CUBLASWINAPI cublasLtGetVersion() {
  return static_cast<size_t>(book().machine.cublasLtVersion);
}

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *handle) {
  ENTER(cublasLtCreate);
  *handle = handleOf<cublasLtHandle_t>(book().create(Kind::cublasHandle));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  ENTER_RELEASE(cublasLtDestroy);
  book().destroy(handle, Kind::cublasHandle, "cublasLtDestroy");
  return failed;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                         cublasComputeType_t compute, cudaDataType_t scale) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatmulDescCreate);
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    book().violation("a product that does not accumulate in f32");
  *desc = handleOf<cublasLtMatmulDesc_t>(book().create(Kind::matmulDesc));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  ENTER_RELEASE(cublasLtMatmulDescDestroy);
  book().destroy(desc, Kind::matmulDesc, "cublasLtMatmulDescDestroy");
  return failed;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t key,
    const void *value, size_t bytes) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatmulDescSetAttribute);
  return setAttribute(desc, Kind::matmulDesc, key, value, bytes,
                      "cublasLtMatmulDescSetAttribute");
}

cublasStatus_t CUBLASWINAPI
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                           uint64_t rows, uint64_t cols, int64_t leading) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatrixLayoutCreate);
  Object *object = book().create(Kind::matrixLayout);
  object->rows = static_cast<int64_t>(rows);
  object->cols = static_cast<int64_t>(cols);
  object->leading = leading;
  object->type = type;
  *layout = handleOf<cublasLtMatrixLayout_t>(object);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  ENTER_RELEASE(cublasLtMatrixLayoutDestroy);
  book().destroy(layout, Kind::matrixLayout, "cublasLtMatrixLayoutDestroy");
  return failed;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t key,
    const void *value, size_t bytes) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatrixLayoutSetAttribute);
  return setAttribute(layout, Kind::matrixLayout, key, value, bytes,
                      "cublasLtMatrixLayoutSetAttribute");
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatmulPreferenceCreate);
  *preference =
      handleOf<cublasLtMatmulPreference_t>(book().create(Kind::preference));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  ENTER_RELEASE(cublasLtMatmulPreferenceDestroy);
  book().destroy(preference, Kind::preference,
                 "cublasLtMatmulPreferenceDestroy");
  return failed;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t key, const void *value, size_t bytes) {
  ENTER_WITHOUT_CONTEXT(cublasLtMatmulPreferenceSetAttribute);
  return setAttribute(preference, Kind::preference, key, value, bytes,
                      "cublasLtMatmulPreferenceSetAttribute");
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int asked,
    cublasLtMatmulHeuristicResult_t *results, int *found) {
  ENTER(cublasLtMatmulAlgoGetHeuristic);
  const char *const call = "cublasLtMatmulAlgoGetHeuristic";
  Object *operation = book().use(desc, Kind::matmulDesc, call);
  Object *first = book().use(a, Kind::matrixLayout, call);
  Object *second = book().use(b, Kind::matrixLayout, call);
  Object *out = book().use(d, Kind::matrixLayout, call);
  Object *limits = book().use(preference, Kind::preference, call);
  if (!book().use(handle, Kind::cublasHandle, call) || !operation || !first ||
      !second || !out || !limits || c != d ||
      !shapesAgree(operation, first, second, out, call))
    return CUBLAS_STATUS_INVALID_VALUE;
  // Sums in the output's type would depend on the order.
  if (attribute<uint32_t>(limits, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                          CUBLASLT_REDUCTION_SCHEME_MASK) &
      ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    book().violation("a heuristic query that allows unordered reductions");
  *found = scalesSupported(operation, first, second)
               ? std::min(asked, book().machine.algorithms)
               : 0;
  for (int i = 0; i < *found; ++i)
    results[i] = resultFor(i);
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
    cublasLtMatmulHeuristicResult_t *result) {
  ENTER(cublasLtMatmulAlgoCheck);
  const char *const call = "cublasLtMatmulAlgoCheck";
  if (!book().use(handle, Kind::cublasHandle, call) ||
      !book().use(desc, Kind::matmulDesc, call) ||
      !book().use(a, Kind::matrixLayout, call) ||
      !book().use(b, Kind::matrixLayout, call) ||
      !book().use(d, Kind::matrixLayout, call))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!book().machine.algorithmsFit)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = resultFor(bodyOf(*algo).number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t, void *d,
               cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspaceBytes, cudaStream_t stream) {
  ENTER(cublasLtMatmul);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(book().machine.gemmMilliseconds));
  const char *const call = "cublasLtMatmul";
  Object *operation = book().use(desc, Kind::matmulDesc, call);
  Object *first = book().use(aLayout, Kind::matrixLayout, call);
  Object *second = book().use(bLayout, Kind::matrixLayout, call);
  Object *out = book().use(dLayout, Kind::matrixLayout, call);
  Object *on = book().use(stream, Kind::stream, call);
  if (!book().use(handle, Kind::cublasHandle, call) || !operation || !first ||
      !second || !out || !on ||
      !shapesAgree(operation, first, second, out, call))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto touchMatrix = [&](const void *pointer, const Object *layout) {
    book().touch(pointer,
                 static_cast<size_t>(layout->rows * layout->cols) *
                     elementBits(layout->type) / 8,
                 call);
  };
  touchMatrix(a, first);
  touchMatrix(b, second);
  touchMatrix(c, out);
  touchMatrix(d, out);
  Product product = {};
  product.firstType = first->type;
  product.secondType = second->type;
  product.outType = out->type;
  product.firstTransposed =
      isTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSA);
  product.secondTransposed =
      isTransposed(operation, CUBLASLT_MATMUL_DESC_TRANSB);
  product.firstScaleMode =
      attribute<int>(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, -1);
  product.secondScaleMode =
      attribute<int>(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, -1);
  product.firstScale = attribute<void *>(
      operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, nullptr);
  product.secondScale = attribute<void *>(
      operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, nullptr);
  product.deviceScalars =
      attribute<int>(operation, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                     CUBLASLT_POINTER_MODE_HOST) ==
      CUBLASLT_POINTER_MODE_DEVICE;
  product.hasBias =
      attribute<int>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                     CUBLASLT_EPILOGUE_DEFAULT) == CUBLASLT_EPILOGUE_BIAS;

  if (elementBits(first->type) <= 8) {
    const bool transA = product.firstTransposed;
    const int64_t k = transA ? first->rows : first->cols;
    const auto touchScale = [&](const void *pointer, int mode, int64_t outer) {
      book().touch(pointer, scaleBytes(mode, outer, k), call);
      if (mode > CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
          reinterpret_cast<uintptr_t>(pointer) % 16 != 0)
        book().violation("cublasLtMatmul with scales that are not aligned");
    };
    touchScale(product.firstScale, product.firstScaleMode,
               transA ? first->cols : first->rows);
    touchScale(product.secondScale, product.secondScaleMode,
               product.secondTransposed ? second->rows : second->cols);
  }
  if (product.deviceScalars) {
    book().touch(alpha, 4, call);
    book().touch(beta, 4, call);
    product.alpha = alpha;
  } else if (!alpha || !beta || book().isDeviceMemory(alpha, 4) ||
             book().isDeviceMemory(beta, 4)) {
    book().violation("cublasLtMatmul with device scalars that it does not "
                     "expect");
  }
  if (alpha && beta)
    std::memcpy(&product.beta, beta, sizeof(product.beta));
  book().products.push_back(product);
  if (product.hasBias)
    book().touch(attribute<void *>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                   nullptr),
                 static_cast<size_t>(out->rows) * 2, call);
  const AlgorithmBody body = bodyOf(*algo);
  if (workspaceBytes < body.workspaceBytes)
    book().violation(
        "cublasLtMatmul with less scratch than its algorithm wants");
  if (workspaceBytes)
    book().touch(workspace, workspaceBytes, call);

  book().usedAlgorithms.push_back(body.number);
  const auto time = book().machine.algorithmTimes.find(body.number);
  book().clock +=
      time == book().machine.algorithmTimes.end() ? 1.0f : time->second;
  book().enqueue(on, call);
  return CUBLAS_STATUS_SUCCESS;
}

// If a row has no definition above, linking fails.
extern "C" const void *const teFakeCublasLtTable[] = {
#define TE_CUBLASLT_SYMBOL(name) reinterpret_cast<const void *>(&name),
#include "Cuda/CublasLtSymbols.inc"
#undef TE_CUBLASLT_SYMBOL
};
