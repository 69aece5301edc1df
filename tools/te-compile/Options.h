//===- Options.h - the command line of te-compile -------------------------===//

#ifndef TE_TOOLS_TE_COMPILE_OPTIONS_H
#define TE_TOOLS_TE_COMPILE_OPTIONS_H

#include "TEDialect/Pipelines/PipelineGuard.h"

#include <optional>
#include <string>

namespace te::compile {

/// What is written; the ending of the file's name says it.
enum class Kind { SharedObject, Object, Assembly, LLVMIR };

struct Options {
  std::string file, entry, pipeline, output, symbol, linker;
  /// Where the header goes; empty: none is written.
  std::string header;
  Kind kind = Kind::Object;
  bool vjp = false;
  /// Whether no option of LLVM is set, which may change machine code.
  bool usesCodeCache = true;
};

/// Fills `options`; returns an exit code if there is nothing to compile
/// (--help, --version, or a usage error that was printed).
std::optional<mlir::te::ExitCode> parseOptions(int argc, char **argv,
                                               Options &options);

} // namespace te::compile

#endif // TE_TOOLS_TE_COMPILE_OPTIONS_H
