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

#include "Job.h"

#include "Core/GroupMembers.h"

#include <array>
#include <new>

using namespace te::rt;
using namespace te::jobs;

namespace {

constexpr int32_t kJobTag = -1; // te_tcp_destroy's
constexpr int32_t kMaxSize = 1 << 16;
constexpr size_t kMinSecret = 16;

struct Header {
  int32_t tag, unused;
  int64_t bytes;
};

} // namespace

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
