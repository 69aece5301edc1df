//===- te-tblgen.cpp - the support table in its other forms ---------------===//
//
// LLVM's TableGen with the backends of this project: TESupport.td as constant
// C++ rows, as a page of the documentation, and as JSON.
//
//===----------------------------------------------------------------------===//

#include "SupportTable.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/TableGenBackend.h"

using namespace llvm;

static TableGen::Emitter::Opt cpp("gen-support-rows", te::tblgen::emitCpp,
                                  "Generate the constant rows of C++");
static TableGen::Emitter::Opt
    markdown("gen-support-doc", te::tblgen::emitMarkdown,
             "Generate the page of the documentation");
static TableGen::Emitter::Opt json("gen-support-json", te::tblgen::emitJson,
                                   "Generate the table as JSON");

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  MultiFileTableGenMainFn chosen = nullptr; // by the options above
  return TableGenMain(argv[0], chosen);
}
