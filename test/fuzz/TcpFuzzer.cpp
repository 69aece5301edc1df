//===- TcpFuzzer.cpp - any bytes from a stranger of a job -----------------===//
//
// A stranger connects to process 0 of a job of two and says the bytes, with or
// without the beginning of a true Hello before them. The job comes about all
// the same.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "TEDialect/Runtime/te_runtime_tcp.h"
#include "Tcp/Job.h"

#include <thread>

using asio::ip::tcp;
using te::fuzz::Choices;
using te::fuzz::require;

namespace {

te_tcp *join(int rank, int port) {
  te_tcp_options options = {};
  options.host = "127.0.0.1";
  options.port = port;
  options.num_ports = 1;
  options.job = "";
  options.size = 2;
  options.rank = rank;
  options.timeout_ms = 20000;
  options.secret = "0123456789abcdef";
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

/// Says the bytes to who listens at `port`, in two pieces.
void say(int port, const std::string &text, size_t cut) {
  asio::io_context io;
  tcp::socket socket(io);
  asio::error_code error = asio::error::connection_refused;
  for (int i = 0; error && i < 2000; ++i) {
    socket.close(error);
    socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(),
                                 static_cast<asio::ip::port_type>(port)),
                   error);
    if (error)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  require(!error, "process 0 listens");
  cut = std::min(cut, text.size());
  asio::write(socket, asio::buffer(text.data(), cut), error);
  asio::write(socket, asio::buffer(text.data() + cut, text.size() - cut),
              error);
  // It hears what is answered, if something is, as far as it is there.
  char answer[256];
  socket.non_blocking(true, error);
  socket.read_some(asio::buffer(answer), error);
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  Choices choices(bytes, size);
  const size_t known = choices.byte(), cut = choices.byte();
  te::jobs::Hello hello;
  hello.job = 14695981039346656037u; // of ""
  hello.size = 2;
  hello.rank = 1;
  std::string text(reinterpret_cast<const char *>(&hello),
                   std::min(known, sizeof(hello)));
  while (!choices.empty())
    text += static_cast<char>(choices.byte());

  const int port = freePort();
  te_tcp *jobs[2] = {};
  std::thread leader([&] { jobs[0] = join(0, port); });
  say(port, text, cut);
  jobs[1] = join(1, port);
  leader.join();
  require(jobs[0] && jobs[1], "a stranger does not keep a job from beginning");
  char message[TE_RT_MESSAGE_BYTES];
  std::thread ending([&] { te_tcp_destroy(jobs[0], 5000, message); });
  char other[TE_RT_MESSAGE_BYTES];
  te_tcp_destroy(jobs[1], 5000, other);
  ending.join();
  return 0;
}
