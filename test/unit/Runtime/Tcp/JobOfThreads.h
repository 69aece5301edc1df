//===- JobOfThreads.h - the processes of a job, as threads ----------------===//
//
// Each has its own connections. Jobs use ports that the system reports as free,
// and several of them, because another program may take one first.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TEST_UNIT_RUNTIME_TCP_JOBOFTHREADS_H
#define TE_TEST_UNIT_RUNTIME_TCP_JOBOFTHREADS_H

#include "TEDialect/Runtime/te_runtime_tcp.h"

#include <asio.hpp>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

using Bytes = std::vector<uint8_t>;

constexpr int64_t kTimeout = 20000;
constexpr const char *kSecret = "sixteen bytes or more";

/// A port that was free.
inline int32_t freePort() {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::tcp::v4(), 0});
  return acceptor.local_endpoint().port();
}

/// One process of a job.
class Process {
public:
  Process(int rank, int size, int32_t port) : rank(rank), size(size) {
    options = {"127.0.0.1", port, 4, "a job", size, rank, kTimeout, kSecret};
  }
  ~Process() {
    if (job)
      (void)leave();
  }

  te_rt_status join() { return te_tcp_create(&options, &job, message); }
  te_rt_status leave() {
    te_tcp *const left = job;
    job = nullptr;
    return te_tcp_destroy(left, kTimeout, message);
  }
  te_rt_status group(int32_t tag, const std::vector<int32_t> &ranks) {
    return te_tcp_communicator(job, tag, ranks.data(),
                               static_cast<int32_t>(ranks.size()), &members,
                               message);
  }
  te_rt_status exchange(const Bytes &send, int64_t stride, Bytes &receive,
                        int64_t timeout = kTimeout) {
    return members.exchange(members.user, send.data(), stride, receive.data(),
                            static_cast<int64_t>(receive.size()) / members.size,
                            timeout, message);
  }

  te_tcp_options options;
  te_tcp *job = nullptr;
  te_rt_communicator members = {};
  char message[TE_RT_MESSAGE_BYTES] = "";
  const int rank, size;
};

#define EXPECT_OK(call) EXPECT_EQ(call, TE_RT_OK) << process.message
#define ASSERT_OK(call) ASSERT_EQ(call, TE_RT_OK) << process.message

/// Runs `body` in every process of a job of `size`, before it joins.
inline void onEach(int size, const std::function<void(Process &)> &body) {
  const int32_t port = freePort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Process process(rank, size, port);
      body(process);
    });
  for (std::thread &thread : threads)
    thread.join();
}

#endif // TE_TEST_UNIT_RUNTIME_TCP_JOBOFTHREADS_H
