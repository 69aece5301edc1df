//===- PipelineGuard.cpp - exit codes of tools that run passes ------------===//
//
// The order of events of a pass decides who caused a failure. Errors reported
// while the body of the pass runs are about the program. Errors between the end
// of the body and the end of the pass come from the verifier. A failure without
// either is silent. Errors before the first pass are about options. An action
// handler sees the end of the body, because there is no instrumentation between
// the body and the verifier.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Pipelines/PipelineGuard.h"

#include "TEDialect/Support/Printable.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

using namespace mlir;
using namespace mlir::te;

/// The state that the guard and the observers of its pass managers share.
struct PipelineGuard::State {
  std::string tool, prefix;
  bool usage = false, internal = false;
  /// The observer of the current pass manager, or null.
  Observer *observer = nullptr;

  void reportUsage(const Twine &message);
  void reportInternal(const Twine &what);
};

/// Observes one pass manager, which owns it, so it is destroyed before the
/// context.
class PipelineGuard::Observer final : public PassInstrumentation {
public:
  Observer(std::shared_ptr<State> state, PassManager &manager);
  ~Observer() override;

  void runBeforePass(Pass *pass, Operation *op) override {
    running = pass;
    if (!hasBegun())
      original = op->clone();
  }
  void runAfterPassFailed(Pass *pass, Operation *op) override;

  bool hasBegun() { return bool(original); }
  StringRef runningPass() const { return running->getArgument(); }

  /// Writes the reproducer; returns the message about it.
  std::string writeReproducer();

private:
  LogicalResult handle(Diagnostic &diagnostic);

  std::shared_ptr<State> state;
  MLIRContext *context;
  PassManager &manager;
  /// The program before the first pass.
  OwningOpRef<Operation *> original;
  Pass *running = nullptr;
  DiagnosticEngine::HandlerID handler;
  /// Whether the end of bodies is seen; it is not if a debugger observes
  /// actions.
  bool seesBodies;
  bool hasFailed = false;
  /// Number of errors reported so far, and before and after the last body that
  /// ended.
  unsigned errors = 0, errorsBefore = 0, errorsAfter = 0;
};

static raw_ostream &errorOf(StringRef tool) {
  return llvm::WithColor::error(llvm::errs(), tool);
}

//===----------------------------------------------------------------------===//
// Observer
//===----------------------------------------------------------------------===//

PipelineGuard::Observer::Observer(std::shared_ptr<State> shared,
                                  PassManager &manager)
    : state(std::move(shared)), context(manager.getContext()), manager(manager),
      seesBodies(!context->hasActionHandler()) {
  state->observer = this;
  handler = context->getDiagEngine().registerHandler(
      [this](Diagnostic &diagnostic) { return handle(diagnostic); });
  if (seesBodies)
    context->registerActionHandler(
        [this](function_ref<void()> body, const tracing::Action &) {
          errorsBefore = errors;
          body();
          errorsAfter = errors;
        });
}

PipelineGuard::Observer::~Observer() {
  context->getDiagEngine().eraseHandler(handler);
  if (seesBodies)
    context->registerActionHandler(nullptr);
  state->observer = nullptr;
}

LogicalResult PipelineGuard::Observer::handle(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return failure();
  ++errors;
  if (hasBegun())
    return failure();
  state->reportUsage(state->prefix + diagnostic.str());
  return success();
}

void PipelineGuard::Observer::runAfterPassFailed(Pass *pass, Operation *) {
  // The passes that contain the failed pass fail too.
  if (std::exchange(hasFailed, true) || !seesBodies)
    return;
  if (errors > errorsAfter)
    state->reportInternal("the program does not verify after '" +
                          pass->getArgument() + "'");
  else if (errors == errorsBefore)
    state->reportInternal("'" + pass->getArgument() +
                          "' failed without an error message");
}

std::string PipelineGuard::Observer::writeReproducer() {
  SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createUniqueFile(
          state->tool + "-reproducer-%%%%%%.mlir", path))
    return "no reproducer could be written: " + error.message();
  (void)makeReproducer(manager.getOpAnchorName(), manager.getPasses(),
                       original.get(), path, /*disableThreads=*/true,
                       /*verifyPasses=*/true);
  return ("'te-opt --run-reproducer " + path + "' reproduces it").str();
}

//===----------------------------------------------------------------------===//
// PipelineGuard
//===----------------------------------------------------------------------===//

void PipelineGuard::State::reportUsage(const Twine &message) {
  usage = true;
  errorOf(tool) << printable(message.str()) << "\n";
}

void PipelineGuard::State::reportInternal(const Twine &what) {
  internal = true;
  // The message has two parts, because after a crash the second may be missing.
  errorOf(tool) << "internal error: " << what;
  if (observer && observer->hasBegun())
    llvm::errs() << "; " << observer->writeReproducer();
  llvm::errs() << "\n";
}

/// The current guard.
static std::atomic<PipelineGuard *> guarded = nullptr;

PipelineGuard::PipelineGuard(StringRef tool, StringRef option)
    : state(std::make_shared<State>()) {
  state->tool = tool;
  state->prefix = option.empty() ? "" : (option + ": ").str();
  // The second handler of the process: LLVM's own has printed the stack.
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::setBugReportMsg("");
    llvm::sys::AddSignalHandler(
        [](void *) {
          if (PipelineGuard *guard = guarded.exchange(nullptr))
            guard->exitCrashed();
        },
        nullptr);
  });
  guarded = this;
}

PipelineGuard::~PipelineGuard() { guarded = nullptr; }

void PipelineGuard::watch(PassManager &manager) {
  manager.addInstrumentation(std::make_unique<Observer>(state, manager));
}

// This runs in the signal handler, above the stack of the code that crashed, so
// all objects still exist; after a jump out of the handler, they would not. If
// this crashes too, the signal ends the process.
void PipelineGuard::exitCrashed() {
  if (state->observer && state->observer->hasBegun())
    state->reportInternal("'" + state->observer->runningPass() + "' crashed");
  else
    state->reportInternal("crashed outside of the passes");
  std::_Exit(kInternal);
}

LogicalResult PipelineGuard::reportUsage(const Twine &message) {
  state->reportUsage(message);
  return failure();
}

LogicalResult PipelineGuard::reportInternal(const Twine &what) {
  state->reportInternal(what);
  return failure();
}

ExitCode PipelineGuard::exitCode(LogicalResult result) const {
  if (state->internal)
    return kInternal;
  if (succeeded(result))
    return kOk;
  return state->usage ? kUsage : kDiagnostics;
}
