//===- Tcp.cpp - groups of processes that know a host and a port ----------===//
//
// Every process has a connection to every other: process 0 listens where all
// know it, hears from each where that one listens, and tells all. A connection
// for each pair names who is missing, and a process that dies closes all its
// connections, which the others see at once.
//
// Messages between two processes come in the order they were sent, so a group
// is a list of ranks and a tag in front of each message, which only shows that
// both sides mean the same group.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_tcp.h"

#include "Core/GroupMembers.h"

#include <asio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace te::rt;

namespace {

using Clock = std::chrono::steady_clock;
using asio::ip::tcp;
using Error = asio::error_code;

constexpr int32_t kJobTag = -1; // te_tcp_destroy's

/// What a process says first to another, and hears back. Of one byte order and
/// one layout: all processes run this library.
struct Hello {
  char magic[8] = {'t', 'e', '-', 't', 'c', 'p', '1', '\n'};
  uint64_t job = 0;
  int32_t size = 0, rank = 0;
  int32_t port = 0; // where the sender listens
  int32_t unused = 0;

  bool isOf(const Hello &other) const {
    return std::memcmp(magic, other.magic, sizeof(magic)) == 0 &&
           job == other.job;
  }
  /// Whether it is what `process` of the same job says.
  bool isOf(const Hello &other, int process) const {
    return isOf(other) && rank == process;
  }
};

/// Where a process listens, as process 0 sees it; an empty host is process 0's.
struct Address {
  char host[64] = "";
  int32_t port = 0;
};

struct Header {
  int32_t tag, unused;
  int64_t bytes;
};

uint64_t hashOf(const char *text) {
  uint64_t hash = 14695981039346656037u;
  for (; *text; ++text)
    hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211u;
  return hash;
}

} // namespace

struct te_tcp {
  asio::io_context io;
  int size = 0, rank = 0;
  Hello self;
  /// By rank; none for this process.
  std::vector<std::unique_ptr<tcp::socket>> peers;
  /// An exchange that failed leaves half messages behind.
  std::string broken;

  struct Group {
    te_tcp *job;
    int32_t tag;
    std::vector<int> ranks;
    int self;
  };
  std::vector<std::unique_ptr<Group>> groups;

  te_rt_status connect(const te_tcp_options &options, char *message);
  te_rt_status exchange(const Group &group, const char *send, int64_t stride,
                        char *receive, int64_t bytes, int64_t timeout,
                        char *message);
  void closeAll() {
    Error ignored;
    for (const auto &peer : peers)
      if (peer)
        peer->close(ignored);
  }

private:
  /// Runs what `start` begins, which has to call its argument with the outcome;
  /// at the deadline `cancel` ends it.
  template <typename Start, typename Cancel>
  Error wait(Clock::time_point deadline, Start start, Cancel cancel) {
    Error result = asio::error::would_block;
    bool done = false;
    io.restart();
    start([&](const Error &error, auto &&...) {
      result = error;
      done = true;
    });
    while (!done && io.run_one_until(deadline) != 0) {
    }
    if (done)
      return result;
    cancel();
    io.restart();
    while (!done && io.run_one() != 0) {
    }
    return asio::error::timed_out;
  }
  template <typename Buffers>
  Error read(tcp::socket &socket, const Buffers &buffers,
             Clock::time_point deadline) {
    return wait(
        deadline,
        [&](auto done) { asio::async_read(socket, buffers, std::move(done)); },
        [&] { close(socket); });
  }
  template <typename Buffers>
  Error write(tcp::socket &socket, const Buffers &buffers,
              Clock::time_point deadline) {
    return wait(
        deadline,
        [&](auto done) { asio::async_write(socket, buffers, std::move(done)); },
        [&] { close(socket); });
  }
  static void close(tcp::socket &socket) {
    Error ignored;
    socket.close(ignored);
  }

  Error listen(tcp::acceptor &acceptor, int port);
  /// One process that says a fitting Hello and has a higher rank than this one,
  /// or none by the deadline. One that comes again replaces its first
  /// connection.
  Error accept(tcp::acceptor &acceptor, Clock::time_point deadline,
               Hello &hello);
  /// Connects to process `peer` and exchanges Hellos; null if somebody else
  /// answers. On the loopback device that can be this process itself, when
  /// nobody listens yet.
  std::unique_ptr<tcp::socket> dial(const std::string &host, int port, int peer,
                                    Clock::time_point deadline);
  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r)
      if (r != rank && !peers[static_cast<size_t>(r)])
        ranks.push_back(r);
    return ranks;
  }
};

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

Error te_tcp::listen(tcp::acceptor &acceptor, int port) {
  Error error;
  for (const tcp &protocol : {tcp::v6(), tcp::v4()}) {
    acceptor.close(error);
    acceptor.open(protocol, error);
    if (error)
      continue;
    if (protocol == tcp::v6())
      acceptor.set_option(asio::ip::v6_only(false), error);
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor.bind({protocol, static_cast<asio::ip::port_type>(port)}, error);
    if (!error)
      acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error || error == asio::error::address_in_use)
      break;
  }
  return error;
}

Error te_tcp::accept(tcp::acceptor &acceptor, Clock::time_point deadline,
                     Hello &hello) {
  for (;;) {
    auto socket = std::make_unique<tcp::socket>(io);
    if (Error error = wait(
            deadline,
            [&](auto done) { acceptor.async_accept(*socket, std::move(done)); },
            [&] {
              Error ignored;
              acceptor.cancel(ignored);
            }))
      return error;
    // Who is not one of us may say nothing at all.
    const auto soon =
        std::min(deadline, Clock::now() + std::chrono::seconds(2));
    if (read(*socket, asio::buffer(&hello, sizeof(hello)), soon) ||
        !hello.isOf(self) || hello.rank <= rank || hello.rank >= size ||
        write(*socket, asio::buffer(&self, sizeof(self)), soon))
      continue;
    Error ignored;
    socket->set_option(tcp::no_delay(true), ignored);
    peers[static_cast<size_t>(hello.rank)] = std::move(socket);
    return {};
  }
}

std::unique_ptr<tcp::socket> te_tcp::dial(const std::string &host, int port,
                                          int peer,
                                          Clock::time_point deadline) {
  tcp::resolver resolver(io);
  Error error;
  // The system's resolver has limits of its own.
  const auto endpoints = resolver.resolve(host, std::to_string(port), error);
  if (error)
    return nullptr;
  auto socket = std::make_unique<tcp::socket>(io);
  const auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(2));
  if (wait(
          soon,
          [&](auto done) {
            asio::async_connect(*socket, endpoints, std::move(done));
          },
          [&] { close(*socket); }))
    return nullptr;
  // Process 0 may be busy with another one.
  Hello hello;
  if (write(*socket, asio::buffer(&self, sizeof(self)), deadline) ||
      read(*socket, asio::buffer(&hello, sizeof(hello)),
           std::min(deadline, Clock::now() + std::chrono::seconds(10))) ||
      !hello.isOf(self, peer))
    return nullptr;
  socket->set_option(tcp::no_delay(true), error);
  return socket;
}

te_rt_status te_tcp::connect(const te_tcp_options &options, char *message) {
  const auto deadline =
      Clock::now() + std::chrono::milliseconds(options.timeout_ms);
  size = options.size;
  rank = options.rank;
  peers.resize(static_cast<size_t>(size));
  self.job = hashOf(options.job);
  self.size = size;
  self.rank = rank;
  if (size == 1)
    return TE_RT_OK;

  const std::string range =
      options.num_ports == 1
          ? std::to_string(options.port)
          : std::to_string(options.port) + " to " +
                std::to_string(options.port + options.num_ports - 1);
  const auto late = [&](const std::string &text) {
    say(message,
        text + " in time (" + std::to_string(options.timeout_ms) + " ms)");
    return TE_RT_TIMED_OUT;
  };

  tcp::acceptor acceptor(io);
  Error error = asio::error::address_in_use;
  if (rank == 0) {
    for (int i = 0; i < options.num_ports && error; ++i)
      error = listen(acceptor, options.port + i);
    if (error) {
      say(message,
          "process 0 cannot listen on port " + range + ": " + error.message());
      return TE_RT_UNSUPPORTED;
    }
  } else if ((error = listen(acceptor, 0))) {
    say(message, "cannot listen: " + error.message());
    return TE_RT_UNSUPPORTED;
  }
  self.port = acceptor.local_endpoint(error).port();

  std::vector<Address> addresses(static_cast<size_t>(size));
  const auto table =
      asio::buffer(addresses.data(), addresses.size() * sizeof(Address));
  if (rank == 0) {
    while (!absent().empty()) {
      Hello hello;
      if (accept(acceptor, deadline, hello))
        return late(listOf(absent()) + " of " + std::to_string(size) +
                    " did not connect to port " + std::to_string(self.port));
      if (hello.size != size) {
        say(message, "expected all processes to be one of " +
                         std::to_string(size) + ", but rank " +
                         std::to_string(hello.rank) + " is one of " +
                         std::to_string(hello.size));
        return TE_RT_INVALID_ARGUMENT;
      }
      Address &address = addresses[static_cast<size_t>(hello.rank)];
      const auto from =
          peers[static_cast<size_t>(hello.rank)]->remote_endpoint(error);
      // The others would take its loopback address for their own.
      if (!error && !from.address().is_loopback() &&
          !(from.address().is_v6() && from.address().to_v6().is_v4_mapped() &&
            asio::ip::make_address_v4(asio::ip::v4_mapped,
                                      from.address().to_v6())
                .is_loopback()))
        std::snprintf(address.host, sizeof(address.host), "%s",
                      from.address().to_string().c_str());
      address.port = hello.port;
    }
    for (int r = 1; r < size; ++r)
      if (write(*peers[static_cast<size_t>(r)], table, deadline))
        return late("rank " + std::to_string(r) + " did not listen");
    return TE_RT_OK;
  }

  for (int i = 0; !peers[0]; i = (i + 1) % options.num_ports) {
    peers[0] = dial(options.host, options.port + i, /*peer=*/0, deadline);
    if (!peers[0] && Clock::now() >= deadline)
      return late("process 0 was not found at " + std::string(options.host) +
                  ", port " + range + ",");
    if (!peers[0] && i + 1 == options.num_ports)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (read(*peers[0], table, deadline))
    return late("other processes did not all come to rank 0");
  for (int r = 1; r < rank; ++r) {
    const Address &address = addresses[static_cast<size_t>(r)];
    const std::string host = address.host[0] ? address.host : options.host;
    std::unique_ptr<tcp::socket> &peer = peers[static_cast<size_t>(r)];
    while (!(peer = dial(host, address.port, r, deadline)))
      if (Clock::now() >= deadline)
        return late("rank " + std::to_string(r) + " was not found at " + host +
                    ", port " + std::to_string(address.port) + ",");
  }
  while (!absent().empty()) {
    Hello hello;
    if (accept(acceptor, deadline, hello))
      return late(listOf(absent()) + " did not connect");
  }
  return TE_RT_OK;
}

//===----------------------------------------------------------------------===//
// Talking
//===----------------------------------------------------------------------===//

te_rt_status te_tcp::exchange(const Group &group, const char *send,
                              int64_t stride, char *receive, int64_t bytes,
                              int64_t timeout, char *message) {
  if (!broken.empty()) {
    say(message, broken);
    return TE_RT_TIMED_OUT;
  }
  const size_t count = group.ranks.size();
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout);
  const Header sent = {group.tag, 0, bytes};
  std::vector<Header> headers(count);
  struct Progress {
    bool wrote = false, read = false;
    Error error;
  };
  std::vector<Progress> progress(count);
  size_t pending = 0;
  bool failed = false;
  const auto piece = static_cast<size_t>(bytes);
  io.restart();
  for (size_t r = 0; r < count; ++r) {
    char *const to = receive + static_cast<int64_t>(r) * bytes;
    const char *const from = send + static_cast<int64_t>(r) * stride;
    if (static_cast<int>(r) == group.self) {
      if (piece)
        std::memmove(to, from, piece);
      continue;
    }
    tcp::socket &socket = *peers[static_cast<size_t>(group.ranks[r])];
    pending += 2;
    const std::array<asio::const_buffer, 2> out = {
        asio::buffer(&sent, sizeof(sent)), asio::buffer(from, piece)};
    asio::async_write(socket, out, [&, r](const Error &error, size_t) {
      --pending;
      progress[r].wrote = !error;
      if (error && !progress[r].error)
        progress[r].error = error;
      failed |= bool(error);
    });
    asio::async_read(
        socket, asio::buffer(&headers[r], sizeof(Header)),
        [&, r, to](const Error &error, size_t) {
          const Header &header = headers[r];
          if (!error && header.tag == sent.tag && header.bytes == bytes) {
            asio::async_read(*peers[static_cast<size_t>(group.ranks[r])],
                             asio::buffer(to, piece),
                             [&, r](const Error &bodyError, size_t) {
                               --pending;
                               progress[r].read = !bodyError;
                               if (bodyError && !progress[r].error)
                                 progress[r].error = bodyError;
                               failed |= bool(bodyError);
                             });
            return;
          }
          --pending;
          failed = true;
          if (!progress[r].error)
            progress[r].error = error ? error : asio::error::invalid_argument;
        });
  }
  while (pending != 0 && !failed && io.run_one_until(deadline) != 0) {
  }
  if (pending == 0 && !failed)
    return TE_RT_OK;
  // All that died at once is named at once.
  const auto moment = Clock::now() + std::chrono::milliseconds(50);
  while (failed && pending != 0 && io.run_one_until(moment) != 0) {
  }
  std::vector<int> gone, missing;
  std::string text;
  for (size_t r = 0; r < count; ++r) {
    if (static_cast<int>(r) == group.self)
      continue;
    const Error error = progress[r].error;
    if (error == asio::error::invalid_argument)
      text = "rank " + std::to_string(r) + " is at another collective";
    else if (error)
      gone.push_back(static_cast<int>(r));
    else if (!progress[r].wrote || !progress[r].read)
      missing.push_back(static_cast<int>(r));
  }
  // The operations that are left refer to what is on this stack.
  closeAll();
  io.restart();
  while (pending != 0 && io.run_one() != 0) {
  }
  if (!gone.empty())
    text = listOf(gone) + (gone.size() == 1 ? " has" : " have") +
           " closed the connection: the process ended";
  else if (text.empty())
    text = listOf(missing) + " did not come in time (" +
           std::to_string(timeout) + " ms)";
  broken = "the connections were closed after an error: " + text;
  say(message, text);
  return TE_RT_TIMED_OUT;
}

static te_rt_status exchange(void *user, const void *send, int64_t stride,
                             void *receive, int64_t bytes, int64_t timeout,
                             char *message) {
  try {
    const auto &group = *static_cast<te_tcp::Group *>(user);
    return group.job->exchange(group, static_cast<const char *>(send), stride,
                               static_cast<char *>(receive), bytes, timeout,
                               message);
  } catch (const std::exception &exception) {
    say(message, exception.what());
    return TE_RT_INTERNAL;
  }
}

te_rt_status te_tcp_create(const te_tcp_options *options, te_tcp **result,
                           char *message) {
  if (result)
    *result = nullptr;
  const auto refuse = [&](const std::string &text) {
    return say(message, text);
  };
  if (std::string null = firstNull({{"options", options}, {"tcp", result}});
      !null.empty())
    return refuse(null);
  if (std::string null =
          firstNull({{"host", options->host}, {"job", options->job}});
      !null.empty())
    return refuse(null);
  if (options->size < 1 || options->rank < 0 || options->rank >= options->size)
    return refuse("expected 'rank' to be from 0 to below 'size', but got " +
                  std::to_string(options->rank) + " and " +
                  std::to_string(options->size));
  if (options->port < 1 || options->num_ports < 1 ||
      options->port + options->num_ports > 65536)
    return refuse("expected 'num_ports' ports from 'port' on to be from 1 to "
                  "65535, but got " +
                  std::to_string(options->num_ports) + " from " +
                  std::to_string(options->port) + " on");
  try {
    auto job = std::make_unique<te_tcp>();
    const te_rt_status status = job->connect(*options, message);
    if (status == TE_RT_OK)
      *result = job.release();
    return status;
  } catch (const std::exception &exception) {
    say(message, exception.what());
    return TE_RT_INTERNAL;
  }
}

te_rt_status te_tcp_destroy(te_tcp *job, int64_t timeout, char *message) {
  if (!job)
    return TE_RT_OK;
  te_tcp::Group all = {job, kJobTag, {}, job->rank};
  for (int r = 0; r < job->size; ++r)
    all.ranks.push_back(r);
  std::vector<char> received(static_cast<size_t>(job->size));
  const te_rt_status status =
      exchange(&all, "", 0, received.data(), 1, timeout, message);
  delete job;
  return status;
}

te_rt_status te_tcp_communicator(te_tcp *job, int32_t tag, const int32_t *ranks,
                                 int32_t size, te_rt_communicator *communicator,
                                 char *message) {
  if (std::string null =
          firstNull({{"tcp", job}, {"communicator", communicator}});
      !null.empty())
    return say(message, null);
  if (tag < 0)
    return say(message, "expected 'tag' to be zero or more, but got " +
                            std::to_string(tag));
  GroupMembers members;
  if (te_rt_status status =
          readMembers(ranks, size, job->size, job->rank, &members, message))
    return status;
  job->groups.push_back(std::make_unique<te_tcp::Group>(
      te_tcp::Group{job, tag, std::move(members.ranks), members.self}));
  *communicator = {size, members.self, job->groups.back().get(), exchange};
  return TE_RT_OK;
}
