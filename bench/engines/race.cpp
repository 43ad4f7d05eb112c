// Races the loops of engines. Each run is a process of its own, so that every loop meets fresh memory, and so that
// faults and peak memory belong to one loop. The loops take turns, in the same order in each round. In the first round,
// which is not timed, the parent compares the bytes that all loops loaded.
//
// usage: engines [--file FILE] [--size MIB] [--rounds N] [--seconds N] [--only NAME,...] [--cold] [--json]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include "../bench.h"
#include "../model.h"
#include "decoder_file.h"
#include "loops.h"

namespace {

using namespace engines;
using bench::require;

struct Options {
  std::string file;
  std::uint64_t mib = 1024;
  int rounds = 5;
  double seconds = 1e9;  // no round begins after that
  std::string only;
  bool cold = false;
  bool json = false;
};

// What one process measured.
struct Run {
  double seconds = 0;
  double cpu = 0;
  double faults = 0;
  double peak_bytes = 0;      // growth of the peak of resident memory, with the pages of maps
  std::uint64_t content = 0;  // only of the first round
};

// A contender: a loop, or a limit. `prepare` runs before the clock starts and returns the work.
struct Contender {
  std::string name;
  std::string says;
  enum class Kind { limit, ours, engine } kind;
  std::function<std::function<Loaded()>(const std::string& path)> prepare;
  std::vector<Run> runs = {};
};

// A sum over the names and the bytes of all tensors, in any order of tensors.
std::uint64_t content_of(const Loaded& loaded) {
  std::uint64_t total = 0;
  for (const auto& [name, bytes] : loaded.tensors) {
    std::uint64_t hash = 14695981039346656037ULL;
    const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 1099511628211ULL; };
    for (const char letter : name) add(static_cast<unsigned char>(letter));
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, 8);
      add(word);
    }
    for (; i < bytes.size(); ++i) add(static_cast<std::uint64_t>(bytes[i]));
    total += hash;
  }
  return total;
}

rusage used_by(int who) {
  rusage used{};
  require(getrusage(who, &used) == 0, "getrusage");
  return used;
}

Run measure(const Contender& contender, const std::string& path, bool compare) {
  const std::function<Loaded()> work = contender.prepare(path);
  const rusage before = used_by(RUSAGE_SELF);
  const double cpu = bench::cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  const Loaded loaded = work();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const rusage after = used_by(RUSAGE_SELF);
  return {.seconds = taken.count(),
          .cpu = bench::cpu_seconds() - cpu,
          .faults = static_cast<double>(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt),
          .peak_bytes = static_cast<double>(after.ru_maxrss - before.ru_maxrss) * 1024,
          .content = compare ? content_of(loaded) : 0};
}

// Runs `job` in a new process and returns its result.
Run in_process(const std::function<Run()>& job) {
  int ends[2];
  require(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    const Run run = job();
    require(write(ends[1], &run, sizeof run) == sizeof run, "write");
    _exit(0);
  }
  close(ends[1]);
  Run run;
  const bool complete = read(ends[0], &run, sizeof run) == sizeof run;
  close(ends[0]);
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid");
  if (!complete || status != 0) {
    std::fprintf(stderr, "a contender failed\n");
    std::exit(1);
  }
  return run;
}

// Touches as much memory as a run needs. The first touch costs up to 20 times more if a virtual machine has given the
// memory back to its host.
void pretouch(std::uint64_t bytes) {
  (void)in_process([bytes] {
    const bench::FreshMemory memory(bytes, MADV_HUGEPAGE);
    std::memset(memory.data(), 1, bytes);
    return Run{};
  });
}

// Drops the file from the page cache, or reads it into the page cache.
void set_cache(const std::string& path, bool cold) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, path.c_str());
  if (cold) {
    (void)fsync(fd);
    require(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
  } else {
    std::vector<char> block(1 << 20);
    while (read(fd, block.data(), block.size()) > 0) {
    }
  }
  close(fd);
}

std::uint64_t size_of(const std::string& path) {
  struct stat about {};
  require(stat(path.c_str(), &about) == 0, path.c_str());
  return static_cast<std::uint64_t>(about.st_size);
}

// Calls job(offset, size) for parts of [0, size) in two threads.
void with_two_threads(std::uint64_t size, const std::function<void(std::uint64_t, std::uint64_t)>& job) {
  constexpr std::uint64_t kPart = 2 << 20;
  std::atomic<std::uint64_t> next{0};
  const auto work = [&] {
    for (std::uint64_t at = next.fetch_add(kPart); at < size; at = next.fetch_add(kPart))
      job(at, std::min(kPart, size - at));
  };
  std::thread helper(work);
  work();
  helper.join();
}

// What the machine can do at best: the bytes of the file must move once.
std::vector<Contender> limits(bool cold) {
  const auto touched = [](std::uint64_t size) {
    auto memory = std::make_shared<bench::FreshMemory>(size, MADV_HUGEPAGE);
    std::memset(memory->data(), 1, size);
    return memory;
  };
  if (cold)
    return {{"direct", "O_DIRECT reads into touched huge pages, 2 threads", Contender::Kind::limit,
             [touched](const std::string& path) {
               const std::uint64_t size = size_of(path) / 4096 * 4096;
               const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
               return [size, fd, memory = touched(size)] {
                 with_two_threads(size, [&](std::uint64_t at, std::uint64_t part) {
                   bench::pread_all(fd, memory->data() + at, at, part);
                 });
                 return Loaded{};
               };
             }}};
  return {{"memcpy", "memcpy between touched huge pages, 2 threads", Contender::Kind::limit,
           [touched](const std::string& path) {
             const std::uint64_t size = size_of(path);
             return [size, from = touched(size), to = touched(size)] {
               with_two_threads(size, [&](std::uint64_t at, std::uint64_t part) {
                 std::memcpy(to->data() + at, from->data() + at, part);
               });
               return Loaded{};
             };
           }}};
}

std::vector<Contender> contenders_of(const Options& options) {
  std::vector<Contender> all = limits(options.cold);
  const auto add = [&all](const std::vector<Loop>& loops) {
    for (const Loop& loop : loops)
      all.push_back({loop.name, loop.says, loop.ours ? Contender::Kind::ours : Contender::Kind::engine,
                     [load = loop.load](const std::string& path) { return [load, path] { return load(path); }; }});
  };
  add(our_loops());
  add(plain_loops());
#ifdef SAFETENSORS_BENCH_MLX
  add(mlx_loops());
#endif
#ifdef SAFETENSORS_BENCH_VLLM_CPP
  add(vllm_cpp_loops());
#endif
#ifdef SAFETENSORS_BENCH_SDCPP
  add(sdcpp_loops());
#endif
  if (options.only.empty()) return all;
  const std::string list = "," + options.only + ",";
  std::erase_if(all,
                [&](const Contender& contender) { return list.find("," + contender.name + ",") == std::string::npos; });
  return all;
}

void race(std::vector<Contender>& contenders, const std::string& path, const Options& options) {
  const std::uint64_t size = size_of(path);
  std::optional<std::uint64_t> content;
  const auto start = std::chrono::steady_clock::now();
  for (int round = -1; round < options.rounds; ++round) {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
    if (round > 0 && past.count() > options.seconds) break;
    for (Contender& contender : contenders) {
      set_cache(path, options.cold);
      pretouch(size + (std::uint64_t{64} << 20));
      const Run run = in_process([&] { return measure(contender, path, round < 0); });
      if (round >= 0) {
        contender.runs.push_back(run);
      } else if (contender.kind != Contender::Kind::limit && content.value_or(run.content) != run.content) {
        std::fprintf(stderr, "%s loaded other bytes than the loops before\n", contender.name.c_str());
        std::exit(1);
      } else if (contender.kind != Contender::Kind::limit) {
        content = run.content;
      }
    }
  }
}

std::vector<double> values(const Contender& contender, double Run::*member) {
  std::vector<double> all;
  for (const Run& run : contender.runs) all.push_back(run.*member);
  std::sort(all.begin(), all.end());
  return all;
}

double median(const Contender& contender, double Run::*member) {
  return bench::median(values(contender, member));
}

void print(const std::vector<Contender>& contenders, const Options& options) {
  double best = 0;
  for (const Contender& contender : contenders) {
    const double seconds = median(contender, &Run::seconds);
    if (contender.kind == Contender::Kind::engine && (best == 0 || seconds < best)) best = seconds;
  }
  for (const Contender& contender : contenders) {
    const std::vector<double> seconds = values(contender, &Run::seconds);
    const double middle = bench::median(seconds);
    std::printf(options.json
                    ? "{\"name\": \"%s\", \"says\": \"%s\", \"median_ms\": %.1f, \"min_ms\": %.1f, \"max_ms\": %.1f, "
                      "\"cpu_s\": %.3f, \"faults\": %.0f, \"peak_mib\": %.0f, \"times_best\": %.2f}\n"
                    : "%-15s %-56s %7.1f ms (%7.1f to %7.1f)  %6.3f CPU s  %7.0f faults  %5.0f MiB  %5.2f x\n",
                contender.name.c_str(), contender.says.c_str(), middle * 1e3, seconds.front() * 1e3,
                seconds.back() * 1e3, median(contender, &Run::cpu), median(contender, &Run::faults),
                median(contender, &Run::peak_bytes) / (1 << 20), best / middle);
  }
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--cold") {
      options.cold = true;
    } else if (name == "--json") {
      options.json = true;
    } else if (i + 1 == argc) {
      return std::nullopt;
    } else if (name == "--file") {
      options.file = argv[++i];
    } else if (name == "--only") {
      options.only = argv[++i];
    } else if (name == "--size") {
      options.mib = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--seconds") {
      options.seconds = std::strtod(argv[++i], nullptr);
    } else if (name == "--rounds") {
      options.rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else {
      return std::nullopt;
    }
  }
  if (options.rounds < 1 || options.mib < 16) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(
        stderr,
        "usage: engines [--file FILE] [--size MIB] [--rounds N] [--seconds N] [--only NAME,...] [--cold] [--json]\n"
        "Loads all tensors of FILE with each loop, or of a new file with the 326 tensors of a decoder (1024 MiB).\n");
    return 2;
  }
  bench::Scratch scratch;
  std::string file = options->file;
  if (file.empty()) {
    file = scratch.file("model.safetensors");
    in_process([&] {
      write_decoder(file, options->mib << 20);
      return Run{};
    });
  }
  std::vector<Contender> contenders = contenders_of(*options);
  race(contenders, file, *options);
  if (!options->json)
    std::printf("%llu MiB, %s page cache, medians of %zu, x: times as fast as the best loop of an engine\n",
                static_cast<unsigned long long>(size_of(file) >> 20), options->cold ? "cold" : "warm",
                contenders.front().runs.size());
  print(contenders, *options);
}
