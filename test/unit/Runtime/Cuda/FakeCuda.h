//===- FakeCuda.h - vendor libraries that only keep books -----------------===//
//
// Shared libraries stand in for libcuda.so.1, libcublasLt.so.13, libnccl.so.2,
// libcudnn.so.9 and libcudart.so.13. They define every row of
// DriverSymbols.inc, CublasLtSymbols.inc and NcclSymbols.inc, and what cuDNN's
// frontend calls for attention, compute next to nothing, and write down what
// they are asked. They and the test share the book below.
//
// The book notes a violation whenever the real libraries would misbehave: a
// handle used after its end or ended twice, a handle that outlives the context,
// a call without the current context, memory outside live allocations, a
// synchronising call during a capture.
//
//===----------------------------------------------------------------------===//

#ifndef TE_UNITTEST_RUNTIME_CUDA_FAKECUDA_H
#define TE_UNITTEST_RUNTIME_CUDA_FAKECUDA_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace te::fake {

enum class Kind {
  context,
  stream,
  event,
  module,
  function,
  graph,
  graphExec,
  cublasHandle,
  matmulDesc,
  matrixLayout,
  preference,
  communicator,
  cudnnHandle,
  cudnnDescriptor,
};

/// What a handle points to. Kept after its end, so that later uses are seen.
struct Object {
  Kind kind;
  bool alive = true;
  /// The kernel of a function, and the dynamic shared bytes it may have.
  std::string name;
  unsigned sharedLimit = 48 * 1024;
  /// What a module was loaded from.
  const void *image = nullptr;
  /// The module of a function.
  Object *parent = nullptr;
  /// Of a capturing stream, a graph and an executable graph.
  std::vector<std::string> work;
  bool capturing = false;
  /// Of a capturing stream: the one on which the capture began. Of an event:
  /// that of the stream it was recorded on, then.
  Object *origin = nullptr;
  /// Of a stream that joined a capture: what was put on it; and of that, what
  /// the stream where the capture began waits for. Of an event: what was on its
  /// stream when it was recorded.
  int enqueued = 0, joined = 0;
  /// Of a stream: a collective waits on it for missing ranks.
  bool stuck = false;
  /// Of a stream.
  int device = 0;
  /// Attributes of a descriptor or layout, by number.
  std::map<int, std::vector<unsigned char>> attributes;
  /// Of a layout, and the leading dimension; size and rank of a communicator.
  int64_t rows = 0, cols = 0, leading = 0;
  int type = -1;
};

/// How the faked machine is. Tests change it before they use it.
struct Machine {
  int deviceCount = 1;
  int computeMajor = 9;
  int driverVersion = 13000;
  int cublasLtVersion = 130100;
  int cudnnVersion = 91900;
  /// Engine configurations that cuDNN finds for a graph, and the scratch memory
  /// of a plan.
  int cudnnEngines = 1;
  int64_t cudnnWorkspaceBytes = 0;
  /// Algorithms each heuristic query finds (at most as many as asked for).
  int algorithms = 1;
  /// What cublasLtMatmulAlgoCheck says of any algorithm.
  bool algorithmsFit = true;
  /// Milliseconds of an algorithm, by the number its query gave it; 1 for
  /// others.
  std::map<int, float> algorithmTimes;
  /// The largest value that the other ranks of any group contribute.
  float peerMaximum = 0;
  /// What ncclCommGetAsyncError finds.
  bool communicatorsFail = false;
  /// How often it says first that a call of NCCL is in progress; -1: always, as
  /// other ranks are missing.
  int progressPolls = 0;
  /// Streams with a collective are never ready until it is aborted.
  bool peersAreMissing = false;
};

/// What cublasLtMatmul was asked for.
struct Product {
  /// Layouts and scale modes in the library's order.
  int firstType, secondType, outType;
  bool firstTransposed, secondTransposed;
  int firstScaleMode, secondScaleMode;
  const void *firstScale, *secondScale;
  bool deviceScalars, hasBias;
  const void *alpha; // null for one on the host
  float beta;
};

class Book {
public:
  Machine machine;
  /// Names of all calls, in order.
  std::vector<std::string> calls;
  /// What the device did: kernel names, "cublasLtMatmul", in order.
  std::vector<std::string> executed;
  /// Numbers of the algorithms of all products, in order.
  std::vector<int> usedAlgorithms;
  /// What was put on which stream: work, "record 0" and "wait 0" of the events
  /// in order of their creation.
  std::vector<std::pair<const void *, std::string>> placed;
  /// Streams of all collectives, in order.
  std::vector<const void *> collectiveStreams;
  /// What the tensors of all graphs of cuDNN were bound to, in its order.
  std::vector<const void *> attentionPointers;
  /// Of the pointwise operations of all graphs, as they were made: 'index',
  /// 'select', 'tanh' and 'tanh gradient'.
  std::vector<std::string> attentionModes;
  /// Of what tensors were bound to and is not in device memory, the f32 there.
  std::vector<float> attentionScalars;
  /// All products, in order.
  std::vector<Product> products;
  std::vector<std::string> violations;

  /// Forgets everything and frees what was never freed.
  void reset();

  /// The `index`-th call from now on (0 is the next) fails with the
  /// `variant`-th of a few error codes. A function that releases still
  /// releases: the real ones may report earlier errors.
  void failCall(int index, int variant);
  /// Name of the call that was made to fail; "" when it was not reached.
  std::string failedCall;

  /// Handles and memory that are still alive, one line each.
  std::vector<std::string> leaks() const;

  int count(const std::string &name) const;

  //===--- used by the fake libraries
  //---------------------------------------===//

  /// Notes a call; true when it must fail.
  bool enter(const char *name, bool needsContext);
  int errorVariant() const { return variant; }
  Object *create(Kind kind);
  /// How many of the kind were created before it.
  int numberOf(const Object *object) const;
  /// Ends the capture that began on `origin`, for all its streams. False where
  /// one of them has work that `origin` does not wait for.
  bool endCapture(Object *origin);
  /// The function of that kernel; the same handle every time.
  Object *functionOf(Object *module, const std::string &name);
  /// Null, and a violation, unless `handle` is a live object of `kind`.
  Object *use(const void *handle, Kind kind, const char *call);
  void destroy(const void *handle, Kind kind, const char *call);
  void violation(const std::string &text) { violations.push_back(text); }
  void *allocate(size_t bytes);
  void release(void *pointer, const char *call);
  /// Whether [pointer, pointer + bytes) is live memory; else a violation.
  bool touch(const void *pointer, size_t bytes, const char *call);
  /// Whether it lies in live device memory.
  bool isDeviceMemory(const void *pointer, size_t bytes) const;
  /// Runs `work` on `stream`, or adds it to the stream's capture.
  void enqueue(Object *stream, const std::string &work);
  bool anyCapture() const;
  /// Whether a stream waits for missing ranks; and the end of that.
  bool anyStuck() const;
  void unstick();
  std::string kindName(Kind kind) const;

  /// The context, while a share of it is held.
  Object *context = nullptr;
  int contextShares = 0;
  /// How many ids ncclGetUniqueId made.
  int groupIds = 0;
  /// Milliseconds of simulated device time.
  float clock = 0;

private:
  std::vector<std::unique_ptr<Object>> objects;
  std::map<std::pair<const Object *, std::string>, Object *> functions;
  std::map<const void *, size_t> memory;
  int callsUntilFailure = -1;
  int variant = 0;
};

/// The one book of this process.
Book &book();

/// The current context of the calling thread.
Object *&currentContext();

} // namespace te::fake

#endif // TE_UNITTEST_RUNTIME_CUDA_FAKECUDA_H
