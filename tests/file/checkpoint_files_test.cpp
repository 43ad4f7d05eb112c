// Checkpoint: which of its files are open at which time, and the effect of files that change.
#include <safetensors/checkpoint.h>
#include <safetensors/read_plan.h>
#include <safetensors/writer.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/checkpoint_support.h"
#include "support/sanitizers.h"

namespace safetensors::test {
namespace {

// Lowers the maximum number of open descriptors of this process. The destructor restores it.
class NoMoreThan {
 public:
  explicit NoMoreThan(rlim_t descriptors) {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) std::abort();
    struct rlimit limit = before_;
    limit.rlim_cur = descriptors;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
  }
  NoMoreThan(const NoMoreThan&) = delete;
  NoMoreThan& operator=(const NoMoreThan&) = delete;
  ~NoMoreThan() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  struct rlimit before_;
};

class CheckpointFiles : public testing::Test {
 protected:
  void put_files(std::size_t count) { put_model(directory_, count); }
  std::size_t open() const { return open_below(directory_.path()); }
  Checkpoint model(rlim_t descriptors) {
    const NoMoreThan limit(descriptors);
    return Checkpoint::open(directory_.path()).value();
  }
  static void expect_tensor(const Checkpoint& model, std::size_t i) {
    ASSERT_EQ(read_text(model.tensor(numbered("t", i))), model_bytes(i)) << i;
  }
  TemporaryDirectory directory_;
};

TEST_F(CheckpointFiles, StayOpenIfFew) {
  put_files(20);
  {
    const Checkpoint all = model(64);
    EXPECT_EQ(open(), 20U);
    for (std::size_t i = 0; i < 20; ++i) expect_tensor(all, i);
    EXPECT_EQ(open(), 20U);
  }
  EXPECT_EQ(open(), 0U);
}

TEST_F(CheckpointFiles, UseHalfOfDescriptorLimit) {
  put_files(100);
  {
    const NoMoreThan limit(32);
    const Result<Checkpoint> opened = Checkpoint::open(directory_.path());
    ASSERT_TRUE(succeeds(opened));
    EXPECT_LE(open(), 16U);
    for (std::size_t round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < 100; ++i) {
        expect_tensor(*opened, (i * 37 + round) % 100);
        ASSERT_LE(open(), 16U);
      }
    }
  }
  EXPECT_EQ(open(), 0U);
}

TEST_F(CheckpointFiles, CanBeCopiedToWriter) {
  put_files(30);
  const Checkpoint all = model(12);
  HeaderBuilder builder;
  for (const Tensor& tensor : all.tensors())
    ASSERT_TRUE(succeeds(builder.add(tensor.name(), tensor.dtype(), tensor.shape())));
  const TemporaryDirectory elsewhere;
  Writer writer = Writer::create(elsewhere / "out", builder.build().value()).value();
  for (const Tensor& tensor : all.tensors()) ASSERT_TRUE(succeeds(writer.copy(tensor.name(), tensor)));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(read_text(File::open(elsewhere / "out").value().tensor("t00027")), model_bytes(27));
  EXPECT_LE(open(), 6U);
}

// Fewer descriptors are free than there are files. Each thread needs one, and some threads get none.
TEST_F(CheckpointFiles, OpenOneByOneIfNeeded) {
  put_files(30);
  std::vector<int> others;
  {
    const NoMoreThan limit(64);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) others.push_back(fd);
    ASSERT_GT(others.size(), 3U);
    for (int i = 0; i < 3; ++i) {
      ::close(others.back());
      others.pop_back();
    }
    const Result<Checkpoint> all = Checkpoint::open(directory_.path());
    ASSERT_TRUE(succeeds(all));
    for (std::size_t i = 0; i < 30; ++i) expect_tensor(*all, i);
  }
  for (const int fd : others) ::close(fd);
}

TEST_F(CheckpointFiles, AreClosedAfterError) {
  put_files(40);
  put(directory_ / "model-00033.safetensors", "short");
  const Error error = error_of(Checkpoint::open(directory_.path()));
  EXPECT_EQ(error.path, directory_ / "model-00033.safetensors");
  EXPECT_EQ(open(), 0U);
}

TEST_F(CheckpointFiles, ServeManyThreads) {
  put_files(24);
  const Checkpoint all = model(12);
  EXPECT_LE(open(), 6U);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 300; ++i) {
        const std::size_t number = (i * (2 * t + 1) + t) % 24;
        const Result<Tensor> tensor = all.tensor(numbered("t", number));
        std::string bytes(static_cast<std::size_t>(tensor->nbytes()), '?');
        const Status status = tensor->read_into(std::as_writable_bytes(std::span(bytes)));
        if (!status || bytes != model_bytes(number)) ++wrong;
        if (i % 50 == t && data_of(tensor->view().value()) != model_bytes(number)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(open(), 6U);
}

TEST_F(CheckpointFiles, ServePlan) {
  put_files(50);
  const Checkpoint all = model(16);
  ReadPlan plan;
  for (const Tensor& tensor : all.tensors()) ASSERT_TRUE(succeeds(plan.add(tensor)));
  const ReadResult result = plan.execute({.threads = 4}).value();
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(data_of(result.arrays[i]), model_bytes(i));
  EXPECT_LE(open(), 8U);
}

TEST_F(CheckpointFiles, ServeForkedChild) {
  if (kSanitized) GTEST_SKIP() << "at a fork, another thread may hold a lock of the sanitizer's allocator";
  put_files(24);
  const Checkpoint all = model(12);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    for (std::size_t i = 0; !stop; ++i) expect_tensor(all, i % 24);
  });
  for (int round = 0; round < 5; ++round) {
    const int result = in_child([&] {
      for (std::size_t i = 0; i < 24; ++i) {
        std::string bytes(64, '?');
        const Result<Tensor> tensor = all.tensor(numbered("t", i));
        if (!tensor || !tensor->read_into(std::as_writable_bytes(std::span(bytes))) || bytes != model_bytes(i))
          return false;
      }
      return true;
    });
    EXPECT_EQ(result, 0);
  }
  stop = true;
  reader.join();
}

TEST_F(CheckpointFiles, FailReadsIfReplaced) {
  put_files(24);
  const Checkpoint all = model(12);
  const Array before = all.tensor("t00000").value().view().value();
  for (std::size_t i = 4; i < 24; ++i) expect_tensor(all, i);
  const std::string path = directory_ / "model-00000.safetensors";
  put(directory_ / "new", u8_file({{"t00000", model_bytes(1)}}));
  ASSERT_EQ(::rename((directory_ / "new").c_str(), path.c_str()), 0);
  const Error error = error_of(all.tensor("t00000").value().read());
  EXPECT_EQ(error.code, Errc::file_changed);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error.message, "tensor `t00000`: file was replaced: its path leads to another file than the one opened");
  EXPECT_EQ(data_of(before), model_bytes(0));  // its map stays
  expect_tensor(all, 5);
}

// Runs a plan by each function that runs plans. Returns the errors.
std::vector<Error> errors_of(const ReadPlan& plan) {
  std::vector<Error> errors{error_of(plan.execute())};
  Result<Stream> stream = plan.stream();
  if (!succeeds(stream)) return errors;
  Result<std::optional<StreamItem>> next = stream->next();
  while (next && *next) next = stream->next();
  errors.push_back(error_of(next));
  return errors;
}

TEST_F(CheckpointFiles, FailPlansIfReplaced) {
  put_files(24);
  const Checkpoint all = model(12);
  ReadPlan plan;
  for (const Tensor& tensor : all.tensors()) ASSERT_TRUE(succeeds(plan.add(tensor)));
  for (std::size_t i = 4; i < 24; ++i) expect_tensor(all, i);
  const std::string path = directory_ / "model-00000.safetensors";
  put(directory_ / "new", u8_file({{"t00000", model_bytes(1)}}));
  ASSERT_EQ(::rename((directory_ / "new").c_str(), path.c_str()), 0);
  for (const Error& error : errors_of(plan)) {
    EXPECT_EQ(error.code, Errc::file_changed);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.message, "tensor `t00000`: file was replaced: its path leads to another file than the one opened");
  }
  ASSERT_EQ(::unlink(path.c_str()), 0);
  for (const Error& error : errors_of(plan)) {
    EXPECT_EQ(error.code, Errc::open_failed);
    EXPECT_EQ(error.os_error, ENOENT);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.message, "tensor `t00000`: cannot open again: no such file or directory");
  }
  expect_tensor(all, 5);
}

TEST_F(CheckpointFiles, KeepRelativePaths) {
  put_files(12);
  char before[4096];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(::chdir(directory_.path().c_str()), 0);
  std::optional<Checkpoint> all;
  {
    const NoMoreThan limit(12);
    all = Checkpoint::open(".").value();
  }
  ASSERT_EQ(::chdir("/"), 0);
  for (std::size_t i = 0; i < 12; ++i) expect_tensor(*all, i);
  const std::span<const File> files = all->files();
  EXPECT_EQ(files[3].path(), "./model-00003.safetensors");
  ASSERT_EQ(::chdir(before), 0);
}

}  // namespace
}  // namespace safetensors::test
