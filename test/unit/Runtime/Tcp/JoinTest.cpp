//===- JoinTest.cpp - how processes find each other, and whom they trust --===//
//
// A job of one user without a given secret, and a process 0 that lies.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Tcp/JobOfThreads.h"
#include "Tcp/Job.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace te::jobs;

namespace {

/// Processes that are given no secret, and folders of their own for it.
class WithoutSecret : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "te-tcp-XXXXXX";
    folder = mkdtemp(pattern.data());
    own = folder / "own";
    shared = folder / "shared";
    fs::create_directories(own);
    fs::create_directories(shared);
    setenv("XDG_RUNTIME_DIR", own.c_str(), 1);
    setenv("TMPDIR", shared.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    fs::remove_all(folder);
  }

  std::string name() const {
    uint64_t job = 14695981039346656037u;
    for (const char c : std::string("a job"))
      job = (job ^ static_cast<unsigned char>(c)) * 1099511628211u;
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx",
                  static_cast<unsigned long long>(job));
    return "te-tcp-" + std::to_string(geteuid()) + "-" + std::to_string(port) +
           "-" + digits;
  }
  fs::path ownFile() const { return own / name(); }
  fs::path sharedFile() const { return shared / name(); }

  /// Process 1 comes, and leaves.
  void follow() const {
    Process process(1, 2, port);
    process.options.secret = nullptr;
    ASSERT_OK(process.join());
    EXPECT_OK(process.leave());
  }
  /// It comes, and does not find process 0.
  void miss() const {
    Process process(1, 2, port);
    process.options.secret = nullptr;
    process.options.timeout_ms = 300;
    EXPECT_EQ(process.join(), TE_RT_TIMED_OUT);
    EXPECT_EQ(process.message,
              "process 0 was not found at 127.0.0.1, port " +
                  std::to_string(port) + " to " + std::to_string(port + 3) +
                  ", in time (300 ms); without 'secret', process 0 leaves one "
                  "in '" +
                  ownFile().string() + "' or '" + sharedFile().string() +
                  "', which was not there: processes that share no folder need "
                  "'secret'");
  }
  /// Runs process 0 beside `body`, which begins when there is `file`.
  void leadBeside(const fs::path &file, const std::function<void()> &body) {
    std::atomic<bool> isOver = false;
    std::thread leader([&] {
      Process process(0, 2, port);
      process.options.secret = nullptr;
      EXPECT_OK(process.join());
      EXPECT_OK(process.leave());
      isOver = true;
    });
    struct stat status = {};
    while (!isOver && (lstat(file.c_str(), &status) != 0 ||
                       status.st_size != 32 || !S_ISREG(status.st_mode)))
      std::this_thread::yield();
    EXPECT_FALSE(isOver);
    body();
    leader.join();
  }

  fs::path folder, own, shared;
  const int32_t port = freePort();
};

TEST_F(WithoutSecret, TheProcessesOfAUserAgreeOnOne) {
  const mode_t before = umask(0777);
  leadBeside(ownFile(), [&] {
    umask(before);
    struct stat status = {};
    ASSERT_EQ(stat(ownFile().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_TRUE(fs::is_empty(shared));
    follow();
  });
  EXPECT_TRUE(fs::is_empty(own) && fs::is_empty(shared));
}

// Who cannot read the file stays outside, and no file is read that another user
// could have made or read.
TEST_F(WithoutSecret, OnlyAFileOfTheUserIsRead) {
  leadBeside(ownFile(), [&] {
    const fs::path away = folder / "away";
    fs::rename(ownFile(), away);
    miss();
    fs::create_symlink(away, ownFile());
    miss();
    fs::rename(away, ownFile());
    for (const mode_t mode : {0640, 0620, 0604, 0602}) {
      ASSERT_EQ(chmod(ownFile().c_str(), mode), 0);
      miss();
    }
    ASSERT_EQ(chmod(ownFile().c_str(), 0600), 0);
    // Only root can give it away.
    if (chown(ownFile().c_str(), 1, 1) == 0) {
      if (geteuid() != 1)
        miss();
      ASSERT_EQ(chown(ownFile().c_str(), geteuid(), getegid()), 0);
    }
    follow();
  });
}

// What is there is replaced, and never written.
TEST_F(WithoutSecret, ReplacesWhatAnEarlierJobLeft) {
  std::ofstream(ownFile()) << "too short";
  leadBeside(ownFile(), [&] { follow(); });
  const fs::path other = folder / "precious";
  std::ofstream(other) << "precious";
  fs::create_symlink(other, ownFile());
  leadBeside(ownFile(), [&] { follow(); });
  EXPECT_FALSE(fs::exists(ownFile()));
  EXPECT_EQ(fs::file_size(other), 8u);
}

// A process that does not see all folders of the others.
TEST_F(WithoutSecret, LooksIntoBothFolders) {
  unsetenv("XDG_RUNTIME_DIR");
  leadBeside(sharedFile(), [&] {
    std::ofstream(ownFile()) << std::string(32, 'x');
    ASSERT_EQ(chmod(ownFile().c_str(), 0600), 0);
    setenv("XDG_RUNTIME_DIR", own.c_str(), 1);
    follow();
  });
  // Something that process 0 cannot remove is in its way.
  fs::remove(ownFile());
  fs::create_directories(ownFile());
  leadBeside(sharedFile(), [&] { follow(); });
  setenv("XDG_RUNTIME_DIR", (folder / "absent").c_str(), 1);
  leadBeside(sharedFile(), [&] { follow(); });
}

TEST_F(WithoutSecret, NeedsAFolder) {
  setenv("XDG_RUNTIME_DIR", (folder / "absent").c_str(), 1);
  setenv("TMPDIR", (folder / "absent").c_str(), 1);
  Process process(0, 2, port);
  process.options.secret = nullptr;
  EXPECT_EQ(process.join(), TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(process.message,
            "cannot write a secret for the processes of this user to '" +
                (folder / "absent" / name()).string() +
                "'; give all of them one");
}

// What a later job made stays.
TEST_F(WithoutSecret, RemovesItsOwnFileOnly) {
  leadBeside(ownFile(), [&] {
    fs::rename(ownFile(), sharedFile());
    std::ofstream(ownFile()) << "a later one";
    follow();
  });
  EXPECT_TRUE(fs::exists(ownFile()));
}

/// A process 0 that has the secret of a job of three, and tells process 2 that
/// process 1 listens at `host`; what that one says.
std::string toldToDial(const std::string &host, int32_t toldPort,
                       int64_t timeout = kTimeout,
                       const char *jobHost = "127.0.0.1") {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  Process process(2, 3, acceptor.local_endpoint().port());
  process.options.host = jobHost;
  process.options.num_ports = 1;
  process.options.timeout_ms = timeout;
  std::thread leader([&] {
    tcp::socket socket(io);
    acceptor.accept(socket);
    Hello theirs;
    asio::read(socket, asio::buffer(&theirs, sizeof(theirs)));
    Reply reply;
    reply.hello = theirs;
    reply.hello.rank = 0;
    std::string text(1, 'a');
    text.append(reinterpret_cast<const char *>(&theirs), sizeof(Hello));
    text.append(reinterpret_cast<const char *>(&reply.hello), sizeof(Hello));
    reply.proof = te::support::hmacSha256(kSecret, std::strlen(kSecret),
                                          text.data(), text.size());
    asio::write(socket, asio::buffer(&reply, sizeof(reply)));
    Digest proof;
    asio::read(socket, asio::buffer(proof));
    Address table[3];
    host.copy(table[1].host, sizeof(table[1].host));
    table[1].port = toldPort;
    asio::write(socket, asio::buffer(table));
    // Until the other one has read it.
    Error error;
    asio::read(socket, asio::buffer(proof), error);
  });
  EXPECT_NE(process.join(), TE_RT_OK);
  leader.join();
  return process.message;
}

// Process 0 cannot make others dial what it likes.
TEST(Join, AddressesAreNumbers) {
  const std::string expected =
      "expected process 0 to say where rank 1 listens, but got ";
  EXPECT_EQ(toldToDial("localhost", 1),
            expected + "'localhost', which is no address");
  EXPECT_EQ(toldToDial("", 1), expected + "'', which is no address");
  EXPECT_EQ(toldToDial("127.0.0.1\n\x1b[2J", 1),
            expected + "'127.0.0.1??[2J', which is no address");
  EXPECT_EQ(toldToDial(std::string(64, '1'), 1),
            expected + "'" + std::string(63, '1') + "', which is no address");
  for (const char *other : {"10.255.255.1", "fe80::1", "0.0.0.0"})
    EXPECT_EQ(toldToDial(other, 1),
              expected + "'" + other + "' in a job on a loopback address");
  // An address that is not of the loopback device, which Linux connects to it.
  const char *any = "0.0.0.0";
  EXPECT_EQ(toldToDial("localhost", 1, kTimeout, any),
            expected + "'localhost', which is no address");
  EXPECT_NE(toldToDial("0.0.0.0", 1, 1000, any)
                .find("rank 1 was not found at 0.0.0.0, port 1, in time"),
            std::string::npos);
  EXPECT_EQ(toldToDial("127.0.0.1", 65536), expected + "port 65536");
  EXPECT_NE(toldToDial("127.0.0.2", 1, 1000)
                .find("rank 1 was not found at 127.0.0.2, port 1, in time"),
            std::string::npos);
}

} // namespace
