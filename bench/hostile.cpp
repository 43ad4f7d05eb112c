// Opens hostile headers of 100 MB, each in a new process. Prints the time until the header is refused or accepted, and
// the peak memory divided by the bound (6 times the header plus 1 MiB). Usage: hostile [MB]
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>

#include "model.h"
#include "support/hostile_names.h"

namespace st = safetensors;

namespace {

std::string repeat(std::uint64_t size, const std::string& head, const std::function<std::string(std::uint64_t)>& part,
                   const std::string& tail) {
  std::string text = head;
  text.reserve(size);
  for (std::uint64_t i = 0;; ++i) {
    const std::string next = part(i);
    if (text.size() + next.size() + tail.size() > size) break;
    text += next;
  }
  if (text.back() == ',') text.pop_back();
  return text + tail;
}

std::string entry(const std::string& name) {
  return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},";
}

void measure(const char* title, const std::string& text) {
  bench::Scratch scratch;
  const std::string path = scratch.file("hostile.safetensors");
  {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    unsigned char prefix[8];
    for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(std::uint64_t{text.size()} >> (8 * i));
    bench::require(fd >= 0 && write(fd, prefix, 8) == 8, "write");
    bench::require(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write");
    close(fd);
  }
  std::fflush(stdout);
  const pid_t child = fork();
  bench::require(child >= 0, "fork");
  if (child == 0) {
    struct rusage before;
    struct rusage after;
    madvise(const_cast<char*>(text.data()), text.size(), MADV_DONTNEED);  // the parent's copy must not count
    getrusage(RUSAGE_SELF, &before);
    const auto start = std::chrono::steady_clock::now();
    const st::Result<st::File> file = st::File::open(path);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    getrusage(RUSAGE_SELF, &after);
    const double used = static_cast<double>(after.ru_maxrss - before.ru_maxrss) * 1024;
    std::printf("  %-34s %7.1f MB %8.3f s  memory %5.2f x header  %s\n", title, static_cast<double>(text.size()) * 1e-6,
                taken.count(), used / static_cast<double>(text.size()),
                file ? "accepted" : st::to_string(file.error().code));
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  bench::require(waitpid(child, &status, 0) == child && status == 0, "the child");
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100) * 1'000'000;
  std::printf(
      "hostile headers, warm cache; peak memory of the process above what it had before; the bound is 6 x header\n");
  measure("tensors", repeat(
                         size, "{", [](auto i) { return entry(std::to_string(i)); }, "}"));
  measure("tensors, names in reverse",
          repeat(
              size, "{", [](auto i) { return entry(std::to_string(99'999'999 - i)); }, "}"));
  measure("metadata pairs",
          repeat(
              size, "{\"__metadata__\":{", [](auto i) { return "\"" + std::to_string(i) + "\":\"\","; }, "}}"));
  measure("one shape of zeros",
          repeat(
              size, "{\"a\":{\"dtype\":\"U8\",\"shape\":[", [](auto) { return "0,"; }, "],\"data_offsets\":[0,0]}}"));
  measure("one ignored array of zeros",
          repeat(
              size, "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[", [](auto) { return "0,"; },
              "]}}"));
  measure("one name", repeat(
                          size, "{", [](auto) { return entry(""); }, "}"));
  measure("one metadata key", repeat(
                                  size, "{\"__metadata__\":{", [](auto) { return "\"\":\"\","; }, "}}"));
  measure("names that cancelled a seed",
          repeat(
              size, "{", [](auto i) { return entry(hostile::in_json(hostile::name_that_cancels_a_seed(i))); }, "}"));
  std::string zeros = "0";
  for (int i = 1; i < 65536; ++i) zeros += ",0";
  measure("three shapes of 65,536, one of 1", repeat(
                                                  size, "{",
                                                  [&](auto i) {
                                                    return "\"" + std::to_string(i) +
                                                           "\":{\"dtype\":\"U8\",\"shape\":[" +
                                                           (i % 4 < 3 ? zeros : "0") + "],\"data_offsets\":[0,0]},";
                                                  },
                                                  "}"));
}
