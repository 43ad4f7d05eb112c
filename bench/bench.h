// Helpers of both programs: the end on a failure, and temporary files.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace bench {

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
