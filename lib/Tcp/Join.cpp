//===- Join.cpp - how the processes of a job find each other --------------===//
//
// See Tcp.cpp.
//
//===----------------------------------------------------------------------===//

#include "Job.h"
#include "Secret.h"

#include "Core/GroupMembers.h"
#include "Support/Files.h"

#include <cstdio>
#include <thread>

using namespace te::rt;
using namespace te::jobs;

namespace {

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

/// How long a connection may take to say who it is, and how long this process
/// waits for an answer before it dials again.
constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kAnswer = std::chrono::seconds(3);
/// Connections that have not said who they are, at one time.
constexpr size_t kMaxGuests = 256;

/// "29500 to 29515".
std::string rangeOf(const te_tcp_options &options) {
  const std::string first = std::to_string(options.port);
  return options.num_ports == 1
             ? first
             : first + " to " +
                   std::to_string(options.port + options.num_ports - 1);
}

/// Where a name and a port lead; the system's resolver has limits of its own.
std::vector<tcp::endpoint> endpointsOf(asio::io_context &io, const char *host,
                                       int port) {
  Error error;
  std::vector<tcp::endpoint> endpoints;
  for (const auto &entry :
       tcp::resolver(io).resolve(host, std::to_string(port), error))
    endpoints.push_back(entry.endpoint());
  return endpoints;
}

te_rt_status cannotListen(const std::string &where, const Error &error,
                          char *message) {
  return say(message, "cannot listen at " + where + ": " + error.message(),
             TE_RT_UNSUPPORTED);
}

} // namespace

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
  fillRandom(hello.nonce, sizeof(hello.nonce));
  return hello;
}

/// A connection that did not say yet who it is.
struct te_tcp::Reception::Guest {
  explicit Guest(tcp::socket socket)
      : socket(std::move(socket)), timer(this->socket.get_executor()) {}
  tcp::socket socket;
  asio::steady_timer timer;
  Hello hello;
  Reply reply;
  Digest proof = {};
};

te_tcp::Reception::Reception(te_tcp &job, Admitted admitted)
    : job(job), admitted(std::move(admitted)) {
  job.io.restart();
}

te_tcp::Reception::~Reception() {
  // What was begun refers to this.
  isOpen = false;
  Error ignored;
  if (acceptor)
    acceptor->close(ignored);
  for (const auto &guest : guests)
    if (const GuestPointer alive = guest.lock())
      dismiss(*alive);
  job.finish();
}

void te_tcp::Reception::dismiss(Guest &guest) {
  guest.timer.cancel();
  close(guest.socket);
}

void te_tcp::Reception::acceptFrom(tcp::acceptor &from) {
  acceptor = &from;
  acceptor->async_accept([this](const Error &error, tcp::socket socket) {
    if (error == asio::error::operation_aborted)
      return;
    if (!error)
      take(std::move(socket));
    acceptFrom(*acceptor);
  });
}

void te_tcp::Reception::take(tcp::socket socket) {
  std::erase_if(guests, [](const auto &guest) { return guest.expired(); });
  // The oldest of too many goes: a process of the job says at once who it is.
  if (guests.size() >= kMaxGuests) {
    if (const GuestPointer oldest = guests.front().lock())
      dismiss(*oldest);
    guests.erase(guests.begin());
  }
  const auto guest = std::make_shared<Guest>(std::move(socket));
  guests.push_back(guest);
  greet(guest);
}

/// Reads the guest's Hello, answers it and reads its proof; its socket closes
/// unless it has proved to be a process of the job.
void te_tcp::Reception::greet(const GuestPointer &guest) {
  guest->timer.expires_after(kPatience);
  guest->timer.async_wait([guest](const Error &error) {
    if (!error)
      close(guest->socket);
  });
  asio::async_read(
      guest->socket, asio::buffer(&guest->hello, sizeof(Hello)),
      [this, guest](const Error &error, size_t) {
        const Hello &theirs = guest->hello;
        if (error || !theirs.isOf(job.self) || theirs.rank <= job.rank ||
            theirs.rank >= theirs.size)
          return dismiss(*guest);
        guest->reply.hello = job.newHello();
        guest->reply.proof =
            proofOf(Side::Accepted, job.secret, theirs, guest->reply.hello);
        asio::async_write(guest->socket,
                          asio::buffer(&guest->reply, sizeof(Reply)),
                          [](const Error &, size_t) {});
        asio::async_read(guest->socket, asio::buffer(guest->proof),
                         [this, guest](const Error &proofError, size_t) {
                           guest->timer.cancel();
                           const bool hasSecret =
                               !proofError &&
                               te::support::sameDigest(
                                   guest->proof,
                                   proofOf(Side::Dialled, job.secret,
                                           guest->hello, guest->reply.hello));
                           if (hasSecret)
                             return admit(*guest);
                           ++job.strangers;
                           close(guest->socket);
                         });
      });
}

void te_tcp::Reception::admit(Guest &guest) {
  const int32_t theirs = guest.hello.rank;
  // One that comes twice has its first connection still.
  if (theirs < job.size && job.peers[static_cast<size_t>(theirs)])
    return close(guest.socket);
  if (!isOpen || !admitted(guest.hello, guest.socket)) {
    isOpen = false;
    return close(guest.socket);
  }
  Error ignored;
  guest.socket.set_option(tcp::no_delay(true), ignored);
  job.peers[static_cast<size_t>(theirs)] =
      std::make_unique<tcp::socket>(std::move(guest.socket));
}

Error te_tcp::acceptAll(tcp::acceptor &acceptor, Clock::time_point deadline,
                        Reception::Admitted admitted) {
  Reception reception(*this, std::move(admitted));
  reception.acceptFrom(acceptor);
  while (reception.goesOn())
    if (io.run_one_until(deadline) == 0)
      return asio::error::timed_out;
  return {};
}

template <typename Listening>
std::unique_ptr<tcp::socket>
te_tcp::dial(const std::vector<tcp::endpoint> &endpoints, int peer,
             Clock::time_point deadline, Listening listening) {
  auto socket = std::make_unique<tcp::socket>(io);
  const auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(2));
  if (wait(
          soon,
          [&](auto done) {
            asio::async_connect(*socket, endpoints, std::move(done));
          },
          [&] { close(*socket); }) ||
      !listening(*socket) || !introduce(*socket, peer, deadline))
    return nullptr;
  Error ignored;
  socket->set_option(tcp::no_delay(true), ignored);
  return socket;
}

bool te_tcp::introduce(tcp::socket &socket, int peer,
                       Clock::time_point deadline) {
  const Hello hello = newHello();
  Reply reply;
  const auto later = std::min(deadline, Clock::now() + kAnswer);
  if (write(socket, asio::buffer(&hello, sizeof(hello)), later) ||
      read(socket, asio::buffer(&reply, sizeof(reply)), later) ||
      !reply.hello.isOf(self) || reply.hello.rank != peer)
    return false;
  if (!te::support::sameDigest(
          reply.proof, proofOf(Side::Accepted, secret, hello, reply.hello))) {
    ++strangers;
    return false;
  }
  const Digest proof = proofOf(Side::Dialled, secret, hello, reply.hello);
  return !write(socket, asio::buffer(proof), later);
}

te_rt_status te_tcp::connect(const te_tcp_options &options, char *message) {
  const auto deadline = deadlineIn(options.timeout_ms);
  size = options.size;
  rank = options.rank;
  secret = options.secret ? options.secret : "";
  isLocal = isLoopback(options.host);
  peers.resize(static_cast<size_t>(size));
  self.job = hashOf(options.job);
  self.size = size;
  self.rank = rank;
  if (size == 1)
    return TE_RT_OK;
  return rank == 0 ? lead(options, deadline, message)
                   : follow(options, deadline, message);
}

te_rt_status te_tcp::late(const te_tcp_options &options,
                          const std::string &text, char *message) const {
  std::string why =
      text + " in time (" + std::to_string(options.timeout_ms) + " ms)";
  if (strangers != 0)
    why += "; " + std::to_string(strangers) +
           (strangers == 1 ? " connection" : " connections") +
           " of this job did not prove to have its secret";
  if (secret.empty())
    why +=
        "; without 'secret', process 0 leaves one in " +
        SharedSecret(options).places() +
        ", which was not there: processes that share no folder need 'secret'";
  return say(message, why, TE_RT_TIMED_OUT);
}

te_rt_status te_tcp::lead(const te_tcp_options &options,
                          Clock::time_point deadline, char *message) {
  tcp::acceptor acceptor(io);
  SharedSecret shared(options);
  if (std::string why; !options.secret && !shared.make(secret, why))
    return say(message, why);
  std::vector<Address> addresses(static_cast<size_t>(size));
  const auto table =
      asio::buffer(addresses.data(), addresses.size() * sizeof(Address));
  std::vector<asio::ip::address> own;
  Error error;
  for (const auto &entry : tcp::resolver(io).resolve(options.host, "", error))
    // A host may know its own name as an address that others cannot reach.
    if (isLocal || !entry.endpoint().address().is_loopback())
      own.push_back(entry.endpoint().address());
  if (!error)
    error = asio::error::address_in_use;
  for (int i = 0; i < options.num_ports && error == asio::error::address_in_use;
       ++i)
    error = listen(acceptor, own, options.port + i);
  if (error)
    return cannotListen("'" + std::string(options.host) + "', port " +
                            rangeOf(options) +
                            ", which process 0 has to do; the job's address "
                            "has to be one of its host",
                        error, message);
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
    return late(options,
                listOf(absent()) + " of " + std::to_string(size) +
                    " did not connect to port " + std::to_string(port),
                message);
  if (!wrong.empty())
    return say(message, wrong);
  for (int r = 1; r < size; ++r)
    if (write(*peers[static_cast<size_t>(r)], table, deadline))
      return late(options, "rank " + std::to_string(r) + " did not listen",
                  message);
  return TE_RT_OK;
}

Error te_tcp::hear(std::vector<tcp::endpoint> &endpoints,
                   Clock::time_point deadline, std::string &wrong) {
  endpoints.resize(static_cast<size_t>(size));
  std::vector<Address> addresses(static_cast<size_t>(size));
  if (const Error error = read(
          *peers[0],
          asio::buffer(addresses.data(), addresses.size() * sizeof(Address)),
          deadline))
    return error;
  for (int r = 1; r < rank && wrong.empty(); ++r) {
    Address &address = addresses[static_cast<size_t>(r)];
    address.host[sizeof(address.host) - 1] = '\0';
    // A name would be looked up, wherever that leads.
    Error notOne;
    const auto host = asio::ip::make_address(address.host, notOne);
    const std::string expected = "expected process 0 to say where rank " +
                                 std::to_string(r) + " listens, but got ";
    if (address.port < 1 || address.port > 65535)
      wrong = expected + "port " + std::to_string(address.port);
    else if (notOne || (isLocal && !host.is_loopback()))
      wrong = expected + te::support::inQuotes(address.host) +
              (notOne ? ", which is no address"
                      : " in a job on a loopback address");
    else
      endpoints[static_cast<size_t>(r)] = {
          host, static_cast<asio::ip::port_type>(address.port)};
  }
  return {};
}

te_rt_status te_tcp::follow(const te_tcp_options &options,
                            Clock::time_point deadline, char *message) {
  tcp::acceptor acceptor(io);
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
  SharedSecret shared(options);
  for (int i = 0; !peers[0]; i = (i + 1) % options.num_ports) {
    // Again and again: an earlier job may have left one, and process 0 may not
    // be there yet.
    if (!options.secret && i == 0)
      shared.read(secret);
    if (!secret.empty())
      peers[0] = dial(endpointsOf(io, options.host, options.port + i),
                      /*peer=*/0, deadline, listenBeside);
    if (listenError)
      return cannotListen("the address that reaches process 0", listenError,
                          message);
    if (!peers[0] && Clock::now() >= deadline)
      return late(options,
                  "process 0 was not found at " + std::string(options.host) +
                      ", port " + rangeOf(options) + ",",
                  message);
    if (!peers[0] && i + 1 == options.num_ports)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::vector<tcp::endpoint> endpoints;
  std::string wrong;
  if (hear(endpoints, deadline, wrong))
    return late(options, "other processes did not all come to rank 0", message);
  if (!wrong.empty())
    return say(message, wrong);
  for (int r = 1; r < rank; ++r) {
    const tcp::endpoint &endpoint = endpoints[static_cast<size_t>(r)];
    std::unique_ptr<tcp::socket> &peer = peers[static_cast<size_t>(r)];
    while (!(peer = dial({endpoint}, r, deadline, asBefore)))
      if (Clock::now() >= deadline)
        return late(options,
                    "rank " + std::to_string(r) + " was not found at " +
                        endpoint.address().to_string() + ", port " +
                        std::to_string(endpoint.port()) + ",",
                    message);
  }
  if (acceptAll(acceptor, deadline,
                [&](const Hello &hello, const tcp::socket &) {
                  return hello.rank < size;
                }))
    return late(options, listOf(absent()) + " did not connect", message);
  return absent().empty()
             ? TE_RT_OK
             : say(message, "a process of another size of the job connected");
}
