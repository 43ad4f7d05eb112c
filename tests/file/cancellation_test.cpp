// Opening can be cancelled before it begins, and at every question during its work.
#include <safetensors/checkpoint.h>
#include <safetensors/file.h>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/cancellation.h"
#include "os/descriptor.h"
#include "os/parallel.h"
#include "support/checkpoint_support.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string empty_tensor(std::string_view name) {
  return "\"" + std::string(name) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
}

// Names ascend; all tensors begin at one offset.
std::string ordered_header(std::size_t bytes) {
  return repeated("{", "}", bytes, [](std::size_t i) { return empty_tensor(std::to_string(10'000'000 + i)); });
}

// The same in no order: they must be sorted by name.
std::string shuffled_header(std::size_t bytes) {
  return repeated("{", "}", bytes,
                  [](std::size_t i) { return empty_tensor(std::to_string(10'000'000 + i * 7919 % 1'000'003)); });
}

// Metadata, an unknown field, escapes, and tensors in no order.
std::string mixed_header() {
  std::string text = repeated(R"({"__metadata__":{)", "},", kMiB / 2,
                              [](std::size_t i) { return "\"\\u0041" + std::to_string(i) + "\":\"\\n\""; });
  text += repeated(R"("a":{"x":[)", R"(],"dtype":"U8","shape":[0],"data_offsets":[0,0]},)", kMiB / 2,
                   [](std::size_t) { return std::string("[{},1e3]"); });
  return text + shuffled_header(kMiB / 2).substr(1);
}

ParseOptions asked(std::function<bool()> cancelled) {
  ParseOptions options;
  options.cancelled = std::move(cancelled);
  return options;
}

// Returns how often the parse of a whole header asks.
std::size_t questions(const std::string& text) {
  std::size_t count = 0;
  EXPECT_TRUE(succeeds(Header::parse(text, 0, asked([&] { return ++count == 0; }))));
  return count;
}

void expect_cancelled(const Error& error) {
  EXPECT_EQ(error.code, Errc::cancelled) << error.to_string();
  EXPECT_EQ(error.message, "cancelled while opening");
}

TEST(OpenCancellation, StopsBeforeFirstRead) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model.safetensors";
  put(path, two_tensors());
  put(directory / "model.safetensors.index.json", index_text({{"a", "model.safetensors"}}));
  const std::string bytes = contents(path);
  const os::Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto source = std::make_shared<ScriptedSource>(bytes);
  int calls = 0;
  const ParseOptions parse = asked([&] { return ++calls != 0; });

  const Error opened = error_of(File::open(path, {.parse = parse}));
  expect_cancelled(opened);
  EXPECT_EQ(opened.path, path);
  expect_cancelled(error_of(File::from_fd(descriptor.get(), {.parse = parse})));
  expect_cancelled(error_of(File::from_memory(std::as_bytes(std::span(bytes)), nullptr, parse)));
  expect_cancelled(error_of(File::from_source(source, parse)));
  EXPECT_TRUE(source->reads().empty());
  expect_cancelled(error_of(Header::parse("{}", 0, parse)));
  for (const std::string& each : {path, directory.path()})
    expect_cancelled(error_of(Checkpoint::open(each, {.parse = parse})));
  EXPECT_EQ(calls, 7);  // once by each, and never again after the first true
}

TEST(OpenCancellation, StopsAtAnyCall) {
  const std::string text = mixed_header();
  const std::size_t all = questions(text);
  ASSERT_GT(all, 20U);
  for (std::size_t last = 1; last <= all; ++last) {
    std::size_t count = 0;
    expect_cancelled(error_of(Header::parse(text, 0, asked([&] { return ++count >= last; }))));
    ASSERT_EQ(count, last) << "asked again after a true";
  }
}

TEST(OpenCancellation, AsksEvery128KiBOfAnyText) {
  constexpr std::size_t kSize = 4 * kMiB;
  const std::string fields = R"("dtype":"U8","shape":[0],"data_offsets":[0,0])";
  const std::string texts[] = {
      ordered_header(kSize),
      repeated(R"({"__metadata__":{)", "}}", kSize, [](std::size_t i) { return "\"" + std::to_string(i) + "\":\"\""; }),
      repeated(R"({"a":{"x":[)", "]," + fields + "}}", kSize, [](std::size_t) { return std::string("0"); }),
      repeated(R"({"a":{)", "," + fields + "}}", kSize,
               [](std::size_t i) { return "\"" + std::to_string(i) + "\":0"; }),
      repeated(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[)", "]}}", kSize,
               [](std::size_t) { return std::string("0"); }),
      R"({"__metadata__":{"":")" + std::string(kSize, '\\') + "\"}}",
  };
  for (const std::string& text : texts) EXPECT_GE(questions(text), text.size() / (128 << 10)) << text.substr(0, 80);
}

TEST(OpenCancellation, AsksWhileNamesAreIndexed) {
  const std::string text = ordered_header(4 * kMiB);
  const std::size_t tensors = Header::parse(text, 0).value().size();
  EXPECT_GE(questions(text), text.size() / (64 << 10) + tensors / 4096);
}

TEST(OpenCancellation, AsksWhileTensorsAreSorted) {
  const std::string shuffled = shuffled_header(4 * kMiB);
  const std::size_t tensors = Header::parse(shuffled, 0).value().size();
  EXPECT_GE(questions(shuffled), questions(ordered_header(4 * kMiB)) + tensors / 4096 * 10);
}

// An index of one file of many tensors: asked while its text is read, its names indexed, its shards sorted, and its
// tensors looked up.
TEST(OpenCancellation, StopsCheckpointAtAnyCall) {
  const TemporaryDirectory directory;
  std::vector<std::pair<std::string, std::string>> map;
  std::string header = "{";
  for (std::size_t i = 0; i < 10'000; ++i) {
    map.emplace_back("t" + std::to_string(i), i % 2 == 0 ? "a.safetensors" : "b.safetensors");
    header += (i == 0 ? "" : ",") + empty_tensor(map.back().first);
  }
  put(directory / "model.safetensors.index.json", index_text(map));
  for (const char* name : {"a.safetensors", "b.safetensors"}) put(directory / name, file_bytes(header + "}", ""));
  std::size_t all = 0;
  const auto open = [&](std::function<bool()> cancelled) {
    return Checkpoint::open(directory.path(), {.parse = asked(std::move(cancelled)), .threads = 1});
  };
  ASSERT_TRUE(succeeds(open([&] { return ++all == 0; })));
  ASSERT_GT(all, 30U);
  for (std::size_t last = 1; last <= all; ++last) {
    std::size_t count = 0;
    expect_cancelled(error_of(open([&] { return ++count >= last; })));
    ASSERT_EQ(count, last);
  }
}

// One task runs until it is cancelled, the others end at once. Whichever thread has it: the caller's asks, also when it
// has nothing left to do but wait.
TEST(OpenCancellation, AsksWhileWaitingForThreads) {
  for (int round = 0; round < 20; ++round) {
    const std::thread::id caller = std::this_thread::get_id();
    int calls = 0;
    const Callback<bool()> cancelled = [&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return ++calls == 3;
    };
    base::Cancellation cancellation(cancelled);
    const auto task = [&](std::size_t index) -> Status {
      if (index != 0) return {};
      while (!cancellation.requested()) std::this_thread::yield();
      return Error{.code = Errc::cancelled, .message = "0"};
    };
    EXPECT_EQ(error_of(os::run_parallel(4, 4, task, &cancellation)).code, Errc::cancelled);
    EXPECT_EQ(calls, 3);
  }
}

}  // namespace
}  // namespace safetensors::test
