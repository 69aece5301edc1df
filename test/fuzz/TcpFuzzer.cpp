//===- TcpFuzzer.cpp - any bytes from the other processes of a job --------===//
//
// Bytes choose what the other ends of connections say: strangers to a process
// that waits for others, strangers that answer one which dials, process 0 and
// ranks that have gone mad. The connections are pairs of sockets, and this is
// the only thread, so that an input takes microseconds. One input in some
// thousands also makes a whole job, to which a stranger comes.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "TEDialect/Runtime/te_runtime_tcp.h"
#include "Tcp/Job.h"

#include <array>
#include <atomic>
#include <thread>

using asio::ip::tcp;
using te::fuzz::Choices;
using te::fuzz::require;
using te::jobs::Hello;
using te::jobs::Reply;
using te::support::Digest;

namespace {

constexpr char kSecret[] = "0123456789abcdef";
constexpr uint64_t kJob = 14695981039346656037u; // of ""

/// A process of a job that is not connected.
struct Job : te_tcp {
  Job(int size, int rank) {
    this->size = size;
    this->rank = rank;
    secret = kSecret;
    peers.resize(static_cast<size_t>(size));
    self = helloOf(size, rank);
  }
  static Hello helloOf(int size, int rank) {
    Hello hello;
    hello.job = kJob;
    hello.size = size;
    hello.rank = rank;
    return hello;
  }
  /// Runs what can be run without waiting.
  void poll() {
    io.restart();
    io.poll();
  }
};

/// The proof of the side that dialled ('d') or accepted ('a').
Digest proofOf(char side, const Hello &dialled, const Hello &accepted) {
  std::string text(1, side);
  text.append(reinterpret_cast<const char *>(&dialled), sizeof(Hello));
  text.append(reinterpret_cast<const char *>(&accepted), sizeof(Hello));
  return te::support::hmacSha256(kSecret, sizeof(kSecret) - 1, text.data(),
                                 text.size());
}

std::string textOf(const void *from, size_t size) {
  return {static_cast<const char *>(from), size};
}

/// Bytes that were chosen, at most 255.
std::string chosen(Choices &choices) {
  std::string text;
  for (int i = choices.byte(); i > 0 && !choices.empty(); --i)
    text += static_cast<char>(choices.byte());
  return text;
}

/// Changes a byte, or none, or leaves out what follows it.
void damage(std::string &text, Choices &choices) {
  const uint8_t how = choices.byte(), at = choices.byte();
  if (at >= text.size() || how % 4 == 0)
    return;
  if (how % 4 == 1)
    text.resize(at);
  else
    text[at] = static_cast<char>(text[at] ^ (how | 1));
}

/// The other end of a connection of the job, and what went over it.
struct Far {
  explicit Far(Job &job) : near(job.io), socket(job.io) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
            "there are sockets");
    near.assign(tcp::v4(), ends[0]);
    socket.assign(tcp::v4(), ends[1]);
    socket.non_blocking(true);
  }
  void say(const std::string &text) {
    asio::error_code error;
    said += text.substr(
        0, asio::write(socket, asio::buffer(text.data(), text.size()), error));
  }
  void listen() {
    char text[512];
    asio::error_code error;
    while (const size_t size = socket.read_some(asio::buffer(text), error))
      heard.append(text, size);
  }
  void close() {
    asio::error_code ignored;
    socket.close(ignored);
  }
  /// Says no more, but may still listen.
  void fallSilent() {
    asio::error_code ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  tcp::socket near, socket;
  std::string said, heard;
};

/// Strangers and processes of the job that come to one which waits for them.
class Waiting {
public:
  explicit Waiting(Choices &choices)
      : choices(choices), job(2 + choices.below(4), 0),
        reception(std::make_unique<te_tcp::Reception>(
            job, [this](const Hello &hello, const tcp::socket &) {
              isRefused |= hello.size != job.size;
              require(isRefused || !job.peers[static_cast<size_t>(hello.rank)],
                      "a rank has one connection");
              return !isRefused;
            })) {}

  void run() {
    while (!choices.empty() && reception->goesOn())
      act();
    for (const auto &guest : guests)
      guest->listen();
    for (int rank = 1; rank < job.size; ++rank) {
      bool came = false, stayed = false;
      for (const auto &guest : guests)
        if (hasProved(*guest, rank)) {
          came = true;
          stayed |= guest->socket.is_open();
        }
      const bool isThere = job.peers[static_cast<size_t>(rank)] != nullptr;
      require(!isThere || came, "who has no secret is no process of the job");
      require(isThere || !stayed || isRefused,
              "a process of the job is let in");
    }
    // Nothing that was begun is left.
    reception.reset();
    job.poll();
  }

private:
  void act() {
    const int action = choices.below(8);
    if (guests.empty() || (action == 0 && guests.size() < 8)) {
      guests.push_back(std::make_unique<Far>(job));
      reception->take(std::move(guests.back()->near));
      return;
    }
    Far &guest = *guests[static_cast<size_t>(
        choices.below(static_cast<int>(guests.size())))];
    switch (action) {
    case 1:
      guest.say(chosen(choices));
      break;
    case 2:
    case 3: {
      const Hello hello =
          Job::helloOf(choices.byte() % 8 ? job.size : choices.byte(),
                       choices.byte() % 8 ? choices.below(job.size) : -1);
      std::string text = textOf(&hello, sizeof(hello));
      if (action == 3)
        damage(text, choices);
      guest.say(text);
      break;
    }
    case 4:
    case 5: {
      std::string proof = proofFor(guest);
      if (action == 5)
        damage(proof, choices);
      guest.say(proof);
      break;
    }
    case 6:
      if (choices.byte() % 4 == 0)
        guest.close();
      break;
    default:
      break;
    }
    job.poll();
  }

  /// What proves that this guest has the secret, as far as one can know.
  std::string proofFor(Far &guest) {
    guest.listen();
    Hello hello;
    Reply reply;
    if (guest.said.size() < sizeof(hello) ||
        guest.heard.size() != sizeof(reply))
      return std::string(sizeof(Digest), '\0');
    std::memcpy(static_cast<void *>(&hello), guest.said.data(), sizeof(hello));
    std::memcpy(static_cast<void *>(&reply), guest.heard.data(), sizeof(reply));
    require(reply.proof == proofOf('a', hello, reply.hello),
            "a process of the job proves that it is one");
    const Digest proof = proofOf('d', hello, reply.hello);
    return textOf(proof.data(), proof.size());
  }

  bool hasProved(Far &guest, int rank) {
    Hello hello;
    if (guest.said.size() < sizeof(hello) + sizeof(Digest) ||
        guest.heard.size() != sizeof(Reply))
      return false;
    std::memcpy(static_cast<void *>(&hello), guest.said.data(), sizeof(hello));
    return hello.isOf(job.self) && hello.rank == rank &&
           guest.said.substr(sizeof(hello), sizeof(Digest)) == proofFor(guest);
  }

  Choices &choices;
  Job job;
  std::vector<std::unique_ptr<Far>> guests;
  bool isRefused = false;
  /// Before what it refers to.
  std::unique_ptr<te_tcp::Reception> reception;
};

/// A stranger, or a process of the job, that answers one which dials.
void dial(Choices &choices) {
  Job job(3, 2);
  Far far(job);
  const int peer = choices.below(2);
  bool isTrue = false;
  Hello theirs;
  std::string answer;
  asio::async_read(
      far.socket, asio::buffer(&theirs, sizeof(theirs)),
      [&](const asio::error_code &error, size_t) {
        require(!error, "a Hello is said");
        const int kind = choices.below(8);
        Reply reply;
        reply.hello = Job::helloOf(3, kind == 7 ? choices.below(3) : peer);
        for (uint8_t &byte : reply.hello.nonce)
          byte = choices.byte();
        std::string hello = textOf(&reply.hello, sizeof(Hello));
        if (kind == 1)
          damage(hello, choices);
        hello.resize(sizeof(Hello));
        std::memcpy(static_cast<void *>(&reply.hello), hello.data(),
                    sizeof(Hello));
        // An echo is no answer.
        if (kind == 2)
          reply.hello = theirs;
        reply.proof = proofOf(kind == 3 ? 'd' : 'a', theirs, reply.hello);
        answer = textOf(&reply, sizeof(reply));
        if (kind == 4)
          damage(answer, choices);
        if (kind == 5)
          answer = chosen(choices) + answer;
        isTrue = answer == textOf(&reply, sizeof(reply)) && kind != 3 &&
                 reply.hello.isOf(job.self) && reply.hello.rank == peer;
        const size_t cut = choices.byte();
        far.say(answer.substr(0, cut));
        if (choices.byte() % 8 == 0)
          return far.close();
        asio::post(job.io, [&, cut] {
          if (cut < answer.size())
            far.say(answer.substr(cut));
          far.fallSilent();
        });
      });
  const bool isThere =
      job.introduce(far.near, peer, te::jobs::deadlineIn(5000));
  job.poll();
  require(!isThere || isTrue, "who has no secret is no process of the job");
  require(isThere || !isTrue || !far.socket.is_open(),
          "a process of the job is known");
  if (!isThere)
    return;
  far.listen();
  Reply reply;
  std::memcpy(static_cast<void *>(&reply), answer.data(), sizeof(reply));
  const Digest proof = proofOf('d', theirs, reply.hello);
  require(far.heard == textOf(proof.data(), proof.size()),
          "who dialled proves that it has the secret");
}

/// Where process 0 says that the others listen.
void hear(Choices &choices) {
  Job job(1 + choices.below(5), 0);
  job.rank = job.size - 1;
  Far far(job);
  for (int rank = 0; rank < job.size; ++rank) {
    te::jobs::Address address;
    address.port = choices.byte() % 2 ? 29500 : choices.integer<int32_t>();
    const std::string host = chosen(choices);
    host.copy(address.host, sizeof(address.host));
    far.say(textOf(&address, sizeof(address)));
  }
  if (choices.byte() % 4 == 0)
    far.say(chosen(choices));
  far.fallSilent();
  if (job.size == 1)
    return;
  job.peers[0] = std::make_unique<tcp::socket>(std::move(far.near));
  job.isLocal = job.size % 2 == 0;
  std::vector<tcp::endpoint> endpoints;
  std::string wrong;
  const auto error = job.hear(endpoints, te::jobs::deadlineIn(5000), wrong);
  require(!error, "what was said is heard");
  if (!wrong.empty())
    return;
  for (int rank = 1; rank < job.rank; ++rank) {
    const tcp::endpoint &endpoint = endpoints[static_cast<size_t>(rank)];
    require(endpoint.port() != 0, "an address has a port");
    require(!job.isLocal || endpoint.address().is_loopback(),
            "an address of a job of this host is one of this host");
  }
}

/// Ranks that say anything while this one exchanges messages with them.
void exchange(Choices &choices) {
  struct Header {
    int32_t tag, unused;
    int64_t bytes;
  };
  const int size = 2 + choices.below(3);
  Job job(size, choices.below(size));
  std::vector<std::unique_ptr<Far>> fars;
  te_tcp::Group group = {&job, 7, {}, job.rank};
  const int64_t bytes = choices.byte();
  for (int rank = 0; rank < size; ++rank) {
    group.ranks.push_back(rank);
    fars.push_back(std::make_unique<Far>(job));
    if (rank == job.rank)
      continue;
    Far &far = *fars.back();
    job.peers[static_cast<size_t>(rank)] =
        std::make_unique<tcp::socket>(std::move(far.near));
    for (int i = choices.below(4); i > 0; --i) {
      const Header header = {group.tag, choices.byte(), bytes};
      std::string text = textOf(&header, sizeof(header)) +
                         std::string(static_cast<size_t>(bytes),
                                     static_cast<char>(choices.byte()));
      if (choices.byte() % 2)
        damage(text, choices);
      far.say(text);
    }
    far.say(chosen(choices));
    if (choices.byte() % 8 == 0)
      far.close();
    else
      far.fallSilent();
  }
  const bool isLate = choices.byte() % 16 == 0;
  const auto count = static_cast<size_t>(bytes);
  const std::string sent(count * static_cast<size_t>(size), 's');
  for (int i = 0; i < 3; ++i) {
    std::string received(sent.size(), '\0');
    char message[TE_RT_MESSAGE_BYTES] = "";
    const te_rt_status status =
        job.exchange(group, sent.data(), bytes, received.data(), bytes,
                     isLate ? 0 : 5000, message);
    if (status != TE_RT_OK) {
      require(*message, "an error has a sentence");
      continue;
    }
    for (int rank = 0; rank < size; ++rank) {
      if (rank == job.rank)
        continue;
      const std::string &said = fars[static_cast<size_t>(rank)]->said;
      const size_t at = static_cast<size_t>(i) * (sizeof(Header) + count);
      Header header;
      require(said.size() >= at + sizeof(header) + count,
              "a message is read once it is there");
      std::memcpy(&header, said.data() + at, sizeof(header));
      require(header.tag == group.tag && header.bytes == bytes &&
                  said.substr(at + sizeof(header), count) ==
                      received.substr(static_cast<size_t>(rank) * count, count),
              "what was received is what was said");
    }
  }
}

te_tcp *join(int rank, int port) {
  te_tcp_options options = {};
  options.host = "127.0.0.1";
  options.port = port;
  options.num_ports = 1;
  options.job = "";
  options.size = 2;
  options.rank = rank;
  options.timeout_ms = 20000;
  options.secret = kSecret;
  char message[TE_RT_MESSAGE_BYTES] = "";
  te_tcp *job = nullptr;
  if (te_tcp_create(&options, &job, message) != TE_RT_OK) {
    std::fprintf(stderr, "%s\n", message);
    return nullptr;
  }
  return job;
}

/// A port that is free now.
int freePort() {
  asio::io_context io;
  tcp::acceptor acceptor(io,
                         tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  return acceptor.local_endpoint().port();
}

/// Says the bytes to who listens at `port`, in two pieces. Returns whether
/// somebody listened before `isOver`.
bool say(int port, const std::string &text, size_t cut,
         const std::atomic<bool> &isOver) {
  asio::io_context io;
  tcp::socket socket(io);
  asio::error_code error = asio::error::connection_refused;
  for (int i = 0; error && i < 2000 && !isOver; ++i) {
    socket.close(error);
    socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(),
                                 static_cast<asio::ip::port_type>(port)),
                   error);
    if (error)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  if (error)
    return false;
  cut = std::min(cut, text.size());
  asio::write(socket, asio::buffer(text.data(), cut), error);
  asio::write(socket, asio::buffer(text.data() + cut, text.size() - cut),
              error);
  // It hears what is answered, if something is, as far as it is there.
  char answer[256];
  socket.non_blocking(true, error);
  socket.read_some(asio::buffer(answer), error);
  return true;
}

/// A job of two comes about although a stranger says the bytes to process 0,
/// after the beginning of a true Hello.
void comeTogether(const uint8_t *bytes, size_t size) {
  Choices choices(bytes, size);
  const size_t known = choices.byte(), cut = choices.byte();
  const Hello hello = Job::helloOf(2, 1);
  std::string text = textOf(&hello, std::min(known, sizeof(hello)));
  while (!choices.empty())
    text += static_cast<char>(choices.byte());

  te_tcp *jobs[2] = {};
  bool heard = false;
  // Another process may have taken the port that was free.
  for (int i = 0; i < 10 && !heard; ++i) {
    const int port = freePort();
    std::atomic<bool> isOver = false;
    std::thread leader([&] {
      jobs[0] = join(0, port);
      isOver = true;
    });
    heard = say(port, text, cut, isOver);
    if (heard)
      jobs[1] = join(1, port);
    leader.join();
  }
  require(heard, "process 0 listens");
  require(jobs[0] && jobs[1], "a stranger does not keep a job from beginning");
  char message[TE_RT_MESSAGE_BYTES];
  std::thread ending([&] { te_tcp_destroy(jobs[0], 5000, message); });
  char other[TE_RT_MESSAGE_BYTES];
  te_tcp_destroy(jobs[1], 5000, other);
  ending.join();
}

/// The input and no other thing decides, so that a finding can be repeated.
bool isWhole(const uint8_t *bytes, size_t size) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * 16777619u;
  return hash % 4096 == 0;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  Choices choices(bytes, size);
  switch (choices.below(4)) {
  case 0:
    Waiting(choices).run();
    break;
  case 1:
    dial(choices);
    break;
  case 2:
    hear(choices);
    break;
  default:
    exchange(choices);
  }
  if (isWhole(bytes, size))
    comeTogether(bytes, size);
  return 0;
}
