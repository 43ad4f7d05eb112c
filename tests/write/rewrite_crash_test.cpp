// The files that a crash leaves while a model is rewritten in place. A child process is killed before each system call
// that changes the folder, one after the other. Each time, the same rewrite must work again, and leave nothing else.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/save.h>
#include <sys/syscall.h>
#include "write/rewrite.h"

#include <set>
#include <string>
#include <vector>

#include "os/directory.h"
#include "support/checkpoint_support.h"
#include "support/traced_child.h"

namespace safetensors::test {
namespace {

const std::set<std::uint64_t> kRewriteChanges = {
    SYS_linkat,
    SYS_unlinkat,
    SYS_renameat2,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

constexpr std::uint64_t kOneFile = 1000;  // a size of files

class RewriteCrash : public testing::Test {
 protected:
  static Status rewrite(const std::string& folder, std::uint64_t max_shard_size, const std::string& prefix) {
    const Result<Checkpoint> in = Checkpoint::open(folder);
    if (!in) return in.error();
    std::vector<RewriteTensor> tensors;
    for (const Tensor& tensor : in->tensors()) {
      tensors.push_back({.tensor = tensor});
      if (!tensor.name().starts_with(prefix)) tensors.back().name = prefix + std::string(tensor.name());
    }
    const Result<Rewrite> planned =
        Rewrite::plan(std::move(tensors), {.folder = true, .max_shard_size = max_shard_size, .stem = "model"});
    if (!planned) return planned.error();
    if (Status status = planned->check_old_files(folder, *in); !status) return status;
    const auto written = planned->write(folder, {.write = {.durability = Durability::none}});
    return written ? Status() : Status(written.error());
  }
  // Saves a model of three tensors of 4 bytes, and rewrites it with a kill at every place.
  static void kill_everywhere(std::uint64_t old_size, std::uint64_t new_size, const std::string& prefix = "") {
    for (int last = 0; last < 1000; ++last) {
      const TemporaryDirectory directory;
      const std::string folder = directory / "model";
      const std::vector<std::uint8_t> a(4, 'a'), b(4, 'b'), c(4, 'c');
      ASSERT_TRUE(succeeds(save_checkpoint(folder, {{"a", {4}, a}, {"b", {4}, b}, {"c", {4}, c}},
                                           {.max_shard_size = old_size, .stem = "model"})));
      const auto traced = trace_child(kRewriteChanges, last, [&] { (void)rewrite(folder, new_size, prefix); });
      if (!traced) GTEST_SKIP() << "this process may not trace its children";
      EXPECT_EQ(letters_of(Checkpoint::open(folder)), "abc") << last;
      EXPECT_TRUE(succeeds(rewrite(folder, new_size, prefix))) << last;
      EXPECT_EQ(letters_of(Checkpoint::open(folder)), "abc") << last;
      const std::size_t files = new_size == kOneFile ? 1 : (12 + new_size - 1) / new_size + 1;
      EXPECT_EQ(os::list_directory(folder, true).value().size(), files) << last;
      if (!traced->killed) break;
    }
  }
};

TEST_F(RewriteCrash, BlocksNoLaterRewrite) {
  kill_everywhere(4, 4);  // equal names
  kill_everywhere(4, 8);  // fewer files
  for (const char* prefix : {"", "renamed."}) {
    kill_everywhere(4, kOneFile, prefix);
    kill_everywhere(kOneFile, 4, prefix);
  }
}

}  // namespace
}  // namespace safetensors::test
