//===- GroupsTest.cpp - binding process groups, on the CPU ----------------===//
//
// The rules of groups for every backend, and the groups of one rank of the
// reference backend.
//
//===----------------------------------------------------------------------===//

#include "TEDialect/Runtime/te_runtime_compiled.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

te_rt_status load(te_rt_instance *instance) {
  return te_rt_plan_all_reduce_max(instance, 0, 2, 7);
}
void step(te_rt_instance *instance, char *, void *const *arguments) {
  te_rt_launch(instance, 0, arguments);
}
constexpr te_rt_module maximum = {TE_RT_MODULE_MAGIC,
                                  TE_RT_VERSION,
                                  0,
                                  1,
                                  2,
                                  load,
                                  step,
                                  nullptr,
                                  nullptr,
                                  0,
                                  0};

class Groups : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(te_rt_context_create("reference", &context), TE_RT_OK);
  }
  void TearDown() override {
    te_rt_instance_destroy(instance);
    te_rt_context_destroy(context);
  }

  void refuses(int32_t group, const char *id, int32_t size, int32_t rank,
               te_rt_status status, const std::string &text) {
    EXPECT_EQ(te_rt_context_bind_group(context, group, id, size, rank), status);
    EXPECT_EQ(te_rt_last_error(), "te_rt_context_bind_group: " + text);
  }

  te_rt_context *context = nullptr;
  te_rt_instance *instance = nullptr;
  char id[TE_RT_GROUP_ID_BYTES] = "an id";
};

TEST_F(Groups, OneRankIsTheValueItself) {
  ASSERT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
  ASSERT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK)
      << te_rt_last_error();
  float x[] = {3, -1}, y[] = {0, 0};
  void *const arguments[] = {x, y};
  ASSERT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], -1);
}

TEST_F(Groups, ContextWithoutGroupsIsOneProcess) {
  EXPECT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK)
      << te_rt_last_error();
}

TEST_F(Groups, UnboundOneIsNamedWithTheBoundOnes) {
  for (int32_t group : {9, 3})
    ASSERT_EQ(te_rt_context_bind_group(context, group, nullptr, 1, 0),
              TE_RT_OK);
  EXPECT_EQ(te_rt_instance_create(context, &maximum, &instance),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_instance_create: all_reduce_max (slot 0): expected "
               "'group_id' to be a group bound to the context (3, 9), but got "
               "7; bind it with te_rt_context_bind_group before the instance "
               "is created");
  // Nothing was created, so the user can follow the advice.
  ASSERT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
  EXPECT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK);
}

TEST_F(Groups, PlacesAreChecked) {
  refuses(-1, nullptr, 1, 0, TE_RT_INVALID_ARGUMENT,
          "expected 'group_id' to be zero or more, but got -1");
  for (int32_t size : {0, -1, INT32_MIN})
    refuses(7, id, size, 0, TE_RT_INVALID_ARGUMENT,
            "expected 'size' to be one or more, but got " +
                std::to_string(size));
  for (int32_t rank : {2, -1, INT32_MAX})
    refuses(7, id, 2, rank, TE_RT_INVALID_ARGUMENT,
            "expected 'rank' to be from 0 to 'size' - 1, 1, but got " +
                std::to_string(rank));
  refuses(7, nullptr, 2, 0, TE_RT_INVALID_ARGUMENT,
          "'id' is null; a group of more than one rank needs one of "
          "te_rt_group_unique_id");
  EXPECT_EQ(te_rt_context_bind_group(nullptr, 7, id, 2, 0),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_EQ(te_rt_group_unique_id(nullptr), TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(), "te_rt_group_unique_id: 'id' is null");
}

TEST_F(Groups, AreBoundOnce) {
  ASSERT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
  refuses(7, nullptr, 1, 0, TE_RT_INVALID_ARGUMENT,
          "group 7 is bound already, with size 1 and rank 0");
}

TEST_F(Groups, AreBoundBeforeInstancesExist) {
  ASSERT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK);
  refuses(7, nullptr, 1, 0, TE_RT_INVALID_ARGUMENT,
          "expected groups to be bound before instances are created, but the "
          "context has 1");
  te_rt_instance_destroy(instance);
  instance = nullptr;
  EXPECT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
}

TEST_F(Groups, ReferenceConnectsNoProcesses) {
  refuses(7, id, 2, 0, TE_RT_UNSUPPORTED,
          "the reference backend does not connect processes: expected 'size' "
          "to be 1, but got 2; give it a communicator of the program with "
          "te_rt_context_bind_communicator, or use the 'cuda' backend");
  // If binding a group fails, the group is not bound.
  EXPECT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
}

//===----------------------------------------------------------------------===//
// Communicators of the host program. test/unit/Runtime/Mpi tests several
// processes.
//===----------------------------------------------------------------------===//

/// The results of the communicators below, and the calls that they got.
struct Exchange {
  te_rt_status status = TE_RT_OK;
  std::string text;
  int64_t timeout = 0;
  int calls = 0;
};

te_rt_status exchange(void *user, const void *send, int64_t, void *receive,
                      int64_t bytes, int64_t timeout, char *message) {
  auto &self = *static_cast<Exchange *>(user);
  self.timeout = timeout;
  ++self.calls;
  std::memcpy(receive, send, static_cast<size_t>(bytes));
  std::strcpy(message, self.text.c_str());
  return self.status;
}

TEST_F(Groups, CommunicatorsOfOneRankAreTheValueItself) {
  Exchange self;
  const te_rt_communicator communicator = {1, 0, &self, exchange};
  ASSERT_EQ(te_rt_context_bind_communicator(context, 7, &communicator),
            TE_RT_OK)
      << te_rt_last_error();
  EXPECT_EQ(self.timeout, 600000);
  ASSERT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK)
      << te_rt_last_error();
  float x[] = {3, -1}, y[] = {0, 0};
  void *const arguments[] = {x, y};
  ASSERT_EQ(te_rt_instance_run(instance, arguments, nullptr), TE_RT_OK);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], -1);
}

TEST_F(Groups, CommunicatorsFailInTheirOwnWords) {
  ASSERT_EQ(te_rt_context_set_group_timeout(context, 1234), TE_RT_OK);
  const struct {
    te_rt_status status;
    const char *text, *expected;
  } cases[] = {
      {TE_RT_TIMED_OUT, "rank 1 did not come", "rank 1 did not come"},
      {TE_RT_DEVICE_ERROR, "", "the program's communicator returned status 4"},
  };
  for (const auto &each : cases) {
    Exchange self{each.status, each.text};
    const te_rt_communicator communicator = {2, 0, &self, exchange};
    EXPECT_EQ(te_rt_context_bind_communicator(context, 7, &communicator),
              each.status);
    EXPECT_EQ(te_rt_last_error(),
              std::string("te_rt_context_bind_communicator: group 7 (rank 0 of "
                          "2): ") +
                  each.expected);
    EXPECT_EQ(self.timeout, 1234);
    EXPECT_EQ(self.calls, 1);
  }
  // If binding a group fails, the group is not bound.
  EXPECT_EQ(te_rt_context_bind_group(context, 7, nullptr, 1, 0), TE_RT_OK);
}

/// What a rank tells the others before a collective (HostGroup.h).
struct Announcement {
  int64_t sequence, count;
  int32_t group, size, rank, type;
  char kernel[32];
};

// The name of a kernel that another rank says may have no end.
TEST_F(Groups, NamesOfOthersEnd) {
  const auto exchangeOfThree = [](void *, const void *send, int64_t,
                                  void *receive, int64_t bytes, int64_t,
                                  char *) {
    EXPECT_EQ(bytes, sizeof(Announcement));
    for (int32_t rank = 0; rank < 3; ++rank) {
      Announcement said;
      std::memcpy(&said, send, sizeof(said));
      said.rank = rank;
      if (rank == 1 && *said.kernel) {
        std::memset(said.kernel, 'k', sizeof(said.kernel));
        said.kernel[3] = '\x1b';
      }
      std::memcpy(static_cast<char *>(receive) + rank * bytes, &said,
                  sizeof(said));
    }
    return TE_RT_OK;
  };
  const te_rt_communicator communicator = {3, 0, nullptr, exchangeOfThree};
  ASSERT_EQ(te_rt_context_bind_communicator(context, 7, &communicator),
            TE_RT_OK)
      << te_rt_last_error();
  ASSERT_EQ(te_rt_instance_create(context, &maximum, &instance), TE_RT_OK)
      << te_rt_last_error();
  float x[] = {3, -1}, y[] = {0, 0};
  void *const arguments[] = {x, y};
  EXPECT_EQ(te_rt_instance_run(instance, arguments, nullptr),
            TE_RT_INVALID_ARGUMENT);
  const std::string said = te_rt_last_error();
  const std::string expected = "is all_reduce_max of 2 f32 on rank 0 and kkk?" +
                               std::string(27, 'k') + " of 2 f32 on rank 1";
  EXPECT_TRUE(said.ends_with(expected)) << said;
}

TEST_F(Groups, CommunicatorsAreChecked) {
  const auto refusesAs = [&](const te_rt_communicator *communicator,
                             const std::string &text) {
    EXPECT_EQ(te_rt_context_bind_communicator(context, 7, communicator),
              TE_RT_INVALID_ARGUMENT);
    EXPECT_EQ(te_rt_last_error(), "te_rt_context_bind_communicator: " + text);
  };
  Exchange self;
  te_rt_communicator communicator = {2, 0, &self, nullptr};
  refusesAs(nullptr, "'communicator' is null");
  refusesAs(&communicator, "the communicator's 'exchange' is null");
  communicator = {2, 2, &self, exchange};
  refusesAs(&communicator,
            "expected 'rank' to be from 0 to 'size' - 1, 1, but got 2");
  communicator = {0, 0, &self, exchange};
  refusesAs(&communicator, "expected 'size' to be one or more, but got 0");
  EXPECT_EQ(self.calls, 0);

  EXPECT_EQ(te_rt_context_set_group_timeout(context, 0),
            TE_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(te_rt_last_error(),
               "te_rt_context_set_group_timeout: expected 'milliseconds' to be "
               "one or more, but got 0");
  int comm = 0;
  EXPECT_EQ(te_rt_context_bind_nccl(context, 7, &comm, 2, 0),
            TE_RT_UNSUPPORTED);
  EXPECT_NE(std::string(te_rt_last_error()).find("'cuda' backend"),
            std::string::npos)
      << te_rt_last_error();
  EXPECT_EQ(te_rt_context_bind_nccl(context, 7, nullptr, 2, 0),
            TE_RT_INVALID_ARGUMENT);
}

TEST(Devices, AreChosenByNumber) {
  te_rt_context *context = nullptr;
  ASSERT_EQ(te_rt_context_create_on_device("reference", 0, &context), TE_RT_OK);
  EXPECT_STREQ(te_rt_context_backend(context), "reference");
  te_rt_context_destroy(context);
  const struct {
    const char *backend;
    int32_t device;
    const char *text;
  } cases[] = {
      {"reference", 1,
       "expected 'device' to be 0 for the reference backend, but got 1"},
      {"cuda", -1, "expected 'device' to be zero or more, but got -1"},
      {"auto", 0,
       "expected 'backend' to be 'reference' or 'cuda', but got 'auto'"},
  };
  for (const auto &each : cases) {
    EXPECT_EQ(
        te_rt_context_create_on_device(each.backend, each.device, &context),
        TE_RT_INVALID_ARGUMENT);
    EXPECT_EQ(te_rt_last_error(),
              std::string("te_rt_context_create_on_device: ") + each.text);
    EXPECT_EQ(context, nullptr);
  }
}

} // namespace
