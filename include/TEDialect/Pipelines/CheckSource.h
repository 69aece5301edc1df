//===- CheckSource.h - reads programs, and refuses what MLIR cannot -------===//

#ifndef TEDIALECT_PIPELINES_CHECKSOURCE_H
#define TEDIALECT_PIPELINES_CHECKSOURCE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <optional>
#include <string>

namespace mlir::te {

/// The deepest nesting of brackets that is parsed.
inline constexpr unsigned kMaxNesting = 256;

/// The most text that aliases in the definition of an alias stand for.
inline constexpr unsigned kMaxAliasBytes = 1 << 20;

/// Reads the program of a command line; '-' is standard input. Null, with
/// `error` set, if it cannot be read. A device is refused, because reading one
/// may never end.
std::unique_ptr<llvm::MemoryBuffer> readSource(llvm::StringRef path,
                                               std::string &error);

struct SourceProblem {
  /// In the text that was checked.
  const char *place;
  std::string message;
};

/// What is wrong with a program for which MLIR's parser would end the process:
/// it recurses for each bracket and each sign, also of what aliases stand for,
/// asserts that elements of `array<>` are no index, and uses the dimensions of
/// linalg ops also where they are no list. Also control characters that a
/// terminal would obey, in lines and in the names of symbols.
std::optional<SourceProblem> findSourceProblem(llvm::StringRef text);

/// Whether a program is MLIR's bytecode, whose reader is not safe against files
/// that were made to break it.
bool isBytecode(llvm::StringRef source);

} // namespace mlir::te

#endif // TEDIALECT_PIPELINES_CHECKSOURCE_H
