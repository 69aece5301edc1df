//===- Harness.cpp - running one kernel through the C ABI -----------------===//

#include "Conformance/Harness.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

namespace te::conformance {

namespace {

constexpr size_t kGuardBytes = 256;

/// The data of the module callbacks, which have no user pointer.
struct Call {
  const PlanFunction *plan;
  std::vector<void *> buffers;
};
thread_local Call *currentCall = nullptr;

te_rt_status loadOne(te_rt_instance *instance) {
  return (*currentCall->plan)(instance, 0);
}
void stepOne(te_rt_instance *instance, char *, void *const *) {
  te_rt_launch(instance, 0, currentCall->buffers.data());
}

std::string &restriction() {
  static std::string backend;
  return backend;
}

} // namespace

Device::Device(const char *backend) {
  status = te_rt_context_create(backend, &context);
  message = te_rt_last_error();
}

Device::~Device() { te_rt_context_destroy(context); }

te_rt_status Device::tryRun(const PlanFunction &plan,
                            std::vector<Buffer> buffers) {
  Call call{&plan, {}};
  currentCall = &call;
  std::vector<std::vector<uint8_t>> host;
  std::vector<void *> allocations;
  te_rt_status result = TE_RT_OK;
  auto note = [&](te_rt_status status) {
    if (result == TE_RT_OK)
      result = status;
  };
  for (const Buffer &buffer : buffers) {
    std::vector<uint8_t> bytes(buffer.bytes + kGuardBytes, kPoison);
    if (!buffer.isOutput && buffer.bytes != 0)
      std::memcpy(bytes.data(), buffer.data, buffer.bytes);
    void *pointer = nullptr;
    if (!buffer.isNull && buffer.sharedWith < 0) {
      note(te_rt_alloc(context, bytes.size() + buffer.offset, &pointer));
      if (pointer) {
        allocations.push_back(pointer);
        pointer = static_cast<char *>(pointer) + buffer.offset;
        note(
            te_rt_copy_to_device(context, pointer, bytes.data(), bytes.size()));
      }
    }
    call.buffers.push_back(pointer);
    host.push_back(std::move(bytes));
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].sharedWith >= 0)
      call.buffers[i] = call.buffers[buffers[i].sharedWith];
  // Optional buffers at the end may be omitted.
  call.buffers.resize(call.buffers.size() + 4);

  const te_rt_module module = {TE_RT_MODULE_MAGIC,
                               TE_RT_VERSION,
                               0,
                               1,
                               0,
                               loadOne,
                               stepOne,
                               nullptr,
                               nullptr,
                               0,
                               0};
  te_rt_instance *instance = nullptr;
  std::string error;
  bool hasRun = false;
  if (result == TE_RT_OK) {
    note(te_rt_instance_create(context, &module, &instance));
    if (result == TE_RT_OK)
      note(te_rt_instance_run(instance, nullptr, nullptr));
    hasRun = result == TE_RT_OK;
    if (hasRun)
      note(te_rt_synchronize(context));
    error = te_rt_last_error();
  }

  std::vector<bool> isOverwritten(buffers.size());
  for (const Buffer &buffer : buffers)
    if (buffer.sharedWith >= 0)
      isOverwritten[buffer.sharedWith] = true;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!call.buffers[i])
      continue;
    if (hasRun) {
      std::vector<uint8_t> after(host[i].size());
      note(te_rt_copy_to_host(context, after.data(), call.buffers[i],
                              after.size()));
      EXPECT_TRUE(std::equal(after.begin() + buffers[i].bytes, after.end(),
                             host[i].begin() + buffers[i].bytes))
          << "buffer " << i << " was written behind its end";
      if (buffers[i].isOutput && buffers[i].bytes != 0)
        std::memcpy(buffers[i].data, after.data(), buffers[i].bytes);
      else if (!isOverwritten[i])
        EXPECT_EQ(after, host[i]) << "input buffer " << i << " was written";
    }
  }
  for (void *allocation : allocations)
    EXPECT_EQ(te_rt_free(context, allocation), TE_RT_OK);
  te_rt_instance_destroy(instance);
  currentCall = nullptr;
  message = error;
  return result;
}

void Device::run(const PlanFunction &plan, std::vector<Buffer> buffers) {
  ASSERT_EQ(tryRun(plan, std::move(buffers)), TE_RT_OK) << message;
}

Device &deviceOf(const std::string &backend) {
  static std::map<std::string, std::unique_ptr<Device>> devices;
  auto &device = devices[backend];
  if (!device)
    device = std::make_unique<Device>(backend.c_str());
  return *device;
}

void restrictBackend(const std::string &backend) { restriction() = backend; }

std::vector<std::string> backendsUnderTest() {
  if (!restriction().empty())
    return {restriction()};
  static const bool hasCuda = [] {
    Device &cuda = deviceOf("cuda");
    if (cuda.status == TE_RT_OK)
      return true;
    std::printf("cuda is not tested here: %s\n", cuda.message.c_str());
    return false;
  }();
  return hasCuda ? std::vector<std::string>{"reference", "cuda"}
                 : std::vector<std::string>{"reference"};
}

std::vector<std::string> otherBackends() {
  std::vector<std::string> backends = backendsUnderTest();
  std::erase(backends, "reference");
  return backends;
}

PlanFunction planOfSquares(std::vector<int64_t> counts,
                           std::vector<int32_t> types) {
  return [=](te_rt_instance *instance, int32_t slot) {
    std::array<int64_t, kSquaresGroup> ofCounts{};
    std::array<int32_t, kSquaresGroup> ofTypes{};
    std::copy(counts.begin(), counts.end(), ofCounts.begin());
    std::copy(types.begin(), types.end(), ofTypes.begin());
    return std::apply(
        [&](auto... values) {
          return te_rt_plan_sum_of_squares(instance, slot, values...);
        },
        std::tuple_cat(ofCounts, ofTypes));
  };
}

} // namespace te::conformance
