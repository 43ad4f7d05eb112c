// Writes small models with CheckpointWriter, and reads them back.
#pragma once

#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>

#include <cstddef>
#include <string>
#include <vector>

#include "os/directory.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {

using Names = std::vector<std::string>;
inline const Names kThree = {"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors",
                             "m-00003-of-00003.safetensors", "m.safetensors.index.json"};

inline const Names kTwo = {"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"};

class CheckpointWriterTest : public testing::Test {
 protected:
  // Tensors "t0", "t1" and so on, each of 4 bytes with the letter given, and `per_file` of them in a file.
  static CheckpointLayout layout_of(std::size_t count, std::size_t per_file = 1) {
    const Shape shape{4};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back("t" + std::to_string(i));
    std::vector<CheckpointTensor> tensors;
    for (const std::string& name : names) tensors.push_back({.name = name, .dtype = Dtype::U8, .shape = shape});
    return CheckpointLayout::make(tensors, {.max_shard_size = 4 * per_file, .stem = "m"}).value();
  }
  CheckpointWriter writer(std::size_t count, std::size_t per_file = 1, const CheckpointWriteOptions& options = {}) {
    return CheckpointWriter::create(folder_, layout_of(count, per_file), options).value();
  }
  static Status write_all(CheckpointWriter& writer, std::size_t count, char letter) {
    for (std::size_t i = 0; i < count; ++i) {
      Status status = writer.write("t" + std::to_string(i), 0, bytes_of(std::string(4, letter)));
      if (!status) return status;
    }
    return {};
  }
  void save(std::size_t count, char letter, std::size_t per_file = 1, const CheckpointWriteOptions& options = {}) {
    CheckpointWriter made = writer(count, per_file, options);
    ASSERT_TRUE(succeeds(write_all(made, count, letter)));
    ASSERT_TRUE(succeeds(made.commit()));
  }
  // Reads the model: the number of its tensors and the letters of each.
  std::string model() {
    const Result<Checkpoint> model = Checkpoint::open(folder_);
    if (!model) return model.error().to_string();
    std::string text = std::to_string(model->size()) + " ";
    for (std::size_t i = 0; i < model->size(); ++i) text += read_text(model->tensor("t" + std::to_string(i)))[0];
    return text;
  }
  Names files() const { return os::list_directory(folder_, true).value(); }
  // The names next to the folder.
  Names beside() const { return directory_.names(); }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_ / "model";
};

}  // namespace safetensors::test
