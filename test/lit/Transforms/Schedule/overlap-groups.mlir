// Collectives of a group of one rank wait for nobody and stay; of an unknown group it is assumed that it has peers.
// RUN: te-opt %s --te-overlap-communication=always=true | FileCheck %s

module attributes {tert.groups = [{axis = "one", id = 0 : i64, name = "one", size = 1 : i64}, {axis = "tp", id = 1 : i64, name = "tp", size = 2 : i64}]} {
  // CHECK-LABEL: func.func @one_rank
  // CHECK-NOT: side
  // CHECK: return
  func.func @one_rank(%part: !tert.buffer<16777216>, %y: !tert.buffer<16777216>) {
    %x = tert.alloc "x" activation : !tert.buffer<16777216>
    tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 0 : i32, ranks = 1 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<16777216>
    tert.launch "copy" {bytes = 16777216 : i64} (%x, %y) : !tert.buffer<16777216>, !tert.buffer<16777216>
    return
  }

  // CHECK-LABEL: func.func @two_ranks
  // CHECK: tert.launch "all_gather" {{.*}} side :
  func.func @two_ranks(%part: !tert.buffer<16777216>, %y: !tert.buffer<33554432>) {
    %x = tert.alloc "x" activation : !tert.buffer<33554432>
    tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 1 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<33554432>
    tert.launch "copy" {bytes = 33554432 : i64} (%x, %y) : !tert.buffer<33554432>, !tert.buffer<33554432>
    return
  }

  // CHECK-LABEL: func.func @unknown_group
  // CHECK: tert.launch "all_gather" {{.*}} side :
  func.func @unknown_group(%part: !tert.buffer<16777216>, %y: !tert.buffer<33554432>) {
    %x = tert.alloc "x" activation : !tert.buffer<33554432>
    tert.launch "all_gather" {bytes = 16777216 : i64, group_id = 2 : i32, ranks = 2 : i32} (%part, %x) : !tert.buffer<16777216>, !tert.buffer<33554432>
    tert.launch "copy" {bytes = 33554432 : i64} (%x, %y) : !tert.buffer<33554432>, !tert.buffer<33554432>
    return
  }
}
