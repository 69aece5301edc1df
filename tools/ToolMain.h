//===- ToolMain.h - the main function of a tool ---------------------------===//
//
// A release has LLVM once: libte_compiler contains the code of all tools, and
// the program of a tool calls its function there (te_add_tool). Otherwise it is
// main.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TOOLS_TOOLMAIN_H
#define TE_TOOLS_TOOLMAIN_H

#ifdef TE_TOOL_MAIN
extern "C" int TE_TOOL_MAIN(int argc, char **argv);
#else
#define TE_TOOL_MAIN main
#endif

#endif // TE_TOOLS_TOOLMAIN_H
