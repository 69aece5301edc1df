//===- Backend.h - what a backend implements ------------------------------===//
//
// A backend turns the parameters of a kernel into a Plan once (`plan*`), and a
// Plan into enqueued work as often as a step runs (`Plan::launch`). Everything
// that needs a decision, an allocation or a library query belongs in `plan*`;
// `launch` only enqueues.
//
//===----------------------------------------------------------------------===//

#ifndef TE_RUNTIME_CORE_BACKEND_H
#define TE_RUNTIME_CORE_BACKEND_H

#include "Core/Kernels.h"
#include "Core/Status.h"
#include "TEDialect/Runtime/te_runtime.h"

#include <memory>
#include <string>
#include <utility>

namespace te::rt {

/// How a GEMM of a library was chosen, for reports.
struct GemmRecord {
  te_rt_gemm_origin origin = TE_RT_GEMM_ORIGIN_NONE;
  std::string gemm, algorithm;
};

/// One kernel with its parameters fixed.
class Plan {
public:
  virtual ~Plan() = default;

  /// Enqueues the kernel on `stream` (a CUstream; ignored by the reference
  /// backend). `buffers` follow the kernel's row in Kernels.td.
  virtual Status launch(void *stream, void *const *buffers) = 0;

  /// Bytes of scratch memory the launch needs. Plans of one instance run one
  /// after another, so they share one region of the largest size.
  virtual int64_t workspaceBytes() const { return 0; }

  /// Tells the plan where its scratch memory is; called once, before the first
  /// launch, when workspaceBytes() is not 0. The region is 256-byte aligned.
  virtual void setWorkspace(void *) {}

  /// Null if the plan has no GEMM of a library.
  virtual const GemmRecord *gemmRecord() const { return nullptr; }

  /// What messages call it: its kernel, and where that comes from. Empty until
  /// the plan has its place in a step.
  void setName(std::string text) { named = std::move(text); }
  const std::string &name() const { return named; }

private:
  std::string named;
};

class Backend {
public:
  virtual ~Backend() = default;

  virtual const char *name() const = 0;
  virtual std::string description() const = 0;

  /// Prepares the calling thread for launches (CUDA: makes the context
  /// current). Called once per step, before the first Plan::launch or
  /// Graph::launch; every other function here does it itself.
  virtual Status enterThread() { return Status::ok(); }

  /// Whether this process may use the device, if only to release what is on it.
  /// A child of fork may not use that of its parent.
  virtual bool isUsable() const { return true; }

  virtual Status alloc(int64_t bytes, void **pointer) = 0;
  virtual Status free(void *pointer) = 0;
  virtual Status copyToDevice(void *to, const void *from, int64_t bytes) = 0;
  virtual Status copyToHost(void *to, const void *from, int64_t bytes) = 0;
  virtual Status synchronize() = 0;
  /// Returns what kernels found wrong with values in device memory since the
  /// last call. After synchronize(), it includes all launches on the default
  /// stream.
  virtual Status takeErrors() { return Status::ok(); }
  virtual Status timerMark(int index) = 0;
  virtual Status timerElapsed(float *milliseconds) = 0;

  /// Connects this process, as `rank` of `size`, to the others of a group. The
  /// place has passed GroupTable::checkNew; `id` has TE_RT_GROUP_ID_BYTES, and
  /// is null for one rank.
  virtual Status bindGroup(int32_t group, const char *id, int32_t size,
                           int32_t rank) = 0;

  /// The same, on what the host program has: its communicator, or its
  /// ncclComm_t.
  virtual Status bindCommunicator(int32_t group,
                                  const te_rt_communicator &communicator) = 0;
  virtual Status bindNccl(int32_t group, void *comm, int32_t size,
                          int32_t rank) = 0;

  /// Milliseconds after which waiting for other ranks is TE_RT_TIMED_OUT.
  int64_t groupTimeout = 600000;

  /// As te_rt_context_set_gemm_options says, whose checks `options` has passed.
  virtual Status setGemmOptions(const te_rt_gemm_options &) {
    return Status::ok();
  }
  /// Whether the instance that is loaded next may choose nothing by time. Fails
  /// if the options say to do so.
  virtual Status setDeterministic(bool) { return Status::ok(); }
  /// The slot that is being planned, for reports.
  int32_t planning = 0;

  /// The stream used where the caller names none.
  virtual void *defaultStream() = 0;
  /// Fails where the caller's `stream` is one of another device.
  virtual Status checkStream(void *) { return Status::ok(); }

  /// A second stream, for what may run beside the caller's; one for all
  /// instances, which fork to it and join it in every step. Made when it is
  /// first asked for.
  virtual Status sideStream(void **stream) = 0;

  /// A point on one stream that another can be made to wait for. Recording it
  /// again moves it, for the waits that come then. Both may be captured.
  class Event {
  public:
    virtual ~Event() = default;
    virtual Status record(void *stream) = 0;
    /// Holds what is enqueued on `stream` from now on.
    virtual Status hold(void *stream) = 0;
  };
  virtual Status createEvent(std::unique_ptr<Event> *event) = 0;

  /// The launches of a step with their buffers, recorded once: replaying them
  /// runs no code of the module. Uses the plans it was captured from.
  class Graph {
  public:
    virtual ~Graph() = default;
    virtual Status launch(void *stream) = 0;
  };
  /// From here to endCapture launches on `stream` are recorded, and not run.
  virtual Status beginCapture(void *stream) = 0;
  /// Gives what was recorded. A graph that `*graph` holds is changed to it
  /// where the device can do that, as it can where only pointers differ, and
  /// replaced otherwise; it is gone after a failure.
  virtual Status endCapture(void *stream, std::unique_ptr<Graph> *graph) = 0;

  // virtual Status planAmax(const amax_params &, std::unique_ptr<Plan> *) = 0;
#define TE_RT_KERNEL(name, parameters, buffers)                                \
  virtual Status plan_##name(const name##_params &params,                      \
                             std::unique_ptr<Plan> *plan) = 0;
#include "TEDialect/Runtime/te_runtime_kernels.inc"
};

/// The slow, obvious CPU truth.
std::unique_ptr<Backend> createReferenceBackend();

/// The device of the calling thread's current context, else the first.
constexpr int32_t kAnyDevice = -1;

/// cuBLASLt and own kernels, loaded at run time, on the `device`-th GPU.
/// TE_RT_UNSUPPORTED names what is missing where there is no usable GPU, driver
/// or library.
Status createCudaBackend(std::unique_ptr<Backend> *backend,
                         int32_t device = kAnyDevice);

/// Writes an id for a new group, TE_RT_GROUP_ID_BYTES. TE_RT_UNSUPPORTED where
/// there is no NCCL.
Status createGroupId(char *id);

} // namespace te::rt

#endif // TE_RUNTIME_CORE_BACKEND_H
