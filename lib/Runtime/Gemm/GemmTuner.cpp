//===- GemmTuner.cpp - measures the algorithms of one problem -------------===//
//
// Each candidate has one warm-up launch and five timed launches, between two
// events on the context's own stream. All scratch memory is one allocation,
// which is freed at the end.
//
//===----------------------------------------------------------------------===//

#include "Gemm/GemmTuner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

namespace te::rt::cuda {
namespace {

constexpr int timedLaunches = 5;

/// The period of the random contents. Not a power of two, so that rows of a
/// matrix differ; a multiple of 128 for wide copies.
constexpr int64_t patternBytes = (1 << 20) + 128 * 37;

int64_t paddedBytes(int64_t elements, int32_t type) {
  const int64_t bytes =
      type == TE_RT_F4E2M1FN ? ceilDiv(elements, 2) : elements * byteSize(type);
  return roundUp(bytes, 256);
}

/// Stands for the scales of nv schemes, which have no sign.
constexpr int32_t unsignedE4M3 = -1;

int32_t scaleType(int32_t scheme) {
  if (isMx(scheme))
    return TE_RT_F8E8M0FNU;
  return isNv(scheme) ? unsignedE4M3 : TE_RT_F32;
}

/// Scales of one operand with `outer` rows, padded as its scheme says.
int64_t scaleBytes(const GemmOperand &operand, int64_t outer, int64_t k) {
  switch (operand.scheme) {
  case TE_RT_BLOCK_1X128:
    return paddedBytes(ceilDiv(k, 128) * roundUp(outer, 4), TE_RT_F32);
  case TE_RT_BLOCK_128X128:
    return paddedBytes(ceilDiv(outer, 128) * roundUp(ceilDiv(k, 128), 4),
                       TE_RT_F32);
  case TE_RT_MX_1X32:
  case TE_RT_MX_32X32:
    return paddedBytes(roundUp(outer, 128) * roundUp(ceilDiv(k, 32), 4),
                       TE_RT_F8E8M0FNU);
  case TE_RT_NV_1X16:
  case TE_RT_NV_16X16:
    return paddedBytes(roundUp(outer, 128) * roundUp(ceilDiv(k, 16), 4),
                       TE_RT_F8E4M3FN);
  default:
    return 256;
  }
}

/// `size` bytes (a multiple of 4) of random values of `type` with either sign
/// and magnitudes around one. The power that a GEMM draws, and so its speed,
/// depends on the bits that toggle.
std::vector<unsigned char> randomPattern(int32_t type, int64_t size) {
  std::mt19937 generator(1);
  std::vector<unsigned char> bytes(static_cast<size_t>(size));
  const auto fill = [&](auto zero, uint32_t signAndMantissa, uint32_t one,
                        uint32_t exponentStep) {
    decltype(zero) value;
    for (size_t i = 0; i < bytes.size(); i += sizeof(value)) {
      const uint32_t random = generator();
      // Exponents from one down to an eighth.
      value =
          static_cast<decltype(zero)>((random & signAndMantissa) |
                                      (one - (random >> 8) % 4 * exponentStep));
      std::memcpy(&bytes[i], &value, sizeof(value));
    }
  };
  switch (type) {
  case TE_RT_F8E4M3FN:
    fill(uint8_t{}, 0x87, 0x38, 0x08);
    break;
  case TE_RT_F8E5M2:
    fill(uint8_t{}, 0x83, 0x3c, 0x04);
    break;
  case TE_RT_F4E2M1FN:
    // Every code is a finite value.
    fill(uint8_t{}, 0xff, 0x00, 0x00);
    break;
  case TE_RT_F8E8M0FNU:
    fill(uint8_t{}, 0x00, 0x7f, 0x01);
    break;
  case unsignedE4M3:
    fill(uint8_t{}, 0x07, 0x38, 0x08);
    break;
  case TE_RT_BF16:
    fill(uint16_t{}, 0x807f, 0x3f80, 0x0080);
    break;
  case TE_RT_F16:
    fill(uint16_t{}, 0x83ff, 0x3c00, 0x0400);
    break;
  default:
    fill(uint32_t{}, 0x807fffff, 0x3f800000, 0x00800000);
    break;
  }
  return bytes;
}

class Tuner {
public:
  Tuner(const CudaDevice &device, const GemmProblem &problem, GemmExtras extras)
      : device(device), driver(*device.driver), problem(problem) {
    if (extras.zeroAndOne)
      buffers.alpha = const_cast<float *>(extras.zeroAndOne + 1);
  }
  ~Tuner();

  /// Leaves `*ready` false where there is not enough memory.
  Status prepare(int64_t workspaceBytes, bool *ready);
  Status measure(const GemmCandidate &candidate, float *milliseconds);

private:
  Status fill(CUdeviceptr to, int64_t bytes, int32_t type);

  const CudaDevice &device;
  const Driver &driver;
  const GemmProblem &problem;
  CUdeviceptr memory = 0;
  CUevent begin = nullptr, end = nullptr;
  GemmBuffers buffers;
  void *workspace = nullptr;
};

Tuner::~Tuner() {
  // Launches of a candidate that failed may still use the memory.
  if (memory) {
    (void)driver.cuStreamSynchronize(device.stream);
    (void)driver.cuMemFree(memory);
  }
  for (CUevent event : {begin, end})
    if (event)
      (void)driver.cuEventDestroy(event);
}

Status Tuner::prepare(int64_t workspaceBytes, bool *ready) {
  *ready = false;
  const GemmProblem &p = problem;
  const int64_t sizes[] = {paddedBytes(p.m * p.k, p.a.type),
                           scaleBytes(p.a, p.m, p.k),
                           paddedBytes(p.n * p.k, p.b.type),
                           scaleBytes(p.b, p.n, p.k),
                           paddedBytes(p.m * p.n, p.outType),
                           std::max<int64_t>(workspaceBytes, 256)};
  const int32_t types[] = {p.a.type, scaleType(p.a.scheme), p.b.type,
                           scaleType(p.b.scheme)};
  int64_t total = 0;
  for (int64_t size : sizes)
    total += roundUp(size, 256);
  const CUresult allocated =
      driver.cuMemAlloc(&memory, static_cast<size_t>(total));
  if (allocated == CUDA_ERROR_OUT_OF_MEMORY)
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(
      device.check(allocated, "cuMemAlloc of tuning scratch"));

  void *parts[6];
  CUdeviceptr next = memory;
  for (int i = 0; i < 6; ++i) {
    parts[i] = reinterpret_cast<void *>(next);
    if (i < 4)
      TE_RT_RETURN_IF_FAILED(fill(next, sizes[i], types[i]));
    next += static_cast<CUdeviceptr>(roundUp(sizes[i], 256));
  }
  buffers.a = parts[0];
  buffers.b = parts[2];
  if (p.a.scheme != GemmOperand::unscaled) {
    buffers.aScale = parts[1];
    buffers.bScale = parts[3];
  }
  buffers.out = parts[4];
  workspace = parts[5];

  for (CUevent *event : {&begin, &end})
    TE_RT_RETURN_IF_FAILED(device.check(
        driver.cuEventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate"));
  *ready = true;
  return Status::ok();
}

Status Tuner::fill(CUdeviceptr to, int64_t bytes, int32_t type) {
  int64_t done = std::min(bytes, patternBytes);
  const std::vector<unsigned char> pattern = randomPattern(type, done);
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuMemcpyHtoDAsync(to, pattern.data(), static_cast<size_t>(done),
                               device.stream),
      "cuMemcpyHtoDAsync"));
  // Copies whole periods, and doubles them each time.
  while (done < bytes) {
    const int64_t step = std::min(done, bytes - done);
    TE_RT_RETURN_IF_FAILED(device.check(
        driver.cuMemcpyDtoDAsync(to + static_cast<CUdeviceptr>(done), to,
                                 static_cast<size_t>(step), device.stream),
        "cuMemcpyDtoDAsync"));
    done += step;
  }
  // The pattern must not be destroyed before it is copied.
  return device.check(driver.cuStreamSynchronize(device.stream),
                      "cuStreamSynchronize");
}

Status Tuner::measure(const GemmCandidate &candidate, float *milliseconds) {
  *milliseconds = std::numeric_limits<float>::infinity();
  const auto launch = [&] {
    return candidate.descriptors->launch(candidate.algorithm, buffers,
                                         workspace, device.stream);
  };
  if (launch().failed())
    return Status::ok();
  TE_RT_RETURN_IF_FAILED(device.check(
      driver.cuEventRecord(begin, device.stream), "cuEventRecord"));
  for (int i = 0; i < timedLaunches; ++i)
    if (launch().failed())
      return Status::ok();
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuEventRecord(end, device.stream), "cuEventRecord"));
  TE_RT_RETURN_IF_FAILED(
      device.check(driver.cuEventSynchronize(end), "cuEventSynchronize"));
  return device.check(driver.cuEventElapsedTime(milliseconds, begin, end),
                      "cuEventElapsedTime");
}

} // namespace

Status findFastest(const CudaDevice &device, const GemmProblem &problem,
                   GemmExtras extras,
                   const std::vector<GemmCandidate> &candidates,
                   std::optional<size_t> *fastest) {
  *fastest = std::nullopt;
  int64_t workspaceBytes = 0;
  for (const GemmCandidate &candidate : candidates)
    workspaceBytes =
        std::max(workspaceBytes, candidate.algorithm.workspaceBytes);
  Tuner tuner(device, problem, extras);
  bool ready = false;
  TE_RT_RETURN_IF_FAILED(tuner.prepare(workspaceBytes, &ready));
  if (!ready)
    return Status::ok();

  float best = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    float milliseconds;
    TE_RT_RETURN_IF_FAILED(tuner.measure(candidates[i], &milliseconds));
    if (milliseconds < best) {
      best = milliseconds;
      *fastest = i;
    }
  }
  return Status::ok();
}

} // namespace te::rt::cuda
