// Helpers of all benchmarks: interleaved rounds, medians, temporary files.
#pragma once

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace bench {

inline double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// CPU time that this process and its threads have used so far.
inline double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Contender {
  std::string name;
  std::function<void()> run;
  std::function<void()> prepare = [] {};  // before each run, not timed
  std::vector<double> seconds = {};
  std::vector<double> cpu = {};

  [[nodiscard]] double median() const { return bench::median(seconds); }
};

// Runs each contender in turn, `rounds` times. So a disturbance in one round affects all contenders.
inline void race(std::vector<Contender>& contenders, int rounds, bool warm_up = true) {
  for (int round = warm_up ? -1 : 0; round < rounds; ++round) {
    for (Contender& contender : contenders) {
      contender.prepare();
      const double cpu = cpu_seconds();
      const auto start = std::chrono::steady_clock::now();
      contender.run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (round < 0) continue;
      contender.seconds.push_back(taken.count());
      contender.cpu.push_back(cpu_seconds() - cpu);
    }
  }
}

// Prints the medians, and their ratios to the median of the first contender, which is the limit.
inline void print(const std::vector<Contender>& contenders) {
  for (const Contender& contender : contenders) {
    std::printf("  %-58s %10.3f ms  %6.2f x\n", contender.name.c_str(), contender.median() * 1e3,
                contender.median() / contenders.front().median());
  }
}

// Ends the program on failure, because a benchmark that failed has measured nothing.
template <class Outcome>
auto must(Outcome outcome) {
  if (!outcome.ok()) {
    std::fprintf(stderr, "%s\n", outcome.error().to_string().c_str());
    std::exit(1);
  }
  if constexpr (requires { typename Outcome::value_type; }) return std::move(outcome).value();
}
inline void require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

// A new folder in the given one, by default in $TMPDIR or /tmp. The destructor removes it with its files.
class Scratch {
 public:
  explicit Scratch(const char* parent = nullptr) {
    const char* tmp = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : tmp != nullptr ? tmp : "/tmp") + "/safetensors-bench-XXXXXX";
    require(mkdtemp(path_.data()) != nullptr, "mkdtemp");
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  [[nodiscard]] std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

}  // namespace bench
