// Writes models by several processes: children that send texts, models with random bytes, and a fixture.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "format/slice/slice.h"
#include "io/temporary.h"
#include "os/directory.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {

// A child process that sends a text to its parent.
class Process {
 public:
  explicit Process(const std::function<std::string()>& body) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_ = start_child([&] {
      const std::string text = body();
      return ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    });
    ::close(ends[1]);
    reading_ = ends[0];
  }
  Process(Process&& other) noexcept : pid_(other.pid_), reading_(std::exchange(other.reading_, -1)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (reading_ < 0) return;
    ::kill(pid_, SIGKILL);
    (void)text();
  }
  // Waits for the end of the child, and returns what it has sent.
  std::string text() {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::read(reading_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(count));
    ::close(std::exchange(reading_, -1));
    (void)result_of(pid_);
    return text;
  }

 private:
  pid_t pid_;
  int reading_;
};

struct Model {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<std::string> data;  // U8

  void add(const Shape& shape) {
    names.push_back("t" + std::to_string(names.size()));
    shapes.push_back(shape);
    data.push_back(noise(static_cast<std::size_t>(shape.numel()), names.size()));
  }
  [[nodiscard]] CheckpointLayout layout(std::uint64_t max_size) const {
    std::vector<CheckpointTensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i)
      tensors.push_back({.name = names[i], .dtype = Dtype::U8, .shape = shapes[i]});
    return CheckpointLayout::make(tensors, {.max_shard_size = max_size, .stem = "m"}).value();
  }
  [[nodiscard]] std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i)
      tensors.emplace_back(TensorData{names[i], Dtype::U8, shapes[i], bytes_of(data[i])});
    return tensors;
  }
  // The bytes of a slice, in C order.
  [[nodiscard]] std::string slice(std::size_t i, const Slice& slice) const {
    const ResolvedSlice part = slice.resolve(Dtype::U8, shapes[i]).value();
    std::string bytes;
    format::Runs runs(part);
    for (format::ByteRun run; runs.next(run);) bytes += data[i].substr(run.offset, run.size);
    return bytes;
  }
};

using Writes = std::function<Status(CheckpointWriter&)>;

class ProcessesTest : public testing::Test {
 protected:
  // Four tensors of 4 bytes, each in a file of its own.
  static CheckpointLayout layout(std::size_t count = 4) { return small(count).layout(4); }
  static Model small(std::size_t count) {
    Model model;
    for (std::size_t i = 0; i < count; ++i) model.add({4});
    return model;
  }
  CheckpointWriter create(const CheckpointLayout& layout, CheckpointWriteOptions options = {}) {
    options.shared = true;
    return CheckpointWriter::create(folder_, layout, options).value();
  }
  // Returns the receipt, or the error.
  static std::string work(const std::string& ticket, const CheckpointLayout& layout, const Writes& writes) {
    Result<CheckpointWriter> writer = CheckpointWriter::join(ticket, layout);
    if (!writer) return writer.error().to_string();
    if (Status status = writes(*writer); !status) return status.error().to_string();
    const Result<std::string> receipt = writer->receipt();
    return receipt ? *receipt : receipt.error().to_string();
  }
  static Process start(const std::string& ticket, const CheckpointLayout& layout, const Writes& writes) {
    return Process([&] { return work(ticket, layout, writes); });
  }
  // Writes letters into all bytes of the tensors [first, last).
  static Writes letters(char letter, std::size_t first, std::size_t last) {
    return [=](CheckpointWriter& writer) -> Status {
      for (std::size_t i = first; i < last; ++i) {
        Status status = writer.write("t" + std::to_string(i), 0, bytes_of(std::string(4, letter)));
        if (!status) return status;
      }
      return {};
    };
  }
  void save_old(char letter = 'a', std::size_t count = 3) {
    CheckpointWriter writer = CheckpointWriter::create(folder_, layout(count)).value();
    ASSERT_TRUE(succeeds(letters(letter, 0, count)(writer)));
    ASSERT_TRUE(succeeds(writer.commit()));
  }
  std::string model() const { return letters_of(Checkpoint::open(folder_)); }
  // Removes what killed writers left, beside the folder of the model and in it.
  std::vector<std::string> clean_all() const {
    std::vector<std::string> found = io::clean_directory(directory_.path()).value();
    if (const auto inside = io::clean_directory(folder_)) found.insert(found.end(), inside->begin(), inside->end());
    return found;
  }
  // Removes what killed writers left. Returns the number of things removed, and expects that nothing else is there.
  std::size_t clean() const {
    const std::size_t found = clean_all().size();
    expect_no_temporary();
    return found;
  }
  void expect_no_temporary() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".safetensors-")) << entry.path();
  }
  // Compares all files of two folders.
  static void expect_same_files(const std::string& a, const std::string& b) {
    const std::vector<std::string> names = os::list_directory(a, true).value();
    EXPECT_EQ(names, os::list_directory(b, true).value());
    for (const std::string& name : names) EXPECT_TRUE(contents(a + "/" + name) == contents(b + "/" + name)) << name;
  }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_ / "model";
};

}  // namespace safetensors::test
