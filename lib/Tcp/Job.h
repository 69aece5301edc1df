//===- Job.h - the connections of a process to the others of a job --------===//
//
// See Tcp.cpp. Join.cpp makes them, Tcp.cpp uses them.
//
//===----------------------------------------------------------------------===//

#ifndef TE_TCP_JOB_H
#define TE_TCP_JOB_H

#include "TEDialect/Runtime/te_runtime_tcp.h"

#include "Support/Sha256.h"

#include <asio.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace te::jobs {

using Clock = std::chrono::steady_clock;
using asio::ip::tcp;
using Error = asio::error_code;
using support::Digest;

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

inline Clock::time_point deadlineIn(int64_t milliseconds) {
  constexpr int64_t kMost = int64_t{365} * 24 * 3600 * 1000;
  return Clock::now() +
         std::chrono::milliseconds(std::clamp<int64_t>(milliseconds, 0, kMost));
}

/// Whether the text is an address of this host that no other host can reach.
inline bool isLoopback(const std::string &host) {
  Error error;
  const auto address = asio::ip::make_address(host, error);
  return host == "localhost" || (!error && address.is_loopback());
}

} // namespace te::jobs

struct te_tcp {
  using Clock = te::jobs::Clock;
  using tcp = te::jobs::tcp;
  using Error = te::jobs::Error;
  using Hello = te::jobs::Hello;

  asio::io_context io;
  int size = 0, rank = 0;
  Hello self;
  std::string secret;
  /// Whether the job is on a loopback address.
  bool isLocal = false;
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

  /// Joins the job.
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

  /// The connections to a process on which nobody proved yet who they are.
  /// Those that do, and have a higher rank, become `peers`; nothing is said of
  /// others. All may be as slow as they like at the same time.
  class Reception {
  public:
    /// Called for each process of the job; false ends the reception.
    using Admitted = std::function<bool(const Hello &, const tcp::socket &)>;
    Reception(te_tcp &job, Admitted admitted);
    Reception(const Reception &) = delete;
    /// Closes what is still open.
    ~Reception();
    /// Takes all who connect.
    void acceptFrom(tcp::acceptor &from);
    void take(tcp::socket socket);
    /// Whether a process is missing that may still come.
    bool goesOn() const { return isOpen && !job.absent(job.rank + 1).empty(); }

  private:
    struct Guest;
    using GuestPointer = std::shared_ptr<Guest>;
    static void dismiss(Guest &guest);
    void greet(const GuestPointer &guest);
    void admit(Guest &guest);

    te_tcp &job;
    const Admitted admitted;
    tcp::acceptor *acceptor = nullptr;
    std::vector<std::weak_ptr<Guest>> guests;
    bool isOpen = true;
  };
  /// Exchanges Hellos and proofs on a connection that this process began;
  /// whether process `peer` of the job is at its other end.
  bool introduce(tcp::socket &socket, int peer, Clock::time_point deadline);
  /// Reads from process 0 where the others listen. What it says and cannot be
  /// is `wrong`.
  Error hear(std::vector<tcp::endpoint> &endpoints, Clock::time_point deadline,
             std::string &wrong);

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

  /// What `connect` does in process 0, and in the others.
  te_rt_status lead(const te_tcp_options &options, Clock::time_point deadline,
                    char *message);
  te_rt_status follow(const te_tcp_options &options, Clock::time_point deadline,
                      char *message);
  te_rt_status late(const te_tcp_options &options, const std::string &text,
                    char *message) const;
  /// Listens at the first of these addresses that is one of this host.
  static Error listen(tcp::acceptor &acceptor,
                      const std::vector<asio::ip::address> &addresses,
                      int port);
  /// A Hello for a new connection.
  Hello newHello() const;

  /// Takes what connects until all processes of higher ranks are there, or
  /// `admitted` is false.
  Error acceptAll(tcp::acceptor &acceptor, Clock::time_point deadline,
                  Reception::Admitted admitted);

  /// Connects to process `peer` at one of these and exchanges Hellos and
  /// proofs; null if somebody else answers. `listening` is called with the
  /// connection, before anything is said on it. On the loopback device somebody
  /// else can be this process itself, when nobody listens yet.
  template <typename Listening>
  std::unique_ptr<tcp::socket> dial(const std::vector<tcp::endpoint> &endpoints,
                                    int peer, Clock::time_point deadline,
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

#endif // TE_TCP_JOB_H
