// The files that a crash leaves while a model is replaced. A child process replaces it, and is killed before each
// system call that changes a folder, one after the other. Each time, the folder must hold the old model or the new one,
// and the next save must leave nothing but its own files.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "os/directory.h"
#include "support/checkpoint_support.h"
#include "support/traced_child.h"

namespace safetensors::test {
namespace {

const std::set<std::uint64_t> kChanges = {
    SYS_linkat,   SYS_unlinkat, SYS_mkdirat, SYS_renameat2,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

using Change = std::function<void(const std::string& folder)>;

// Saves `count` files with one tensor each, or one file of all tensors. Each tensor has four times the letter.
void save_model(const std::string& folder, std::size_t count, char letter, std::uint64_t max_size = 4) {
  const std::vector<std::uint8_t> bytes(4, static_cast<std::uint8_t>(letter));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("t" + std::to_string(i));
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) tensors.emplace_back(name, Shape{4}, bytes);
  ASSERT_TRUE(succeeds(save_checkpoint(folder, tensors, {.max_shard_size = max_size}, {})));
}
Change saves(std::size_t count, char letter, std::uint64_t max_size = 4) {
  return [=](const std::string& folder) { save_model(folder, count, letter, max_size); };
}
constexpr std::uint64_t kOneShard = 100;  // a size of files

std::string read(const std::string& folder) {
  return letters_of(Checkpoint::open(folder));
}

// Other programs write an index that names `model.safetensors` and more files.
void save_with_index_of_one_file(const std::string& folder) {
  std::filesystem::create_directory(folder);
  put(folder + "/model.safetensors", u8_file({{"t0", "aaaa"}}));
  put(folder + "/extra.safetensors", u8_file({{"t1", "aaaa"}}));
  put(folder + "/model.safetensors.index.json", index_text({{"t0", "model.safetensors"}, {"t1", "extra.safetensors"}}));
  ASSERT_EQ(read(folder), "aa");
}

// The file of the old model is then one of one, in a generation.
void save_generation_of_one_file(const std::string& folder) {
  std::filesystem::create_directory(folder);
  put(folder + "/model.safetensors", u8_file({{"t0", "aaaa"}}));
  put(folder + "/model.safetensors.index.json", index_text({{"t0", "model.safetensors"}}));
  save_model(folder, 2, 'a', kOneShard);
  ASSERT_TRUE(std::filesystem::exists(folder + "/model-gen00002-00001-of-00001.safetensors"));
}

void save_three_times(const std::string& folder) {
  for (const char letter : {'x', 'y', 'a'}) save_model(folder, 2, letter);
}

struct Replacement {
  const char* name;
  Change prepare, replace;
  std::set<std::string> found;  // read() returns these after crashes, and nothing else
};

const Replacement kReplacements[] = {
    {"NewFolder", [](const std::string&) {}, saves(3, 'b'), {"open_failed", "bbb"}},
    {"EmptyFolder", [](const auto& f) { std::filesystem::create_directory(f); }, saves(3, 'b'), {"not_found", "bbb"}},
    {"OtherNames", saves(3, 'a'), saves(2, 'b'), {"aaa", "bb"}},
    {"EqualNames", saves(3, 'a'), saves(3, 'b'), {"aaa", "bbb"}},
    {"LaterGenerations", save_three_times, saves(2, 'b'), {"aa", "bb"}},
    {"OneFileReplacesMany", saves(3, 'a'), saves(2, 'b', kOneShard), {"aaa", "bb"}},
    {"ManyFilesReplaceOne", saves(2, 'a', kOneShard), saves(2, 'b'), {"aa", "bb"}},
    {"OneFileReplacesOne", saves(2, 'a', kOneShard), saves(2, 'b', kOneShard), {"aa", "bb"}},
    {"IndexNamesTheOneFile", save_with_index_of_one_file, saves(2, 'b', kOneShard), {"aa", "bb"}},
    {"OneFileReplacesOneOfAGeneration", save_generation_of_one_file, saves(2, 'b', kOneShard), {"aa", "bb"}},
};

void PrintTo(const Replacement& replacement, std::ostream* out) {
  *out << replacement.name;
}

class CheckpointCrash : public testing::TestWithParam<Replacement> {};
INSTANTIATE_TEST_SUITE_P(Models, CheckpointCrash, testing::ValuesIn(kReplacements),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(CheckpointCrash, KeepsOldOrNewModel) {
  std::set<std::string> found;
  for (int last = 0;; ++last) {
    const TemporaryDirectory directory;
    const std::string folder = directory / "model";
    GetParam().prepare(folder);
    const std::optional<Traced> traced = trace_child(kChanges, last, [&] { GetParam().replace(folder); });
    if (!traced) GTEST_SKIP() << "this process may not trace its children";
    found.insert(read(folder));
    ::unlink((folder + "/extra.safetensors").c_str());  // of another program
    save_model(folder, 2, 'z');
    EXPECT_EQ(read(folder), "zz");
    EXPECT_EQ(os::list_directory(folder, true).value().size(), 3U);
    EXPECT_EQ(directory.names(), std::vector<std::string>{"model"});
    if (!traced->killed) break;
    EXPECT_LT(last, 1000);
  }
  EXPECT_EQ(found, GetParam().found);
}

}  // namespace
}  // namespace safetensors::test
