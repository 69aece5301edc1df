// Stages whose collectives match in the forward but not in the backward: the expansion of te.vjp is compared, too.
// RUN: split-file %s %t
// RUN: te-opt %t/asked.mlir --te-verify-collectives -o /dev/null
// RUN: te-opt %t/asked.mlir --te-verify-derivatives -o /dev/null
// RUN: not te-opt %t/asked.mlir --te-verify-derivatives=vjp=f -o /dev/null 2>&1 | FileCheck %s --check-prefix=ASKED
// RUN: te-opt %t/written.mlir --te-verify-collectives -o /dev/null
// RUN: not te-opt %t/written.mlir --te-verify-derivatives -o /dev/null 2>&1 | FileCheck %s --check-prefix=WRITTEN
// RUN: te-opt %t/same.mlir --te-verify-derivatives=vjp=f -o /dev/null
// RUN: not te-opt %t/same.mlir --te-verify-derivatives=vjp=g -o /dev/null 2>&1 | FileCheck %s --check-prefix=NAME

// The gradient of x is summed in the backward of a column-parallel layer, which only rank 1 has.
// ASKED: asked.mlir:8:10: error: expected all ranks of group 0 ('tp') to run 'te.linear_dgrad' of 'tensor<128x256xbf16>' as 'column', but rank 1 waits here for rank 0
// ASKED: asked.mlir:3:{{[0-9]+}}: note: rank 0 ends here

// WRITTEN: written.mlir:10:{{[0-9]+}}: error: expected all ranks of group 0 ('tp') to run 'te.linear_dgrad' of 'tensor<128x256xbf16>' as 'column', but rank 1 waits here for rank 0
// WRITTEN: note: rank 0 ends here

// NAME: expected a function of the module to differentiate, but got 'g'; there is 'f'

//--- asked.mlir
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func @f(%x: tensor<128x256xbf16>, %v: tensor<256x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<128x256xbf16> {
      %z = te.linear %x, %w parallel <row, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      return %z : tensor<128x256xbf16> } }
  module attributes {te.ranks = array<i64: 1>} {
    func.func @f(%x: tensor<128x256xbf16>, %v: tensor<256x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<128x256xbf16> {
    %y = te.linear %x, %v parallel <column, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      %z = te.linear %y, %w parallel <row, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      return %z : tensor<128x256xbf16> } } }

//--- written.mlir
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0>} {
    func.func private @f(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<128x256xbf16> {
      %z = te.linear %x, %w parallel <row, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      return %z : tensor<128x256xbf16> }
    func.func @step(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>, %dz: tensor<128x256xbf16>) -> tensor<128x256xbf16> {
      %z, %dx = te.vjp @f(%x, %w) cotangents(%dz) wrt [0] : (tensor<128x256xbf16>, tensor<256x256xbf16>), (tensor<128x256xbf16>) -> (tensor<128x256xbf16>, tensor<128x256xbf16>)
      return %dx : tensor<128x256xbf16> } }
  module attributes {te.ranks = array<i64: 1>} { func.func private @f(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<128x256xbf16> {
      %y = te.linear %x, %w parallel <column, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      %z = te.linear %y, %w parallel <row, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      return %z : tensor<128x256xbf16> }
    func.func @step(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>, %dz: tensor<128x256xbf16>) -> tensor<128x256xbf16> {
      %z, %dx = te.vjp @f(%x, %w) cotangents(%dz) wrt [0] : (tensor<128x256xbf16>, tensor<256x256xbf16>), (tensor<128x256xbf16>) -> (tensor<128x256xbf16>, tensor<128x256xbf16>)
      return %dx : tensor<128x256xbf16> } } }

//--- same.mlir
module attributes {te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = 2>]} {
  module attributes {te.ranks = array<i64: 0, 1>} {
    func.func @f(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<128x256xbf16> {
      %z = te.linear %x, %w parallel <column, group = 0> : tensor<128x256xbf16>, tensor<256x256xbf16> -> tensor<128x256xbf16>
      return %z : tensor<128x256xbf16> } } }
