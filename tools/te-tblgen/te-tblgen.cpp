//===- te-tblgen.cpp - the tables of this project in their other forms ----===//
//
// LLVM's TableGen with the backends of this project: TESupport.td and
// Kernels.td as constant C++ rows, as pages of the documentation, and as JSON.
//
//===----------------------------------------------------------------------===//

#include "KernelList.h"
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
static TableGen::Emitter::Opt kernelList("gen-kernel-list",
                                         te::tblgen::emitKernelList,
                                         "Generate the macros of the kernels");
static TableGen::Emitter::Opt
    kernelRows("gen-kernel-rows", te::tblgen::emitKernelRows,
               "Generate facts and sizes of the kernels");
static TableGen::Emitter::Opt
    kernelChecks("gen-kernel-checks", te::tblgen::emitKernelChecks,
                 "Generate the checks of the parameters of kernels");
static TableGen::Emitter::Opt kernelDocs("gen-kernel-doc",
                                         te::tblgen::emitKernelDocs,
                                         "Generate the page of the kernels");

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  MultiFileTableGenMainFn chosen = nullptr; // by the options above
  return TableGenMain(argv[0], chosen);
}
