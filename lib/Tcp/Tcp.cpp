//===- Tcp.cpp - groups of processes that know a host and a port ----------===//
//
// Every process has a connection to every other: process 0 listens where all
// know it, hears from each where that one listens, and tells all. A connection
// for each pair names who is missing, and a process that dies closes all its
// connections, which the others see at once.
//
// Each connection begins with two Hellos, and a proof of both sides that they
// have the job's secret: a keyed digest of both Hellos. So a rank is who proved
// to be it, and no other program can take its place or read what ranks send.
// What follows on a connection is neither encrypted nor signed.
//
// Messages between two processes come in the order they were sent, so a group
// is a list of ranks and a tag in front of each message, which only shows that
// both sides mean the same group.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_tcp.h"

#include "Core/GroupMembers.h"
#include "Support/Sha256.h"

#include <asio.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/random.h>
#include <thread>
#include <vector>

using namespace te::rt;
using te::support::Digest;

namespace {

using Clock = std::chrono::steady_clock;
using asio::ip::tcp;
using Error = asio::error_code;

constexpr int32_t kJobTag = -1; // te_tcp_destroy's

/// What a process says first to another, and hears back. Of one byte order and
/// one layout: all processes run this library.
struct Hello {
  char magic[8] = {'t', 'e', '-', 't', 'c', 'p', '2', '\n'};
  uint64_t job = 0;
  int32_t size = 0, rank = 0;
  int32_t port = 0; // where the sender listens
  int32_t unused = 0;
  /// New for each connection: an old proof is no proof.
  uint8_t nonce[32] = {};

  bool isOf(const Hello &other) const {
    return std::memcmp(magic, other.magic, sizeof(magic)) == 0 &&
           job == other.job;
  }
};

/// Who proves that it has the secret: a proof of one side is none of the other.
enum class Side : char { Dialled = 'd', Accepted = 'a' };

/// The proof of one side of a connection on which these Hellos were said.
Digest proofOf(Side side, const std::string &secret, const Hello &dialled,
               const Hello &accepted) {
  char text[1 + 2 * sizeof(Hello)] = {static_cast<char>(side)};
  std::memcpy(text + 1, &dialled, sizeof(Hello));
  std::memcpy(text + 1 + sizeof(Hello), &accepted, sizeof(Hello));
  return te::support::hmacSha256(secret.data(), secret.size(), text,
                                 sizeof(text));
}

/// The answer to a Hello.
struct Reply {
  Hello hello;
  Digest proof = {};
};

/// Where a process listens, as process 0 sees it.
struct Address {
  char host[64] = "";
  int32_t port = 0;
};

struct Header {
  int32_t tag, unused;
  int64_t bytes;
};

/// How long a connection may take to say who it is, and how long this process
/// waits for an answer before it dials again.
constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kAnswer = std::chrono::seconds(3);
/// Connections that have not said who they are, at one time.
constexpr size_t kMaxGuests = 256;
constexpr int32_t kMaxSize = 1 << 16;
constexpr int64_t kMaxTimeout = int64_t{365} * 24 * 3600 * 1000;
constexpr size_t kMinSecret = 16;

Clock::time_point deadlineIn(int64_t milliseconds) {
  return Clock::now() + std::chrono::milliseconds(
                            std::clamp<int64_t>(milliseconds, 0, kMaxTimeout));
}

/// Whether the text is an address of this host that no other host can reach.
bool isLoopback(const std::string &host) {
  Error error;
  const auto address = asio::ip::make_address(host, error);
  return host == "localhost" || (!error && address.is_loopback());
}

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
  std::string secret;
  /// Connections of the job that did not prove that they have the secret.
  int strangers = 0;
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
  /// Closes all connections, and ends what was begun on them.
  void abandon() noexcept {
    Error ignored;
    for (const auto &peer : peers)
      if (peer)
        peer->close(ignored);
    finish();
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

  /// Runs what is left of operations whose sockets are closed.
  void finish() noexcept {
    io.restart();
    for (bool more = true; more;)
      try {
        more = io.run_one() != 0;
      } catch (const std::exception &) {
        // A handler without memory; its operation has ended.
      }
  }

  /// Listens at the first of these addresses that is one of this host.
  static Error listen(tcp::acceptor &acceptor,
                      const std::vector<asio::ip::address> &addresses,
                      int port);
  /// A Hello for a new connection.
  Hello newHello() const;

  /// A connection that did not say yet who it is.
  struct Guest {
    explicit Guest(tcp::socket socket)
        : socket(std::move(socket)), timer(this->socket.get_executor()) {}
    tcp::socket socket;
    asio::steady_timer timer;
    Hello hello;
    Reply reply;
    Digest proof = {};
  };
  using GuestPointer = std::shared_ptr<Guest>;
  /// Takes what connects, all at the same time, until all processes of higher
  /// ranks have proved who they are; `admitted` is called for each, and false
  /// ends it. Nothing is said of who is no process of the job.
  template <typename Admitted>
  Error acceptAll(tcp::acceptor &acceptor, Clock::time_point deadline,
                  Admitted admitted);
  template <typename Done> void greet(const GuestPointer &guest, Done done);

  /// Connects to process `peer` and exchanges Hellos and proofs; null if
  /// somebody else answers. `listening` is called with the connection, before
  /// anything is said on it. On the loopback device somebody else can be this
  /// process itself, when nobody listens yet.
  template <typename Listening>
  std::unique_ptr<tcp::socket> dial(const std::string &host, int port, int peer,
                                    Clock::time_point deadline,
                                    Listening listening);
  /// Processes from rank `first` on that are not connected.
  std::vector<int> absent(int first = 0) const {
    std::vector<int> ranks;
    for (int r = first; r < size; ++r)
      if (r != rank && !peers[static_cast<size_t>(r)])
        ranks.push_back(r);
    return ranks;
  }
};

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

Error te_tcp::listen(tcp::acceptor &acceptor,
                     const std::vector<asio::ip::address> &addresses,
                     int port) {
  Error error = std::make_error_code(std::errc::address_not_available);
  Error ignored;
  for (const asio::ip::address &address : addresses) {
    const tcp::endpoint endpoint(address,
                                 static_cast<asio::ip::port_type>(port));
    acceptor.close(ignored);
    acceptor.open(endpoint.protocol(), error);
    if (!error)
      acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error)
      acceptor.bind(endpoint, error);
    if (!error)
      acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error || error == asio::error::address_in_use)
      break;
  }
  if (error)
    acceptor.close(ignored);
  return error;
}

Hello te_tcp::newHello() const {
  Hello hello = self;
  for (size_t filled = 0; filled < sizeof(hello.nonce);) {
    const ssize_t got =
        getrandom(hello.nonce + filled, sizeof(hello.nonce) - filled, 0);
    if (got < 0 && errno != EINTR)
      throw std::runtime_error("the system gives no random numbers");
    filled += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return hello;
}

/// Reads the guest's Hello, answers it and reads its proof; `done` is called
/// once it has proved to be a process of the job. Its socket closes otherwise.
template <typename Done>
void te_tcp::greet(const GuestPointer &guest, Done done) {
  guest->timer.expires_after(kPatience);
  guest->timer.async_wait([guest](const Error &error) {
    if (!error)
      close(guest->socket);
  });
  asio::async_read(
      guest->socket, asio::buffer(&guest->hello, sizeof(Hello)),
      [this, guest, done](const Error &error, size_t) {
        const Hello &theirs = guest->hello;
        if (error || !theirs.isOf(self) || theirs.rank <= rank)
          return guest->timer.cancel(), close(guest->socket);
        guest->reply.hello = newHello();
        guest->reply.proof =
            proofOf(Side::Accepted, secret, theirs, guest->reply.hello);
        asio::async_write(guest->socket,
                          asio::buffer(&guest->reply, sizeof(Reply)),
                          [](const Error &, size_t) {});
        asio::async_read(guest->socket, asio::buffer(guest->proof),
                         [this, guest, done](const Error &proofError, size_t) {
                           guest->timer.cancel();
                           const bool hasSecret =
                               !proofError &&
                               te::support::sameDigest(
                                   guest->proof,
                                   proofOf(Side::Dialled, secret, guest->hello,
                                           guest->reply.hello));
                           if (!hasSecret) {
                             ++strangers;
                             return close(guest->socket);
                           }
                           done(guest);
                         });
      });
}

template <typename Admitted>
Error te_tcp::acceptAll(tcp::acceptor &acceptor, Clock::time_point deadline,
                        Admitted admitted) {
  std::vector<std::weak_ptr<Guest>> guests;
  bool goesOn = true;
  const auto admit = [&](const GuestPointer &guest) {
    const int32_t theirs = guest->hello.rank;
    // One that comes twice has its first connection still.
    if (theirs < size && peers[static_cast<size_t>(theirs)])
      return close(guest->socket);
    goesOn = admitted(guest->hello, guest->socket);
    if (!goesOn)
      return close(guest->socket);
    Error ignored;
    guest->socket.set_option(tcp::no_delay(true), ignored);
    peers[static_cast<size_t>(theirs)] =
        std::make_unique<tcp::socket>(std::move(guest->socket));
  };
  const std::function<void()> acceptNext = [&] {
    acceptor.async_accept([&](const Error &error, tcp::socket socket) {
      if (error == asio::error::operation_aborted)
        return;
      std::erase_if(guests, [](const auto &guest) { return guest.expired(); });
      if (!error && guests.size() < kMaxGuests) {
        const auto guest = std::make_shared<Guest>(std::move(socket));
        guests.push_back(guest);
        greet(guest, admit);
      }
      acceptNext();
    });
  };
  // What was begun refers to what is on this stack.
  const auto end = [&](te_tcp *job) {
    Error ignored;
    acceptor.close(ignored);
    for (const auto &guest : guests)
      if (const GuestPointer alive = guest.lock()) {
        alive->timer.cancel();
        close(alive->socket);
      }
    job->finish();
  };
  const std::unique_ptr<te_tcp, decltype(end)> ending(this, end);
  io.restart();
  acceptNext();
  while (goesOn && !absent(rank + 1).empty())
    if (io.run_one_until(deadline) == 0)
      return asio::error::timed_out;
  return {};
}

template <typename Listening>
std::unique_ptr<tcp::socket> te_tcp::dial(const std::string &host, int port,
                                          int peer, Clock::time_point deadline,
                                          Listening listening) {
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
          [&] { close(*socket); }) ||
      !listening(*socket))
    return nullptr;
  const Hello hello = newHello();
  Reply reply;
  const auto later = std::min(deadline, Clock::now() + kAnswer);
  if (write(*socket, asio::buffer(&hello, sizeof(hello)), later) ||
      read(*socket, asio::buffer(&reply, sizeof(reply)), later) ||
      !reply.hello.isOf(self) || reply.hello.rank != peer)
    return nullptr;
  if (!te::support::sameDigest(
          reply.proof, proofOf(Side::Accepted, secret, hello, reply.hello))) {
    ++strangers;
    return nullptr;
  }
  const Digest proof = proofOf(Side::Dialled, secret, hello, reply.hello);
  if (write(*socket, asio::buffer(proof), later))
    return nullptr;
  socket->set_option(tcp::no_delay(true), error);
  return socket;
}

te_rt_status te_tcp::connect(const te_tcp_options &options, char *message) {
  const auto deadline = deadlineIn(options.timeout_ms);
  size = options.size;
  rank = options.rank;
  secret = options.secret ? options.secret : "";
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
    std::string why =
        text + " in time (" + std::to_string(options.timeout_ms) + " ms)";
    if (strangers != 0)
      why += "; " + std::to_string(strangers) +
             (strangers == 1 ? " connection" : " connections") +
             " of this job did not prove to have its secret";
    return say(message, why, TE_RT_TIMED_OUT);
  };
  const auto cannotListen = [&](const std::string &where, const Error &error) {
    return say(message, "cannot listen at " + where + ": " + error.message(),
               TE_RT_UNSUPPORTED);
  };

  tcp::acceptor acceptor(io);
  std::vector<Address> addresses(static_cast<size_t>(size));
  const auto table =
      asio::buffer(addresses.data(), addresses.size() * sizeof(Address));
  if (rank == 0) {
    std::vector<asio::ip::address> own;
    Error error;
    for (const auto &entry : tcp::resolver(io).resolve(options.host, "", error))
      // A host may know its own name as an address that others cannot reach.
      if (isLoopback(options.host) || !entry.endpoint().address().is_loopback())
        own.push_back(entry.endpoint().address());
    if (!error)
      error = asio::error::address_in_use;
    for (int i = 0;
         i < options.num_ports && error == asio::error::address_in_use; ++i)
      error = listen(acceptor, own, options.port + i);
    if (error)
      return cannotListen("'" + std::string(options.host) + "', port " + range +
                              ", which process 0 has to do; the job's address "
                              "has to be one of its host",
                          error);
    self.port = acceptor.local_endpoint(error).port();
    std::string wrong;
    const auto note = [&](const Hello &hello, const tcp::socket &socket) {
      if (hello.size != size) {
        wrong = "expected all processes to be one of " + std::to_string(size) +
                ", but rank " + std::to_string(hello.rank) + " is one of " +
                std::to_string(hello.size);
        return false;
      }
      Error ignored;
      Address &address = addresses[static_cast<size_t>(hello.rank)];
      std::snprintf(
          address.host, sizeof(address.host), "%s",
          socket.remote_endpoint(ignored).address().to_string().c_str());
      address.port = hello.port;
      return true;
    };
    const int port = self.port;
    if (acceptAll(acceptor, deadline, note))
      return late(listOf(absent()) + " of " + std::to_string(size) +
                  " did not connect to port " + std::to_string(port));
    if (!wrong.empty())
      return say(message, wrong);
    for (int r = 1; r < size; ++r)
      if (write(*peers[static_cast<size_t>(r)], table, deadline))
        return late("rank " + std::to_string(r) + " did not listen");
    return TE_RT_OK;
  }

  // Where this process reaches process 0, the others reach it.
  Error listenError;
  const auto listenBeside = [&](tcp::socket &socket) {
    if (!acceptor.is_open() &&
        !(listenError = listen(
              acceptor, {socket.local_endpoint(listenError).address()}, 0)))
      self.port = acceptor.local_endpoint(listenError).port();
    return !listenError;
  };
  const auto asBefore = [](tcp::socket &) { return true; };
  for (int i = 0; !peers[0]; i = (i + 1) % options.num_ports) {
    peers[0] = dial(options.host, options.port + i, /*peer=*/0, deadline,
                    listenBeside);
    if (listenError)
      return cannotListen("the address that reaches process 0", listenError);
    if (!peers[0] && Clock::now() >= deadline)
      return late("process 0 was not found at " + std::string(options.host) +
                  ", port " + range + ",");
    if (!peers[0] && i + 1 == options.num_ports)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (read(*peers[0], table, deadline))
    return late("other processes did not all come to rank 0");
  for (int r = 1; r < rank; ++r) {
    Address &address = addresses[static_cast<size_t>(r)];
    address.host[sizeof(address.host) - 1] = '\0';
    if (address.port < 1 || address.port > 65535)
      return say(message, "expected process 0 to say where rank " +
                              std::to_string(r) + " listens, but got port " +
                              std::to_string(address.port));
    std::unique_ptr<tcp::socket> &peer = peers[static_cast<size_t>(r)];
    while (!(peer = dial(address.host, address.port, r, deadline, asBefore)))
      if (Clock::now() >= deadline)
        return late("rank " + std::to_string(r) + " was not found at " +
                    address.host + ", port " + std::to_string(address.port) +
                    ",");
  }
  if (acceptAll(acceptor, deadline,
                [&](const Hello &hello, const tcp::socket &) {
                  return hello.rank < size;
                }))
    return late(listOf(absent()) + " did not connect");
  return absent().empty()
             ? TE_RT_OK
             : say(message, "a process of another size of the job connected");
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
  const auto deadline = deadlineIn(timeout);
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
  // Operations refer to what is on this stack, also if an exception ends it.
  bool isOver = false;
  const auto end = [&](te_tcp *job) {
    if (isOver)
      return;
    job->broken.assign("closed");
    job->abandon();
  };
  const std::unique_ptr<te_tcp, decltype(end)> ending(this, end);
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
  isOver = pending == 0 && !failed;
  if (isOver)
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
  abandon();
  isOver = true;
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
  } catch (const std::bad_alloc &) {
    return say(message, "out of memory", TE_RT_OUT_OF_MEMORY);
  } catch (const std::exception &exception) {
    return say(message, exception.what(), TE_RT_INTERNAL);
  }
}

/// Runs an entry point's body.
template <typename Body>
static te_rt_status guarded(char *message, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return say(message, "out of memory", TE_RT_OUT_OF_MEMORY);
  } catch (const std::exception &exception) {
    return say(message, exception.what(), TE_RT_INTERNAL);
  }
}

/// What is wrong with `options`, or "".
static std::string checkOptions(const te_tcp_options &options) {
  if (std::string null =
          firstNull({{"host", options.host}, {"job", options.job}});
      !null.empty())
    return null;
  if (options.size < 1 || options.size > kMaxSize || options.rank < 0 ||
      options.rank >= options.size)
    return "expected 'rank' to be from 0 to below 'size', and that to be at "
           "most " +
           std::to_string(kMaxSize) + ", but got " +
           std::to_string(options.rank) + " and " +
           std::to_string(options.size);
  if (options.port < 1 || options.port > 65535 || options.num_ports < 1 ||
      options.num_ports > 65536 - options.port)
    return "expected 'num_ports' ports from 'port' on to be from 1 to 65535, "
           "but got " +
           std::to_string(options.num_ports) + " from " +
           std::to_string(options.port) + " on";
  if (options.secret && std::strlen(options.secret) < kMinSecret)
    return "expected 'secret' to have " + std::to_string(kMinSecret) +
           " bytes or more, but got " +
           std::to_string(std::strlen(options.secret));
  if (!options.secret && options.size > 1 && !isLoopback(options.host))
    return "expected 'secret' for a job that other hosts can reach, at '" +
           std::string(options.host) + "', but got none";
  return "";
}

te_rt_status te_tcp_create(const te_tcp_options *options, te_tcp **result,
                           char *message) {
  return guarded(message, [&] {
    if (result)
      *result = nullptr;
    std::string wrong = firstNull({{"options", options}, {"tcp", result}});
    if (wrong.empty())
      wrong = checkOptions(*options);
    if (!wrong.empty())
      return say(message, wrong);
    auto job = std::make_unique<te_tcp>();
    const te_rt_status status = job->connect(*options, message);
    if (status == TE_RT_OK)
      *result = job.release();
    return status;
  });
}

te_rt_status te_tcp_destroy(te_tcp *job, int64_t timeout, char *message) {
  const std::unique_ptr<te_tcp> owner(job);
  return guarded(message, [&] {
    if (!job)
      return TE_RT_OK;
    te_tcp::Group all = {job, kJobTag, {}, job->rank};
    for (int r = 0; r < job->size; ++r)
      all.ranks.push_back(r);
    std::vector<char> received(static_cast<size_t>(job->size));
    return exchange(&all, "", 0, received.data(), 1, timeout, message);
  });
}

te_rt_status te_tcp_communicator(te_tcp *job, int32_t tag, const int32_t *ranks,
                                 int32_t size, te_rt_communicator *communicator,
                                 char *message) {
  return guarded(message, [&] {
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
  });
}
