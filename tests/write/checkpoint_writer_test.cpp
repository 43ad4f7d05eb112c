// CheckpointWriter and save_checkpoint(): the files and the index that appear, the old files that go, and the calls
// that are refused.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/temporary.h"

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include "os/directory.h"
#include "support/checkpoint_writer_support.h"

namespace safetensors::test {
namespace {

TEST_F(CheckpointWriterTest, ShowsNewFolderAtOnce) {
  {
    CheckpointWriter made = writer(3);
    EXPECT_EQ(made.layout().files().size(), 3U);
    ASSERT_EQ(beside().size(), 1U);
    EXPECT_TRUE(beside()[0].starts_with(".safetensors-")) << beside()[0];
    ASSERT_TRUE(succeeds(write_all(made, 3, 'a')));
    ASSERT_TRUE(succeeds(made.commit()));
    EXPECT_EQ(beside(), Names{"model"});
    EXPECT_EQ(error_of(made.commit()).code, Errc::writer_closed);
    EXPECT_EQ(error_of(made.write("t0", 0, bytes_of("abcd"))).code, Errc::writer_closed);
  }
  EXPECT_EQ(files(), kThree);
  EXPECT_EQ(model(), "3 aaa");
  const CheckpointLayout layout = layout_of(3);
  EXPECT_EQ(contents(folder_ + "/m.safetensors.index.json"), layout.index_text());
  const Checkpoint written = Checkpoint::open(folder_).value();
  EXPECT_EQ(written.index_metadata(), R"({"total_size":12})");
}

TEST_F(CheckpointWriterTest, WritesOneFileWithoutIndex) {
  for (const std::size_t tensors : {2U, 0U}) {
    save(tensors, 'a', 2);
    EXPECT_EQ(files(), Names{"m.safetensors"});
    EXPECT_EQ(model(), std::to_string(tensors) + " " + std::string(tensors, 'a'));
  }
}

TEST_F(CheckpointWriterTest, WritesIntoExistingFolder) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  put(folder_ + "/config.json", "{}");
  put(folder_ + "/m-2.safetensors", "other");
  put(folder_ + "/m-0001-of-0002.safetensors", "other");
  put(folder_ + "/other-00001-of-00002.safetensors", "other");
  CheckpointWriter made = writer(3);
  ASSERT_TRUE(succeeds(write_all(made, 3, 'a')));
  EXPECT_EQ(beside(), Names{"model"});
  ASSERT_TRUE(succeeds(made.commit()));
  Names expected = kThree;
  for (const char* other :
       {"config.json", "m-2.safetensors", "m-0001-of-0002.safetensors", "other-00001-of-00002.safetensors"})
    expected.push_back(other);
  std::ranges::sort(expected);
  EXPECT_EQ(files(), expected);
  EXPECT_EQ(model(), "3 aaa");
}

TEST_F(CheckpointWriterTest, KeepsOldFilesOnRequest) {
  save(3, 'a');
  save(2, 'b', 1, {.remove_old_files = false});
  EXPECT_EQ(model(), "2 bb");
  for (const std::string& name : kThree) EXPECT_FALSE(contents(folder_ + "/" + name).empty()) << name;
  save(1, 'c', 1, {.remove_old_files = false});
  EXPECT_FALSE(contents(folder_ + "/m.safetensors").empty());
  EXPECT_EQ(::access((folder_ + "/m.safetensors.index.json").c_str(), F_OK), -1);
}

// The user may search the folder and write into it, but not list it.
TEST_F(CheckpointWriterTest, WritesIntoUnlistableFolder) {
  save(2, 'a', 2);  // m.safetensors, which some programs read before they look for an index
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0333), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              save(3, 'b');
              return !HasFailure() && !os::list_directory(folder_);
            }),
            0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(files(), kThree);
  EXPECT_EQ(model(), "3 bbb");

  // The index names the old files.
  ASSERT_EQ(::chmod(folder_.c_str(), 0333), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              save(2, 'c', 2);
              return !HasFailure();
            }),
            0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(files(), Names{"m.safetensors"});
  EXPECT_EQ(model(), "2 cc");
}

TEST_F(CheckpointWriterTest, RefusesExistingFolderOnRequest) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  const auto made = CheckpointWriter::create(folder_ + "//", layout_of(1), {.new_folder = true});
  const Error error = error_of(made);
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.os_error, EEXIST);
  EXPECT_EQ(error.message, "cannot create a new folder, the path is in use: file exists");
  EXPECT_EQ(beside(), Names{"model"});
  ASSERT_EQ(::rmdir(folder_.c_str()), 0);
  save(1, 'a', 1, {.new_folder = true});
  EXPECT_EQ(model(), "1 a");
}

TEST_F(CheckpointWriterTest, RefusesWhatAppearsAtPathAndFailsAgain) {
  CheckpointWriter made = writer(2);
  ASSERT_TRUE(succeeds(write_all(made, 2, 'a')));
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  put(folder_ + "/x", "x");
  const Error error = error_of(made.commit());
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.message.substr(0, error.message.find(':')), "cannot put the new folder in place");
  EXPECT_EQ(beside(), Names{"model"});
  EXPECT_EQ(files(), Names{"x"});
  EXPECT_EQ(error_of(made.write("t0", 0, bytes_of("a"))).code, Errc::replace_failed);
  EXPECT_EQ(error_of(made.commit()).code, Errc::replace_failed);
}

TEST_F(CheckpointWriterTest, ReplacesSymlinks) {
  save(2, 'a');
  const std::string first = folder_ + "/m-00001-of-00002.safetensors";
  const std::string second = folder_ + "/m-00002-of-00002.safetensors";
  put(directory_ / "blob", contents(first));
  for (const std::string& path : {first, second, folder_ + "/m.safetensors"}) {
    ::unlink(path.c_str());
    ASSERT_EQ(::symlink(path.ends_with("/m.safetensors") ? first.c_str() : "../blob", path.c_str()), 0);
  }
  const std::string blob = contents(directory_ / "blob");
  save(2, 'b');
  EXPECT_EQ(model(), "2 bb");
  EXPECT_EQ(contents(directory_ / "blob"), blob);
  save(2, 'c', 2);
  EXPECT_EQ(model(), "2 cc");
}

TEST_F(CheckpointWriterTest, ShowsPathOfFolderInErrors) {
  CheckpointWriter made = writer(2);
  EXPECT_EQ(error_of(made.commit()).path, folder_ + "/m-00001-of-00002.safetensors");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit lower{40, limit.rlim_max};
  const CheckpointLayout layout = layout_of(100);
  EXPECT_EQ(in_child([&] {
              if (::setrlimit(RLIMIT_NOFILE, &lower) != 0) return false;
              const Error error = error_of(CheckpointWriter::create(directory_ / "many", layout));
              return error.os_error == EMFILE && error.path.find(".folder") == std::string::npos &&
                     error.message.find("all 100 files are open at the same time") != std::string::npos;
            }),
            0);
  EXPECT_EQ(beside().size(), 1U);
}

TEST_F(CheckpointWriterTest, NeverShowsFolderOfAnother) {
  CheckpointWriter made = writer(1);
  ASSERT_TRUE(succeeds(write_all(made, 1, 'a')));
  const std::string temporary = directory_ / beside()[0];
  ASSERT_EQ(::rename(temporary.c_str(), (directory_ / "moved").c_str()), 0);
  ASSERT_EQ(::mkdir(temporary.c_str(), 0700), 0);
  EXPECT_EQ(error_of(made.commit()).code, Errc::replace_failed);
  EXPECT_EQ(::access(folder_.c_str(), F_OK), -1);
}

TEST_F(CheckpointWriterTest, RemovesWorkWithoutCommit) {
  {
    CheckpointWriter made = writer(3);
    ASSERT_TRUE(succeeds(write_all(made, 2, 'a')));
  }
  EXPECT_EQ(beside(), Names{});
  save(3, 'a');
  {
    CheckpointWriter made = writer(3);
    ASSERT_TRUE(succeeds(write_all(made, 3, 'b')));
  }
  EXPECT_EQ(files(), kThree);
  EXPECT_EQ(model(), "3 aaa");
}

TEST_F(CheckpointWriterTest, KeepsFolderOfParentInChild) {
  CheckpointWriter made = writer(3);
  EXPECT_EQ(in_child([&] {
              CheckpointWriter moved = std::move(made);
              return true;
            }),
            0);
  EXPECT_EQ(beside().size(), 1U);
  ASSERT_TRUE(succeeds(write_all(made, 3, 'a')));
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(model(), "3 aaa");
}

TEST_F(CheckpointWriterTest, NamesWhatIsMissing) {
  CheckpointWriter made = writer(3);
  ASSERT_TRUE(succeeds(made.write("t0", 0, bytes_of("abcd"))));
  ASSERT_TRUE(succeeds(made.write("t2", 0, bytes_of("ab"))));
  EXPECT_EQ(error_of(made.commit()).message, "tensor `t1`: bytes 0 to 4 of 4 were never written");
  EXPECT_EQ(error_of(made.write("t0", 3, bytes_of("x"))).code, Errc::overlapping_write);
  EXPECT_EQ(error_of(made.write("t1", 3, bytes_of("xx"))).code, Errc::buffer_size);
  EXPECT_EQ(error_of(made.write("t3", 0, bytes_of("x"))).message, "no tensor `t3` in the layout");
  ASSERT_TRUE(succeeds(made.write("t1", 0, bytes_of("abcd"))));
  EXPECT_EQ(error_of(made.commit()).message, "tensor `t2`: bytes 2 to 4 of 4 were never written");
  ASSERT_TRUE(succeeds(made.write("t2", 2, bytes_of("cd"))));
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(model(), "3 aaa");
}

TEST_F(CheckpointWriterTest, TakesBytesOfManyThreads) {
  constexpr std::size_t kCount = 64;
  CheckpointWriter made = writer(kCount, 7);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t i = thread; i < kCount; i += 4) {
        for (const std::uint64_t at : {2U, 0U}) EXPECT_TRUE(made.write("t" + std::to_string(i), at, bytes_of("xy")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(model(), "64 " + std::string(kCount, 'x'));
}

// Without bytes of tensors, no write reports anything. So commit() does, as save_checkpoint() does.
TEST_F(CheckpointWriterTest, ReportsModelsWithoutBytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reports;
  CheckpointWriteOptions options;
  options.write.progress = [&](std::uint64_t done, std::uint64_t total) {
    reports.emplace_back(done, total);
    return true;
  };
  const Shape empty{0};
  const CheckpointTensor tensor{.name = "t0", .dtype = Dtype::U8, .shape = empty};
  for (const std::size_t count : {0U, 1U}) {
    reports.clear();
    const CheckpointLayout layout = CheckpointLayout::make(std::span(&tensor, count)).value();
    const std::uint64_t size = layout.files()[0].header.file_bytes();
    CheckpointWriter made = CheckpointWriter::create(folder_, layout, options).value();
    if (count != 0) {
      ASSERT_TRUE(succeeds(made.write("t0", 0, {})));
    }
    ASSERT_TRUE(succeeds(made.commit()));
    EXPECT_EQ(reports, (std::vector{std::pair(size, size)}));
    reports.clear();
    const TensorData data{"t0", Dtype::U8, empty, {}};
    const std::vector<NamedTensor> tensors(count, NamedTensor(data));
    ASSERT_TRUE(succeeds(save_checkpoint(folder_, tensors, layout, options)));
    EXPECT_EQ(reports, (std::vector{std::pair(size, size)}));
  }
}

// Without tensors, commit() is the call that reports.
TEST_F(CheckpointWriterTest, IsCancelledByProgress) {
  CheckpointWriteOptions options;
  options.write.progress = [](std::uint64_t, std::uint64_t) { return false; };
  for (const std::size_t tensors : {0U, 1U}) {
    CheckpointWriter made = writer(tensors, 1, options);
    EXPECT_EQ(write_all(made, tensors, 'a').ok(), tensors == 0);
    for (int again = 0; again < 2; ++again) EXPECT_EQ(error_of(made.commit()).code, Errc::cancelled);
  }
  EXPECT_EQ(beside(), Names{});
}

TEST_F(CheckpointWriterTest, IsClosedAfterMove) {
  CheckpointWriter from = writer(1);
  CheckpointWriter to = std::move(from);
  EXPECT_EQ(from.layout().files().size(), 1U);  // NOLINT(bugprone-use-after-move): this is what the test is about
  EXPECT_EQ(error_of(from.write("t0", 0, bytes_of("a"))).code, Errc::writer_closed);
  EXPECT_EQ(error_of(from.commit()).code, Errc::writer_closed);
  ASSERT_TRUE(succeeds(write_all(to, 1, 'a')));
  ASSERT_TRUE(succeeds(to.commit()));
}

TEST_F(CheckpointWriterTest, RefusesBadFolders) {
  const auto code = [&](const std::string& path) {
    return error_of(CheckpointWriter::create(path, layout_of(1))).code;
  };
  put(directory_ / "file", "x");
  EXPECT_EQ(code(directory_ / "file"), Errc::open_failed);
  EXPECT_EQ(code(directory_ / "missing/model"), Errc::open_failed);
  EXPECT_EQ(code(""), Errc::open_failed);
  EXPECT_EQ(code(std::string(300, 'x')), Errc::open_failed);
  EXPECT_EQ(error_of(CheckpointWriter::create("/", layout_of(1), {.new_folder = true})).os_error, EEXIST);
  EXPECT_EQ(code(std::string("a\0b", 3)), Errc::invalid_argument);
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((folder_ + "/m.safetensors").c_str(), 0700), 0);
  EXPECT_EQ(code(folder_), Errc::not_regular_file);
}

TEST_F(CheckpointWriterTest, CopiesTensorsOfReplacedFiles) {
  save(3, 'a');
  const Checkpoint old = Checkpoint::open(folder_).value();
  CheckpointWriter made = writer(3);
  for (const Tensor& tensor : old.tensors()) ASSERT_TRUE(succeeds(made.copy(tensor.name(), tensor)));
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(model(), "3 aaa");
}

TEST_F(CheckpointWriterTest, SavesTensorsInMemory) {
  const std::vector<float> w{0, 1, 2, 3, 4, 5};
  const std::vector<std::int64_t> b{7, 8};
  ASSERT_TRUE(succeeds(save_checkpoint(folder_, {{"w", {2, 3}, w}, {"b", {2}, b}},
                                       {.max_shard_size = 30, .metadata = {{"format", "pt"}}})));
  const Checkpoint model = Checkpoint::open(folder_).value();
  EXPECT_EQ(names_of(model), (Names{"w", "b"}));
  EXPECT_EQ(model.metadata().find("format"), "pt");
  EXPECT_EQ(model.index_metadata(), R"({"total_size":40})");
  if (!kBigEndian) {
    EXPECT_EQ(model.get<float>("w", {2, 3}).value()(1, 2), 5.0F);
  }
}

// Large files bypass the page cache, small tensors are gathered, and only this thread reports.
TEST_F(CheckpointWriterTest, SavesLargeTensorsWithSeveralThreads) {
  std::vector<std::string> bytes;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < 6; ++i) bytes.push_back(noise(i * 3'000'000 + 1000 * i + 17, i));
  for (std::size_t i = 0; i < 6; ++i)
    tensors.emplace_back(TensorData{"t" + std::to_string(i), Dtype::U8, Shape{bytes[i].size()}, bytes_of(bytes[i])});
  for (const Durability durability : {Durability::none, Durability::file, Durability::full}) {
    const auto self = std::this_thread::get_id();
    std::uint64_t reported = 0, size = 0;
    CheckpointWriteOptions options{.write = {.durability = durability}};
    options.write.progress = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_GE(done, reported);
      reported = done;
      size = total;
      return true;
    };
    ASSERT_TRUE(succeeds(save_checkpoint(folder_, tensors, {.max_shard_size = 9'000'000}, options)));
    EXPECT_EQ(reported, size);
    const Checkpoint model = Checkpoint::open(folder_).value();
    std::uint64_t sum = 0;
    for (const File& file : model.files()) sum += file.header().file_bytes();
    EXPECT_EQ(size, sum);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(read_text(model.tensor("t" + std::to_string(i))) == bytes[i]) << i;
  }
}

TEST_F(CheckpointWriterTest, SavesTensorsOfLayout) {
  const std::vector<std::uint8_t> a(4, 'a');
  const Shape four{4};
  const TensorData b{"t1", Dtype::U8, four, std::as_bytes(std::span(a))};
  const CheckpointLayout layout = layout_of(2);
  const auto saved = [&](std::initializer_list<NamedTensor> tensors) {
    const Status status = save_checkpoint(folder_, tensors, layout);
    return status ? model() : std::string(to_string(status.error().code));
  };
  EXPECT_EQ(saved({b}), "incomplete_write");
  EXPECT_EQ(saved({{"t0", {4}, a}, b, {"t2", {4}, a}}), "not_found");
  EXPECT_EQ(saved({{"t0", {4}, a}, b, b}), "duplicate_name");
  EXPECT_EQ(saved({{"t0", {2, 2}, a}, b}), "shape_mismatch");
  EXPECT_EQ(saved({{"t0", {1}, std::vector<float>(1)}, b}), "dtype_mismatch");
  EXPECT_EQ(beside(), Names{});
  EXPECT_EQ(saved({b, {"t0", {4}, a}}), "2 aa");
}

TEST_F(CheckpointWriterTest, SavesTensorsOfOtherFiles) {
  save(3, 'a');
  const Checkpoint old = Checkpoint::open(folder_).value();
  const std::vector<std::uint8_t> more(4, 'b');
  ASSERT_TRUE(succeeds(
      save_checkpoint(folder_, {old["t0"], {"t1", {4}, more}, {"t2", old["t2"]}}, {.max_shard_size = 8, .stem = "m"})));
  EXPECT_EQ(model(), "3 aba");
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(CheckpointWriterTest, RefusesWrongLengthsBeforeWriting) {
  save(3, 'a');
  const Checkpoint old = Checkpoint::open(folder_).value();
  const std::vector<std::uint8_t> three(3, 'b');
  EXPECT_EQ(error_of(save_checkpoint(folder_, {{"t0", {4}, three}})).code, Errc::data_length);
  EXPECT_EQ(error_of(save_checkpoint(folder_, {old["t1"], {"t0", {4}, three}})).code, Errc::data_length);
  EXPECT_EQ(error_of(save_checkpoint(folder_, {{"t0", {3}, three}, {"t0", {3}, three}})).code, Errc::duplicate_name);
  EXPECT_EQ(files(), kThree);
}

}  // namespace
}  // namespace safetensors::test
