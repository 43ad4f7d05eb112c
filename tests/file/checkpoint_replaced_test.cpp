// Checkpoint::open() while a save replaces the model: it opens the old files or the new ones, and waits for nobody.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>

#include <functional>
#include <string>
#include <vector>

#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

class CheckpointReplaced : public testing::Test {
 protected:
  // Saves three tensors of four letters each. max_size: 4 makes three files, 100 makes one.
  void save(char letter, std::uint64_t max_size = 4) {
    const std::vector<std::uint8_t> bytes(4, static_cast<std::uint8_t>(letter));
    const Shape shape{4};
    ASSERT_TRUE(succeeds(save_checkpoint(folder_, {{"a", shape, bytes}, {"b", shape, bytes}, {"c", shape, bytes}},
                                         CheckpointLayoutOptions{.max_shard_size = max_size})));
  }
  // Opens the model. `meanwhile` runs each time that the call asks whether it is cancelled. Returns the letters of the
  // tensors, or the error.
  std::string open(const std::function<void()>& meanwhile) {
    OpenOptions options;
    options.threads = 1;
    options.parse.cancelled = [&] { return meanwhile(), false; };
    const Result<Checkpoint> model = Checkpoint::open(folder_, options);
    return model ? letters_of(model) : model.error().to_string();
  }
  TemporaryDirectory directory_;
  const std::string folder_ = directory_ / "model";
};

// The save runs at each moment of the call, one after the other.
TEST_F(CheckpointReplaced, OpensOldOrNewModel) {
  for (const auto& [before, after] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{4, 4}, {4, 100}, {100, 4}}) {
    for (int moment = 0;; ++moment) {
      ASSERT_LT(moment, 1000);
      save('a', before);
      int questions = 0;
      const std::string found = open([&, size = after] {
        if (questions++ == moment) save('b', size);
      });
      EXPECT_TRUE(found == "aaa" || found == "bbb") << found << " at moment " << moment;
      if (questions <= moment) break;
    }
  }
}

// A program that saves again and again does not keep the call busy for ever.
TEST_F(CheckpointReplaced, GivesUpIfModelIsAlwaysReplaced) {
  save('a');
  int saves = 0;
  bool saving = false;
  const std::string found = open([&] {
    if (saving || saves == 1000) return;
    saving = true;
    save('b');
    ++saves;
    saving = false;
  });
  EXPECT_NE(found.find("no such file or directory"), std::string::npos) << found;
  EXPECT_LT(saves, 1000);
}

}  // namespace
}  // namespace safetensors::test
