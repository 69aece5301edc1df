//===- Ranks.cpp - several ranks in one process ---------------------------===//

#include "Ranks.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>

using namespace te::bench;

/// The runtime's limit for a collective, in place of ten minutes.
static constexpr int64_t kPatienceMs = 20000;

void te::bench::need(te_rt_status status, const char *what) {
  if (status == TE_RT_OK)
    return;
  llvm::errs() << "te-bench: " << what << ": " << te_rt_last_error() << "\n";
  llvm::errs().flush();
  std::_Exit(1);
}

/// Moves bytes between threads, for groups of the reference backend.
class Team::Exchange {
public:
  explicit Exchange(int size) : barrier(size), given(size) {}

  te_rt_communicator communicator(int rank) {
    members.push_back(std::make_unique<Member>(Member{this, rank}));
    return {static_cast<int32_t>(given.size()), rank, members.back().get(),
            exchange};
  }

private:
  struct Member {
    Exchange *all;
    int rank;
  };
  static te_rt_status exchange(void *user, const void *send, int64_t stride,
                               void *receive, int64_t bytes, int64_t, char *) {
    const Member &self = *static_cast<Member *>(user);
    Exchange &all = *self.all;
    all.given[self.rank] = {static_cast<const char *>(send), stride};
    all.barrier.arrive_and_wait();
    for (size_t r = 0; r < all.given.size(); ++r)
      if (bytes)
        std::memcpy(static_cast<char *>(receive) + r * bytes,
                    all.given[r].first + self.rank * all.given[r].second,
                    bytes);
    all.barrier.arrive_and_wait();
    return TE_RT_OK;
  }

  std::barrier<> barrier;
  std::vector<std::pair<const char *, int64_t>> given;
  std::vector<std::unique_ptr<Member>> members;
};

Team::Team(const std::string &backend, int size) : onGpu(backend == "cuda") {
  for (int rank = 0; rank < size; ++rank) {
    te_rt_context *context = nullptr;
    need(onGpu ? te_rt_context_create_on_device("cuda", rank, &context)
               : te_rt_context_create("reference", &context),
         "context");
    need(te_rt_context_set_group_timeout(context, kPatienceMs), "time limit");
    contexts.push_back(context);
  }
}

Team::~Team() {
  first(static_cast<int>(contexts.size()))
      .each(
          [](te_rt_context *context, int) { te_rt_context_destroy(context); });
}

void Team::bind(int32_t id, int count) {
  if (onGpu) {
    char unique[TE_RT_GROUP_ID_BYTES];
    need(te_rt_group_unique_id(unique), "group id");
    first(count).each([&](te_rt_context *context, int rank) {
      need(te_rt_context_bind_group(context, id, unique, count, rank),
           "binding a group");
    });
    return;
  }
  exchanges.push_back(std::make_unique<Exchange>(count));
  std::vector<te_rt_communicator> members;
  for (int rank = 0; rank < count; ++rank)
    members.push_back(exchanges.back()->communicator(rank));
  first(count).each([&](te_rt_context *context, int rank) {
    need(te_rt_context_bind_communicator(context, id,
                                         &members[static_cast<size_t>(rank)]),
         "binding a group");
  });
}
