// Shared by the races of bench/limits: options, the memory and files of a run, and races with names.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model.h"

namespace limits {

constexpr std::uint64_t kPart = 2u << 20;

struct Options {
  std::uint64_t bytes = 512u << 20;
  std::vector<std::string> only;
  std::string file;
  std::string directory;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  int rounds = 5;
  bool json = false;
  bool warm_up = true;

  [[nodiscard]] bool wants(const std::string& name) const {
    const auto names = [&](const std::string& given) {
      return name.rfind(given, 0) == 0 && (name.size() == given.size() || name[given.size()] == '_');
    };
    return only.empty() || std::any_of(only.begin(), only.end(), names);
  }
  // Returns whether --only may select a contender whose name begins with one of these.
  [[nodiscard]] bool wants_any(std::initializer_list<std::string> beginnings) const {
    return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& given) {
             return std::any_of(beginnings.begin(), beginnings.end(),
                                [&](const std::string& beginning) { return given.rfind(beginning, 0) == 0; });
           });
  }
};

// Calls job(begin, size) for each part of [0, size). A thread that is free takes the next part.
template <class Job>
void parallel(unsigned threads, std::uint64_t size, std::uint64_t part, const Job& job) {
  std::atomic<std::uint64_t> next{0};
  const auto work = [&] {
    for (std::uint64_t at = next.fetch_add(part); at < size; at = next.fetch_add(part)) {
      job(at, std::min(part, size - at));
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

// The memory and the files that contenders share. They are made at the first request, and never while the clock runs.
class Bench {
 public:
  explicit Bench(const Options& options)
      : scratch_(options.directory.empty() ? nullptr : options.directory.c_str()),
        bytes(options.bytes),
        out(scratch_.file("written")),
        in_(options.file) {}
  ~Bench() {
    if (fd_ >= 0) close(fd_);
    if (direct_ >= 0) close(direct_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Makes fresh memory for the next run. Gives back the memory of the run before first.
  void renew(int advice) {
    fresh.reset();
    if (advice < 0) return;
    pretouch();
    fresh = std::make_unique<bench::FreshMemory>(bytes, advice);
  }
  // Touches as much memory as a run needs, while no clock runs. The first touch costs up to 20 times more if a virtual
  // machine has given the memory back to its host.
  void pretouch() const {
    const bench::FreshMemory memory(bytes, MADV_HUGEPAGE);
    std::memset(memory.data(), 1, bytes);
  }
  char* touched(std::size_t which) {
    if (!touched_[which]) {
      touched_[which] = std::make_unique<bench::FreshMemory>(bytes, MADV_HUGEPAGE);
      std::memset(touched_[which]->data(), 3, bytes);
    }
    return touched_[which]->data();
  }
  int fd() {
    if (fd_ < 0) {
      if (in_.empty()) write_input();
      fd_ = open(in_.c_str(), O_RDONLY | O_CLOEXEC);
      bench::require(fd_ >= 0, in_.c_str());
      struct stat about {};
      bench::require(fstat(fd_, &about) == 0 && static_cast<std::uint64_t>(about.st_size) >= bytes,
                     "the file is shorter than --size");
    }
    return fd_;
  }
  // Returns -1 if the file system has no O_DIRECT. Then errno is the reason.
  int direct() {
    if (direct_ < 0) {
      (void)fd();
      direct_ = open(in_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    }
    return direct_;
  }
  // Number of bytes in whole blocks, because O_DIRECT moves nothing else. A last block that is not whole is left out.
  [[nodiscard]] std::uint64_t blocks() const { return bytes / 4096 * 4096; }

 private:
  void write_input() {
    in_ = scratch_.file("read");
    const int made = open(in_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bench::require(made >= 0, "open");
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> block(kPart / 8);
    for (std::uint64_t& word : block) word = random();
    for (std::uint64_t at = 0; at < bytes; at += kPart) {
      const std::uint64_t part = std::min(kPart, bytes - at);
      bench::require(pwrite(made, block.data(), part, static_cast<off_t>(at)) == static_cast<ssize_t>(part), "pwrite");
    }
    bench::require(fsync(made) == 0, "fsync");
    close(made);
  }

  bench::Scratch scratch_;

 public:
  const std::uint64_t bytes;
  const std::string out;
  std::unique_ptr<bench::FreshMemory> fresh;

 private:
  std::string in_;
  int fd_ = -1;
  int direct_ = -1;
  std::unique_ptr<bench::FreshMemory> touched_[2];
};

// The contenders of one race, with their names for --only and --json, and the contenders that could not take part.
class Group {
 public:
  Group(const Options& options, std::string title) : options_(options), title_(std::move(title)) {}

  void add(const std::string& name, const std::string& says, std::uint64_t bytes, std::function<void()> run,
           std::function<void()> prepare) {
    if (!options_.wants(name)) return;
    names_.push_back(name);
    bytes_.push_back(bytes);
    contenders_.push_back({says, std::move(run), std::move(prepare)});
  }
  void missing(const std::string& name, const std::string& why) {
    if (options_.wants(name)) missing_.emplace_back(name, why);
  }

  void run() {
    if (contenders_.empty() && missing_.empty()) return;
    bench::race(contenders_, options_.rounds, options_.warm_up);
    if (!options_.json) std::printf(" %s\n", title_.c_str());
    for (std::size_t i = 0; i < contenders_.size(); ++i) print(i);
    for (const auto& [name, why] : missing_) {
      if (options_.json) {
        std::printf("{\"name\": \"%s\", \"missing\": \"%s\"}\n", name.c_str(), why.c_str());
      } else {
        std::printf("  %-18s not on this machine: %s\n", name.c_str(), why.c_str());
      }
    }
    std::fflush(stdout);
  }

 private:
  void print(std::size_t i) const {
    const bench::Contender& contender = contenders_[i];
    const double seconds = contender.median();
    const double cpu = bench::median(contender.cpu);
    const auto bytes = static_cast<double>(bytes_[i]);
    if (options_.json) {
      std::printf("{\"name\": \"%s\", \"says\": \"%s\", \"bytes\": %.0f, \"seconds\": %.9f, \"cpu\": %.6f}\n",
                  names_[i].c_str(), contender.name.c_str(), bytes, seconds, cpu);
      return;
    }
    std::printf("  %-18s %-50s %9.2f ms %7.2f GB/s  %6.3f CPU s/GiB\n", names_[i].c_str(), contender.name.c_str(),
                seconds * 1e3, bytes / seconds * 1e-9, cpu / bytes * (1u << 30));
  }

  const Options& options_;
  std::string title_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> bytes_;
  std::vector<bench::Contender> contenders_;
  std::vector<std::pair<std::string, std::string>> missing_;
};

inline std::string by(unsigned threads) {
  return threads == 1 ? ", 1 thread" : ", " + std::to_string(threads) + " threads";
}
inline std::string named(const char* name, unsigned threads) {
  return name + ("_" + std::to_string(threads));
}

}  // namespace limits
