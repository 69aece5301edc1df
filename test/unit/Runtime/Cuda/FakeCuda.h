//===- FakeCuda.h - vendor libraries that only keep books -----------------===//
//
// Shared libraries replace libcuda.so.1, libcublasLt.so.13, libnccl.so.2,
// libcudnn.so.9 and libcudart.so.13. They define every row of
// DriverSymbols.inc, CublasLtSymbols.inc and NcclSymbols.inc, and the functions
// that cuDNN's frontend calls for attention. They compute next to nothing, and
// record their calls in the book below, which they share with the test.
//
// The book records a violation if the real libraries would misbehave: a handle
// that is used after its end, ended twice, or alive after the context; a call
// without a current context; memory outside of live allocations; a
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
#include <unordered_map>
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

/// The object of a handle. It is not freed at its end, so that later uses are
/// found.
struct Object {
  Kind kind;
  bool alive = true;
  /// For a function: its kernel, and the dynamic shared memory in bytes that it
  /// may use.
  std::string name;
  unsigned sharedLimit = 48 * 1024;
  /// For a module: the source that it was loaded from.
  const void *image = nullptr;
  /// For a function: its module.
  Object *parent = nullptr;
  /// For a capturing stream, a graph and an executable graph.
  std::vector<std::string> work;
  bool capturing = false;
  /// For a capturing stream: the stream on which the capture began. For an
  /// event: the value of the stream at the time of recording.
  Object *origin = nullptr;
  /// For a stream that joined a capture: the work that was enqueued on it, and
  /// the part of it for which the stream where the capture began waits. For an
  /// event: the work on its stream when it was recorded.
  int enqueued = 0, joined = 0;
  /// For a stream: a collective on it waits for missing ranks.
  bool stuck = false;
  /// For a stream: its device.
  int device = 0;
  /// The attributes of a descriptor or layout, by number.
  std::map<int, std::vector<unsigned char>> attributes;
  /// For a layout: its sizes and leading dimension. For a communicator: its
  /// size and rank.
  int64_t rows = 0, cols = 0, leading = 0;
  int type = -1;
};

/// The properties of the fake machine. Tests change them before its first use.
struct Machine {
  int deviceCount = 1;
  int computeMajor = 9;
  int multiprocessors = 132;
  int driverVersion = 13000;
  int cublasLtVersion = 130100;
  int cudnnVersion = 91900;
  /// The number of engine configurations that cuDNN finds for a graph, and the
  /// scratch memory of a plan.
  int cudnnEngines = 1;
  int64_t cudnnWorkspaceBytes = 0;
  /// The number of algorithms that each heuristic query finds, at most as many
  /// as requested.
  int algorithms = 1;
  /// The result of cublasLtMatmulAlgoCheck for any algorithm.
  bool algorithmsFit = true;
  /// The milliseconds of an algorithm, by its number in the query; 1 for
  /// others.
  std::map<int, float> algorithmTimes;
  /// The time that a call of cublasLtMatmul really takes.
  int gemmMilliseconds = 0;
  /// The largest value of the other ranks of any group.
  float peerMaximum = 0;
  /// Whether ncclCommGetAsyncError returns an error.
  bool communicatorsFail = false;
  /// How often a call of NCCL is first reported to be in progress; -1 means
  /// always, as if other ranks were missing.
  int progressPolls = 0;
  /// Whether streams with a collective are never ready until it is aborted.
  bool peersAreMissing = false;
};

/// The arguments of a cublasLtMatmul.
struct Product {
  /// Layouts and scale modes, in the library's order.
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
  /// The names of all calls, in order.
  std::vector<std::string> calls;
  /// The work of the device: kernel names, and "cublasLtMatmul", in order.
  std::vector<std::string> executed;
  /// The numbers of the algorithms of all GEMMs, in order.
  std::vector<int> usedAlgorithms;
  /// The work on each stream, with "record 0" and "wait 0" for events, which
  /// are numbered in order of creation.
  std::vector<std::pair<const void *, std::string>> placed;
  /// The streams of all collectives, in order.
  std::vector<const void *> collectiveStreams;
  /// The pointers that the tensors of all graphs of cuDNN were bound to, in its
  /// order.
  std::vector<const void *> attentionPointers;
  /// The pointwise operations of all graphs, in order of creation: 'index',
  /// 'select', 'tanh' and 'tanh gradient'.
  std::vector<std::string> attentionModes;
  /// The f32 values of tensors that were bound to host memory.
  std::vector<float> attentionScalars;
  /// All GEMMs, in order.
  std::vector<Product> products;
  std::vector<std::string> violations;

  /// Resets the book, and frees everything that is still allocated.
  void reset();

  /// Makes the `index`-th call from now on (0 is the next) fail with the
  /// `variant`-th of several error codes. A function that releases still
  /// releases, because the real ones may report earlier errors.
  void failCall(int index, int variant);
  /// The name of the call that failed; "" if it was not reached.
  std::string failedCall;

  /// Handles and memory that are still alive, one per line.
  std::vector<std::string> leaks() const;

  int count(const std::string &name) const;

  //===--- used by the fake libraries
  //---------------------------------------===//

  /// Records a call; returns true if it must fail.
  bool enter(const char *name, bool needsContext);
  int errorVariant() const { return variant; }
  Object *create(Kind kind);
  /// The number of objects of this kind that were created before it.
  int numberOf(const Object *object) const;
  /// Ends the capture that began on `origin`, for all its streams. Returns
  /// false if one of them has work that `origin` does not wait for.
  bool endCapture(Object *origin);
  /// The function of a kernel; the handle is the same every time.
  Object *functionOf(Object *module, const std::string &name);
  /// The object of `handle`; null, and a violation, if it is not alive or not
  /// of `kind`.
  Object *use(const void *handle, Kind kind, const char *call);
  void destroy(const void *handle, Kind kind, const char *call);
  void violation(const std::string &text) { violations.push_back(text); }
  void *allocate(size_t bytes);
  void release(void *pointer, const char *call);
  /// Whether [pointer, pointer + bytes) is live memory; if not, that is a
  /// violation.
  bool touch(const void *pointer, size_t bytes, const char *call);
  /// Whether the pointer is in live device memory.
  bool isDeviceMemory(const void *pointer, size_t bytes) const;
  /// Runs `work` on `stream`, or adds it to the stream's capture.
  void enqueue(Object *stream, const std::string &work);
  bool anyCapture() const;
  /// Whether a stream waits for missing ranks, and a function that ends this.
  bool anyStuck() const;
  void unstick();
  std::string kindName(Kind kind) const;

  /// The context, while a reference to it is held.
  Object *context = nullptr;
  int contextShares = 0;
  /// The number of calls of ncclGetUniqueId.
  int groupIds = 0;
  /// Simulated device time in milliseconds.
  float clock = 0;

private:
  std::vector<std::unique_ptr<Object>> objects;
  std::map<std::pair<const Object *, std::string>, Object *> functions;
  std::map<const void *, size_t> memory;
  int callsUntilFailure = -1;
  int variant = 0;
  /// All objects by handle: some tests make tens of thousands of them.
  std::unordered_map<const void *, Object *> known;
};

/// The book of this process. For programs that are no test, TE_FAKE_ALGORITHMS,
/// TE_FAKE_FASTEST (the number of the fastest algorithm),
/// TE_FAKE_GEMM_MILLISECONDS and TE_FAKE_MULTIPROCESSORS in the environment
/// change its first machine.
Book &book();

/// The current context of the calling thread.
Object *&currentContext();

struct Dimensions {
  unsigned x, y, z;
};
/// Runs a kernel of the driver library, or does nothing in the library whose
/// kernels do not run (NoKernels.cpp). Returns false if it has no such kernel.
bool runKernel(const std::string &name, const Dimensions &grid, unsigned block,
               unsigned sharedBytes, void **arguments);

} // namespace te::fake

#endif // TE_UNITTEST_RUNTIME_CUDA_FAKECUDA_H
