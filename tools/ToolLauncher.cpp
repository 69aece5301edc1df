//===- ToolLauncher.cpp - a tool whose code is in a library ---------------===//

#include "ToolMain.h"

int main(int argc, char **argv) { return TE_TOOL_MAIN(argc, argv); }
