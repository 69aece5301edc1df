//===- MLIRHeaders.cpp - owner of the precompiled headers -----------------===//
//
// Empty: CMake attaches a precompiled header to a target, and a target has a
// source.
//
//===----------------------------------------------------------------------===//
