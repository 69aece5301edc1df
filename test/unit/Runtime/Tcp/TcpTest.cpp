//===- TcpTest.cpp - processes that know a host and a port ----------------===//
//
// The processes of a job are threads here (JobOfThreads.h). Each computes what
// all of them send, and so the expected results.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Tcp/JobOfThreads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

/// The bytes that `from` sends to `to`.
Bytes bytesOf(int from, int to, size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<uint8_t>((i * 131 + i / 251) ^
                                    static_cast<size_t>(from * 16 + to));
  return bytes;
}

TEST(Tcp, GathersAndExchanges) {
  for (int size : {1, 2, 5})
    onEach(size, [&](Process &process) {
      ASSERT_OK(process.join());
      std::vector<int32_t> all;
      for (int r = 0; r < size; ++r)
        all.push_back(r);
      ASSERT_OK(process.group(3, all));
      EXPECT_EQ(process.members.rank, process.rank);
      // More bytes than the system buffers for data that is not read yet.
      for (size_t count : {0u, 1u, 1000u, 3u << 20}) {
        Bytes sent, gathered, exchanged;
        for (int r = 0; r < size; ++r) {
          const Bytes to = bytesOf(process.rank, r, count),
                      first = bytesOf(r, 0, count),
                      own = bytesOf(r, process.rank, count);
          sent.insert(sent.end(), to.begin(), to.end());
          gathered.insert(gathered.end(), first.begin(), first.end());
          exchanged.insert(exchanged.end(), own.begin(), own.end());
        }
        Bytes received(sent.size());
        EXPECT_OK(process.exchange(sent, 0, received));
        EXPECT_EQ(received, gathered);
        EXPECT_OK(
            process.exchange(sent, static_cast<int64_t>(count), received));
        EXPECT_EQ(received, exchanged);
      }
      EXPECT_OK(process.leave());
    });
}

// Ranks in a group differ from those of the job, and a process is in several
// groups.
TEST(Tcp, GroupsOfSomeProcesses) {
  onEach(4, [](Process &process) {
    ASSERT_OK(process.join());
    const int other = process.rank ^ 1, across = 3 - process.rank;
    for (const auto &[tag, ranks] :
         {std::pair(0, std::vector<int32_t>{std::max(process.rank, other),
                                            std::min(process.rank, other)}),
          {7,
           {std::min(process.rank, across), std::max(process.rank, across)}}})
      for (int round = 0; round < 3; ++round) {
        ASSERT_OK(process.group(tag, ranks));
        EXPECT_EQ(ranks[static_cast<size_t>(process.members.rank)],
                  process.rank);
        const Bytes sent(5, static_cast<uint8_t>(process.rank));
        Bytes received(10), expected(5, static_cast<uint8_t>(ranks[0]));
        expected.resize(10, static_cast<uint8_t>(ranks[1]));
        EXPECT_OK(process.exchange(sent, 0, received));
        EXPECT_EQ(received, expected);
      }
    EXPECT_OK(process.leave());
  });
}

TEST(Tcp, WrongArgumentsAreNamed) {
  onEach(2, [](Process &process) {
    ASSERT_OK(process.join());
    const struct {
      int32_t tag;
      std::vector<int32_t> ranks;
      const char *text;
    } cases[] = {
        {-1, {0, 1}, "expected 'tag' to be zero or more, but got -1"},
        {0, {}, "expected 'size' to be one or more, but got 0"},
        {0, {0, 2}, "below the size of the job, 2, but got 2"},
        {0, {1, 1}, "expected 'ranks' to differ, but 1 is there twice"},
        {0, {1 - process.rank}, "to be one of 'ranks'"},
    };
    for (const auto &each : cases) {
      EXPECT_EQ(process.group(each.tag, each.ranks), TE_RT_INVALID_ARGUMENT);
      EXPECT_NE(std::string(process.message).find(each.text), std::string::npos)
          << process.message;
    }
    EXPECT_OK(process.leave());
  });
  Process process(0, 1, 1);
  process.options.rank = 1;
  EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(
      process.message,
      "expected 'rank' to be from 0 to below 'size', and that to be at "
      "most 65536, but got 1 and 1");
  process.options.rank = 0;
  process.options.port = 65534;
  EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(process.message, "expected 'num_ports' ports from 'port' on to "
                                "be from 1 to 65535, but got 4 from 65534 on");
  process.options.port = 1;
  process.options.num_ports = INT32_MAX;
  EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
  process.options.num_ports = 1;
  process.options.secret = "short";
  EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(process.message,
               "expected 'secret' to have 16 bytes or more, but got 5");
}

// Only a job that no other host can reach may do without a secret.
TEST(Tcp, OtherHostsNeedTheSecret) {
  for (const char *host : {"0.0.0.0", "example.org", "10.0.0.1"}) {
    Process process(0, 2, freePort());
    process.options.host = host;
    process.options.secret = nullptr;
    EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
    EXPECT_EQ(process.message,
              "expected 'secret' for a job that other hosts can reach, at '" +
                  std::string(host) + "', but got none");
  }
  onEach(2, [](Process &process) {
    process.options.host = process.rank ? "localhost" : "127.0.0.1";
    process.options.secret = nullptr;
    ASSERT_OK(process.join());
    EXPECT_OK(process.leave());
  });
}

// Nobody who has another secret is let in, whatever rank it says it has.
TEST(Tcp, AnotherSecretIsRefused) {
  onEach(3, [](Process &process) {
    process.options.timeout_ms = 1000;
    if (process.rank == 2)
      process.options.secret = "another secret, as long";
    EXPECT_EQ(process.join(), TE_RT_TIMED_OUT);
    const std::string text = process.message;
    if (process.rank != 1)
      EXPECT_NE(text.find(" of this job did not prove to have its secret"),
                std::string::npos)
          << text;
    if (process.rank == 0)
      EXPECT_NE(text.find("rank 2 of 3 did not connect"), std::string::npos)
          << text;
  });
}

// Process 0 listens at the job's address only.
TEST(Tcp, ListensAtTheAddressOfTheJob) {
  const int32_t port = freePort();
  Process process(0, 2, port);
  process.options.num_ports = 1;
  process.options.timeout_ms = 1000;
  std::thread probe([&] {
    asio::io_context io;
    asio::error_code error;
    const auto connect = [&](const char *address) {
      asio::ip::tcp::socket socket(io);
      socket.connect({asio::ip::make_address(address),
                      static_cast<asio::ip::port_type>(port)},
                     error);
      return !error;
    };
    while (!connect("127.0.0.1"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // Another address of the same device.
    EXPECT_FALSE(connect("127.0.0.2"));
  });
  EXPECT_EQ(process.join(), TE_RT_TIMED_OUT);
  probe.join();
}

TEST(Tcp, WhoDoesNotJoinIsNamed) {
  onEach(4, [](Process &process) {
    if (process.rank == 1 || process.rank == 3)
      return;
    process.options.timeout_ms = 700;
    EXPECT_EQ(process.join(), TE_RT_TIMED_OUT);
    const std::string text = process.message;
    EXPECT_NE(text.find(process.rank == 0
                            ? "ranks 1, 3 of 4 did not connect to port "
                            : "other processes did not all come to rank 0 in "
                              "time (700 ms)"),
              std::string::npos)
        << text;
  });
}

TEST(Tcp, SizesHaveToAgree) {
  onEach(2, [](Process &process) {
    process.options.timeout_ms = 1000;
    if (process.rank == 1)
      process.options.size = 3;
    const te_rt_status status = process.join();
    if (process.rank == 1) {
      EXPECT_NE(status, TE_RT_OK);
      return;
    }
    EXPECT_EQ(status, TE_RT_INVALID_ARGUMENT);
    EXPECT_STREQ(process.message, "expected all processes to be one of 2, but "
                                  "rank 1 is one of 3");
  });
}

// A missing rank is named in time, and the connections cannot be used any more.
TEST(Tcp, WhoDoesNotComeIsNamed) {
  onEach(3, [](Process &process) {
    ASSERT_OK(process.join());
    ASSERT_OK(process.group(0, {0, 1, 2}));
    const Bytes sent(8);
    Bytes received(24);
    EXPECT_OK(process.exchange(sent, 0, received));
    if (process.rank == 2) {
      // This is longer than the others wait, but the process does not exit.
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      process.options.timeout_ms = 1;
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(process.exchange(sent, 0, received, 500), TE_RT_TIMED_OUT);
    EXPECT_STREQ(process.message, "rank 2 did not come in time (500 ms)");
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::milliseconds(1400));
    EXPECT_EQ(process.exchange(sent, 0, received, 500), TE_RT_TIMED_OUT);
    EXPECT_NE(std::string(process.message).find("closed after an error"),
              std::string::npos)
        << process.message;
    (void)process.leave();
  });
}

// A rank that exits is noticed at once.
TEST(Tcp, WhoDiesIsMissedAtOnce) {
  onEach(3, [](Process &process) {
    ASSERT_OK(process.join());
    ASSERT_OK(process.group(0, {0, 1, 2}));
    const Bytes sent(8);
    Bytes received(24);
    EXPECT_OK(process.exchange(sent, 0, received));
    if (process.rank == 1) {
      char ignored[TE_RT_MESSAGE_BYTES];
      te_tcp *const left = process.job;
      process.job = nullptr;
      // It closes its connections without a last message.
      EXPECT_EQ(te_tcp_destroy(left, 1, ignored), TE_RT_TIMED_OUT);
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(process.exchange(sent, 0, received), TE_RT_TIMED_OUT);
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::milliseconds(kTimeout / 2));
    (void)process.leave();
  });
}

TEST(Tcp, DifferentCollectivesAreAnError) {
  onEach(2, [](Process &process) {
    ASSERT_OK(process.join());
    ASSERT_OK(process.group(process.rank, {0, 1}));
    const Bytes sent(8);
    Bytes received(16);
    EXPECT_EQ(process.exchange(sent, 0, received), TE_RT_TIMED_OUT);
    const std::string text = process.message;
    EXPECT_TRUE(text.find("is at another collective") != std::string::npos ||
                text.find("closed the connection") != std::string::npos)
        << text;
    (void)process.leave();
  });
}

// Another program, or another job, may use a port: the next one is tried.
/// A process at a port that is not a process of the job.
class Stranger {
public:
  explicit Stranger(int32_t port)
      : acceptor(io, {asio::ip::tcp::v4(),
                      static_cast<asio::ip::port_type>(port)}) {}

  /// Reads the first message of a client and sends it back.
  Bytes echo() {
    asio::ip::tcp::socket socket(io);
    acceptor.accept(socket);
    Bytes hello(kHelloBytes);
    asio::read(socket, asio::buffer(hello));
    asio::write(socket, asio::buffer(hello));
    return hello;
  }

  static constexpr size_t kHelloBytes = 32;
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor;
};

// An echo of a client's own message is not process 0, neither as a service nor
// as a connection to itself.
TEST(Tcp, AnEchoIsNotProcess0) {
  const int32_t port = freePort();
  Stranger stranger(port);
  std::thread server([&] { stranger.echo(); });
  Process process(1, 2, port);
  process.options.num_ports = 1;
  process.options.timeout_ms = 500;
  EXPECT_EQ(process.join(), TE_RT_TIMED_OUT);
  server.join();
  EXPECT_NE(std::string(process.message).find("process 0 was not found"),
            std::string::npos)
      << process.message;
}

// Ranks are counted, not connections: a second process of a rank is refused.
TEST(Tcp, OneRankTwiceIsOneRank) {
  const int32_t port = freePort();
  const auto join = [&](int rank, std::string *said) {
    Process process(rank, 3, port);
    process.options.num_ports = 1;
    process.options.timeout_ms = 1000;
    EXPECT_NE(process.join(), TE_RT_OK);
    *said = process.message;
  };
  std::string said[3];
  std::thread first([&] { join(1, &said[1]); }),
      second([&] { join(1, &said[2]); });
  join(0, &said[0]);
  first.join();
  second.join();
  EXPECT_NE(said[0].find("rank 2 of 3 did not connect"), std::string::npos)
      << said[0];
}

/// A connection to a port on which somebody will listen.
asio::ip::tcp::socket connectTo(asio::io_context &io, int32_t port) {
  asio::ip::tcp::socket socket(io);
  asio::error_code error;
  const asio::ip::tcp::endpoint there(asio::ip::make_address("127.0.0.1"),
                                      static_cast<asio::ip::port_type>(port));
  while (socket.connect(there, error), error)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return socket;
}

// Connections that say nothing, or nonsense, or that they are another rank,
// neither delay a job nor get into it.
TEST(Tcp, StrangersDoNotDelayTheJob) {
  const int32_t port = freePort();
  std::vector<std::thread> processes;
  const auto begin = std::chrono::steady_clock::now();
  processes.emplace_back([=] {
    Process process(0, 2, port);
    process.options.num_ports = 1;
    ASSERT_OK(process.join());
    EXPECT_OK(process.leave());
  });
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connectTo(io, port));
    Bytes hello(i % 3 == 0 ? 0 : 1000, 0xff);
    if (i % 3 == 2) {
      // A Hello of the job that says it is from rank 0.
      const uint8_t start[] = {'t', 'e', '-', 't', 'c', 'p', '2', '\n'};
      std::copy(std::begin(start), std::end(start), hello.begin());
      uint64_t job = 14695981039346656037u;
      for (char c : std::string("a job"))
        job = (job ^ static_cast<unsigned char>(c)) * 1099511628211u;
      std::memcpy(&hello[8], &job, sizeof(job));
      const int32_t numbers[] = {2, i % 2 ? 0 : INT32_MIN, 1, 0};
      std::memcpy(&hello[16], numbers, sizeof(numbers));
    }
    asio::error_code ignored;
    asio::write(strangers.back(), asio::buffer(hello), ignored);
  }
  processes.emplace_back([=] {
    Process process(1, 2, port);
    process.options.num_ports = 1;
    ASSERT_OK(process.join());
    EXPECT_OK(process.leave());
  });
  for (std::thread &process : processes)
    process.join();
  // One after the other, the silent ones would take ten seconds each.
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(kTimeout / 2));
}

// Nor do more of them than are listened to, each of which may be silent for
// longer than the job waits.
TEST(Tcp, ManySilentStrangersDoNotKeepProcessesOut) {
  const int32_t port = freePort();
  const auto join = [=](int rank) {
    Process process(rank, 2, port);
    process.options.num_ports = 1;
    process.options.timeout_ms = 8000;
    ASSERT_OK(process.join());
    EXPECT_OK(process.leave());
  };
  std::thread first([&] { join(0); });
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> strangers;
  for (int i = 0; i < 300; ++i)
    strangers.push_back(connectTo(io, port));
  join(1);
  first.join();
}

TEST(Tcp, PortsOfOthersArePassedBy) {
  asio::io_context io;
  asio::ip::tcp::acceptor taken(io, {asio::ip::tcp::v6(), 0});
  const int32_t port = taken.local_endpoint().port();
  std::vector<std::thread> threads;
  for (const char *job : {"one", "another"})
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([=] {
        Process process(rank, 2, port);
        process.options.job = job;
        process.options.num_ports = 8;
        ASSERT_OK(process.join());
        ASSERT_OK(process.group(0, {0, 1}));
        const Bytes sent(1, static_cast<uint8_t>(*job));
        Bytes received(2);
        EXPECT_OK(process.exchange(sent, 0, received));
        EXPECT_EQ(received, Bytes(2, static_cast<uint8_t>(*job)));
        EXPECT_OK(process.leave());
      });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
