//===- TECompiler.cpp - the compiler behind a C ABI -----------------------===//
//
// Each program has a context of its own, without threads, so that programs are
// independent and one thread's messages are its own. What a compilation prints
// elsewhere, diagnostics and reports, is caught here as text.
//
//===----------------------------------------------------------------------===//

#include "te-c/te_compiler.h"

#include "TEDialect/Analysis/GemmOrigin.h"
#include "TEDialect/IR/DiagnosticData.h"
#include "TEDialect/InitAllTE.h"
#include "TEDialect/JIT/Frontend.h"
#include "TEDialect/JIT/Picture.h"
#include "TEDialect/Pipelines/PrintableDiagnostics.h"
#include "TEDialect/Support/Printable.h"
#include "TEDialect/Transforms/Report/ReportStream.h"

#include "mlir/IR/Action.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

using namespace mlir;
using namespace mlir::te;

namespace {
/// What a te_diagnostic points to.
struct Said {
  te_severity severity;
  std::string code, message, location, layer;
};
} // namespace

struct te_program {
  explicit te_program(const DialectRegistry &registry)
      : context(registry, MLIRContext::Threading::DISABLED) {
    // The message and the line say it; a printed module would hide them.
    context.printOpOnDiagnostic(false);
  }

  /// Fills `arguments`, once there is a step.
  void describeArguments();

  llvm::SourceMgr sources;
  MLIRContext context;
  CompiledProgram compiled;
  std::vector<te_rt_argument_info> arguments;
  /// What they point to.
  std::vector<std::string> names;
  std::string report, diagnostics;
  std::vector<Said> said;
  mutable std::string ir;
  mutable std::once_flag printed;
};

void te_program::describeArguments() {
  if (!compiled.step)
    return;
  for (const ArgumentInfo &info : compiled.step->arguments())
    names.push_back(info.qualifiedName());
  for (auto [info, name] : llvm::zip(compiled.step->arguments(), names)) {
    const bool isResult = info.role == ArgumentInfo::Role::Result;
    // The parts of ArgumentInfo are those of the ABI, in its order.
    arguments.push_back(
        {name.c_str(), info.valueType.c_str(), info.shape.data(), info.bytes,
         static_cast<int32_t>(info.shape.size()), info.type,
         isResult ? TE_RT_RESULT : TE_RT_ARGUMENT,
         static_cast<int32_t>(info.part), info.carriedInput,
         uint32_t(compiled.weights.contains(info.name) ? TE_RT_IS_WEIGHT : 0) |
             (info.init ? TE_RT_HAS_INIT : 0) |
             (info.isRecipeState ? TE_RT_IS_RECIPE_STATE : 0),
         info.init.value_or(0), 0, info.arenaOffset});
  }
}

static thread_local std::string lastError;
static thread_local std::vector<Said> lastDiagnostics;

static te_compile_status refuse(std::string message,
                                te_compile_status status = TE_COMPILE_USAGE) {
  lastError = printable(message, "\t\n");
  return status;
}

/// Ends the compilation that said `said` with an error that no pass gave.
static te_compile_status fail(std::vector<Said> said, const char *code,
                              std::string message,
                              te_compile_status status = TE_COMPILE_USAGE) {
  said.push_back({TE_SEVERITY_ERROR, code, message, "", ""});
  lastDiagnostics = std::move(said);
  return refuse(std::move(message), status);
}

static te_severity severityOf(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return TE_SEVERITY_NOTE;
  case DiagnosticSeverity::Remark:
    return TE_SEVERITY_REMARK;
  case DiagnosticSeverity::Warning:
    return TE_SEVERITY_WARNING;
  case DiagnosticSeverity::Error:
    return TE_SEVERITY_ERROR;
  }
  llvm_unreachable("every severity is handled above");
}

/// Adds `diagnostic`, then its notes.
static void record(Diagnostic &diagnostic, std::vector<Said> &said) {
  DiagnosticData data = readData(diagnostic);
  const Location place = diagnostic.getLocation();
  said.push_back({severityOf(diagnostic.getSeverity()), data.code.str(),
                  diagnostic.str(), describePlace(place),
                  data.layer.empty() ? innermostName(place) : data.layer});
  for (Diagnostic &note : diagnostic.getNotes())
    record(note, said);
}

/// Why `given`, of type `name`, cannot be used: its caller did not set its
/// size. Empty if it can.
template <typename Struct>
static std::string checkSize(const Struct &given, const char *name) {
  return given.struct_size > sizeof(given.struct_size)
             ? ""
             : std::string("expected 'struct_size' to be sizeof(") + name +
                   "), but got " + std::to_string(given.struct_size);
}

/// The fields of `from` that its caller knows.
template <typename Struct> static Struct readStruct(const Struct &from) {
  Struct known = {};
  std::memcpy(&known, &from, std::min(from.struct_size, sizeof(Struct)));
  return known;
}

template <typename Struct>
static void writeStruct(Struct &to, const Struct &from) {
  const size_t size = to.struct_size;
  std::memcpy(&to, &from, std::min(size, sizeof(Struct)));
  to.struct_size = size;
}

static te_compile_status fill(const std::vector<Said> &said, int32_t index,
                              te_diagnostic *diagnostic) {
  if (!diagnostic)
    return refuse("'diagnostic' is null");
  if (std::string error = checkSize(*diagnostic, "te_diagnostic");
      !error.empty())
    return refuse(error);
  if (index < 0 || static_cast<size_t>(index) >= said.size())
    return refuse("expected a diagnostic below " + std::to_string(said.size()) +
                  ", but got " + std::to_string(index));
  const Said &from = said[index];
  writeStruct(*diagnostic,
              {0, from.severity, from.code.c_str(), from.message.c_str(),
               from.location.c_str(), from.layer.c_str()});
  return TE_COMPILE_OK;
}

static bool hasPlace(Diagnostic &diagnostic) {
  return !describePlace(diagnostic.getLocation()).empty();
}

/// Prints `diagnostic` and its notes. The name of a layer stands for a place in
/// the source where there is none; LLVM would print '<unknown>:0'.
static void print(Diagnostic &diagnostic, SourceMgrDiagnosticHandler &handler,
                  llvm::raw_ostream &os) {
  static constexpr const char *kSeverities[] = {"note", "remark", "warning",
                                                "error"};
  if (hasPlace(diagnostic)) {
    handler.emitDiagnostic(diagnostic.getLocation(), diagnostic.str(),
                           diagnostic.getSeverity());
  } else {
    if (std::string name = innermostName(diagnostic.getLocation());
        !name.empty())
      os << name << ": ";
    os << kSeverities[severityOf(diagnostic.getSeverity())] << ": "
       << diagnostic.str() << '\n';
  }
  for (Diagnostic &note : diagnostic.getNotes())
    print(note, handler, os);
}

static te_compile_status compile(const te_compile_request &request,
                                 te_program &program) {
  CompileRequest wanted;
  wanted.entry = request.entry;
  wanted.pipeline = request.pipeline ? request.pipeline : "";
  wanted.backend = request.backend ? request.backend : "";
  wanted.vjp = request.vjp != 0;
  std::optional<PictureFormat> picture;
  if (request.picture) {
    picture = parsePictureFormat(request.picture);
    if (!picture)
      return fail({}, "request",
                  "expected 'picture' to be html, dot or json, but got '" +
                      std::string(request.picture) + "'");
  }
  program.sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(
          llvm::StringRef(request.source, request.source_size),
          request.source_name ? request.source_name : "-"),
      llvm::SMLoc());

  llvm::raw_string_ostream diagnostics(program.diagnostics);
  llvm::raw_string_ostream report(program.report);
  SourceMgrDiagnosticHandler handler(program.sources, &program.context,
                                     diagnostics);
  // Asked before. After a failure, the other one prints.
  ScopedDiagnosticHandler recorder(&program.context, [&](Diagnostic &said) {
    record(said, program.said);
    if (hasPlace(said) && llvm::all_of(said.getNotes(), hasPlace))
      return failure();
    print(said, handler, diagnostics);
    return success();
  });
  makeDiagnosticsPrintable(program.context);
  ReportCapture capture(report);
  std::string error;
  bool isInterrupted = false;
  if (request.is_interrupted)
    program.context.registerActionHandler(
        [&](llvm::function_ref<void()> transform, const tracing::Action &) {
          // The passes that are left do nothing.
          if (!isInterrupted)
            isInterrupted = request.is_interrupted(request.user) != 0;
          if (!isInterrupted)
            transform();
        });
  auto printed = [&] {
    return llvm::StringRef(program.diagnostics).rtrim('\n').str();
  };
  const CompileOutcome outcome = [&] {
    if (picture)
      return drawStep(program.sources, &program.context, wanted, *picture,
                      report, program.compiled, error);
    OneJsonReport reports;
    return (request.ir_only ? runPipeline : compileProgram)(
        program.sources, &program.context, wanted, program.compiled, error);
  }();
  program.context.registerActionHandler(nullptr);
  if (isInterrupted)
    return fail({}, "interrupted", "the compilation was interrupted",
                TE_COMPILE_INTERRUPTED);
  switch (outcome) {
  case CompileOutcome::Ok:
    return TE_COMPILE_OK;
  case CompileOutcome::Diagnosed:
    if (program.diagnostics.empty())
      return fail({}, "internal", "a pass failed without an error message",
                  TE_COMPILE_INTERNAL);
    lastDiagnostics = std::move(program.said);
    return refuse(printed(), TE_COMPILE_DIAGNOSTICS);
  case CompileOutcome::BadEntry:
    return fail(std::move(program.said), "entry", "'entry': " + error);
  case CompileOutcome::BadPipeline:
    return fail(std::move(program.said), "pipeline", "'pipeline': " + error);
  case CompileOutcome::Internal:
    return fail(std::move(program.said), "internal",
                "the lowered program cannot be compiled\n" + printed(),
                TE_COMPILE_INTERNAL);
  }
  llvm_unreachable("every outcome is handled above");
}

const char *te_compiler_version(void) {
  return "te-mlir " TE_VERSION ", LLVM " LLVM_VERSION_STRING;
}

int32_t te_compiler_runtime_version(void) { return TE_RT_VERSION; }

const char *te_compiler_last_error(void) { return lastError.c_str(); }

int32_t te_compiler_num_diagnostics(void) {
  return static_cast<int32_t>(lastDiagnostics.size());
}

te_compile_status te_compiler_diagnostic(int32_t index,
                                         te_diagnostic *diagnostic) {
  return fill(lastDiagnostics, index, diagnostic);
}

te_compile_status te_compile(const te_compile_request *request,
                             te_program **program) {
  if (!request || !program)
    return fail({}, "request",
                std::string("'") + (request ? "program" : "request") +
                    "' is null");
  *program = nullptr;
  if (std::string error = checkSize(*request, "te_compile_request");
      !error.empty())
    return fail({}, "request", error);
  const te_compile_request known = readStruct(*request);
  if (!known.source || !known.entry)
    return fail({}, "request",
                std::string("'") + (known.source ? "entry" : "source") +
                    "' is null");
  DialectRegistry registry;
  registerAllTEDialects(registry);
  auto result = std::make_unique<te_program>(registry);
  if (te_compile_status status = compile(known, *result))
    return status;
  result->describeArguments();
  *program = result.release();
  return TE_COMPILE_OK;
}

void te_program_destroy(te_program *program) { delete program; }

const te_rt_module *te_program_module(const te_program *program) {
  return program && program->compiled.step ? &program->compiled.step->module()
                                           : nullptr;
}

int32_t te_program_num_arguments(const te_program *program) {
  return program ? static_cast<int32_t>(program->names.size()) : 0;
}

const te_rt_argument_info *te_program_argument(const te_program *program,
                                               int32_t index) {
  return index >= 0 && index < te_program_num_arguments(program)
             ? &program->arguments[index]
             : nullptr;
}

te_compile_status te_program_argument_uses(const te_program *program,
                                           int32_t index, int32_t *first,
                                           int32_t *last) {
  if (!program || !first || !last)
    return refuse(std::string("'") +
                  (program ? first ? "last" : "first" : "program") +
                  "' is null");
  if (!te_program_argument(program, index))
    return refuse("expected an argument below " +
                  std::to_string(program->names.size()) + ", but got " +
                  std::to_string(index));
  const ArgumentInfo &info = program->compiled.step->arguments()[index];
  *first = info.firstLaunch;
  *last = info.lastLaunch;
  return TE_COMPILE_OK;
}

int32_t te_program_num_launches(const te_program *program) {
  return program && program->compiled.step
             ? static_cast<int32_t>(program->compiled.step->launches().size())
             : 0;
}

te_compile_status te_program_launch(const te_program *program, int32_t slot,
                                    te_launch_info *info) {
  if (!program || !info)
    return refuse(std::string("'") + (program ? "info" : "program") +
                  "' is null");
  if (std::string error = checkSize(*info, "te_launch_info"); !error.empty())
    return refuse(error);
  if (slot < 0 || slot >= te_program_num_launches(program))
    return refuse("expected a slot below " +
                  std::to_string(te_program_num_launches(program)) +
                  ", but got " + std::to_string(slot));
  const LaunchInfo &from = program->compiled.step->launches()[slot];
  writeStruct(*info, {0, from.kernel.c_str(), from.name.c_str(),
                      from.location.c_str()});
  return TE_COMPILE_OK;
}

const char *te_program_recipe(const te_program *program) {
  return program ? program->compiled.recipe.c_str() : "";
}

const char *te_program_report(const te_program *program) {
  return program ? program->report.c_str() : "";
}

const char *te_program_diagnostics(const te_program *program) {
  return program ? program->diagnostics.c_str() : "";
}

int32_t te_program_num_diagnostics(const te_program *program) {
  return program ? static_cast<int32_t>(program->said.size()) : 0;
}

te_compile_status te_program_diagnostic(const te_program *program,
                                        int32_t index,
                                        te_diagnostic *diagnostic) {
  return program ? fill(program->said, index, diagnostic)
                 : refuse("'program' is null");
}

const char *te_program_ir(const te_program *program) {
  if (!program)
    return "";
  std::call_once(program->printed, [&] {
    llvm::raw_string_ostream(program->ir) << *program->compiled.module;
  });
  return program->ir.c_str();
}
