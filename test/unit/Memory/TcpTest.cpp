//===- TcpTest.cpp - jobs of processes when host memory runs out ----------===//
//
// One rank of a job of two runs out of memory, and the other one, a thread that
// does not, goes on to join until the first is there.
//
//===----------------------------------------------------------------------===//

#include "Memory/FailingMemory.h"
#include "TEDialect/Runtime/te_runtime_tcp.h"

#include <asio.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using te::memory::Attempt;
using te::memory::Exempt;

namespace {

/// A port that was free.
int32_t freePort() {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  return acceptor.local_endpoint().port();
}

/// Joins as `rank`, with or without a secret, exchanges a byte with the other
/// one and leaves.
te_rt_status meet(int rank, int32_t port, int64_t timeout, const char *secret) {
  const te_tcp_options options = {"127.0.0.1", port, 1,       "a job",
                                  2,           rank, timeout, secret};
  char message[TE_RT_MESSAGE_BYTES];
  te_tcp *job = nullptr;
  te_rt_status status = te_tcp_create(&options, &job, message);
  if (status)
    return status;
  te_rt_communicator both = {};
  const int32_t ranks[] = {0, 1};
  status = te_tcp_communicator(job, 3, ranks, 2, &both, message);
  const char sent = static_cast<char>('a' + rank);
  char received[2] = {};
  if (!status)
    status = both.exchange(both.user, &sent, 0, received, 1, timeout, message);
  if (!status && (received[0] != 'a' || received[1] != 'b'))
    status = TE_RT_INTERNAL;
  // What was begun when memory ran out has ended: nothing writes to this stack.
  if (status == TE_RT_OUT_OF_MEMORY && both.exchange)
    (void)both.exchange(both.user, &sent, 0, received, 1, timeout, message);
  const te_rt_status left = te_tcp_destroy(job, status ? 0 : timeout, message);
  return status ? status : left;
}

void sweepRank(int rank, const char *secret) {
  te::memory::sweep([&](Attempt &attempt) {
    std::atomic<bool> isOver = false;
    std::atomic<int> tries = 0;
    std::thread other;
    int32_t port;
    {
      const Exempt exempt;
      port = freePort();
      other = std::thread([&, port] {
        const Exempt exemptToo;
        for (int met = 0; !isOver;)
          if (const int now = tries; met == now)
            std::this_thread::yield();
          else if (meet(1 - rank, port, 100, secret) == TE_RT_OK)
            met = now;
      });
    }
    attempt([&](bool &outOfMemory) {
      ++tries;
      const te_rt_status status = meet(rank, port, 10000, secret);
      outOfMemory = status == TE_RT_OUT_OF_MEMORY;
      return status == TE_RT_OK;
    });
    isOver = true;
    other.join();
  });
}

constexpr const char *kSecret = "sixteen bytes or more";

TEST(TcpOutOfMemory, OfProcess0) { sweepRank(0, kSecret); }

TEST(TcpOutOfMemory, OfAnotherProcess) { sweepRank(1, kSecret); }

TEST(TcpOutOfMemory, OfProcess0WithoutASecret) { sweepRank(0, nullptr); }

} // namespace
