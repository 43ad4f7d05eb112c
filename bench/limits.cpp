// Moving bytes by the system alone: memcpy, pread, O_DIRECT and writes, per number of threads.
// Usage: limits [--size MIB] [--only NAME,...] [--json] [--file FILE] [--directory DIR] [--rounds N]
// --only takes names or their first words (pread, pread_huge, pread_huge_1). --json prints one object per line. With
// --file, the first MIB of FILE are read instead of random bytes. If the machine cannot run a contender, limits says so
// and goes on.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "bench.h"

namespace {

using bench::require;

double median_of(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// CPU time that this process and its threads have used so far.
double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Memory that was never touched, in pages of 4 KiB (advice: MADV_NOHUGEPAGE) or 2 MiB (advice: MADV_HUGEPAGE).
class FreshMemory {
 public:
  FreshMemory(std::size_t size, int advice) : size_(size + (2u << 20)) {
    map_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(map_ != MAP_FAILED, "mmap");
    madvise(map_, size_, advice);
  }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory() { munmap(map_, size_); }
  [[nodiscard]] char* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(map_) + (2u << 20) - 1;
    return reinterpret_cast<char*>(address / (2u << 20) * (2u << 20));
  }

 private:
  std::size_t size_;
  void* map_;
};

// Reads all bytes of [offset, offset + size), in calls of at most `chunk` bytes.
void pread_all(int fd, char* to, std::uint64_t offset, std::uint64_t size, std::uint64_t chunk = 2u << 20) {
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = pread(fd, to + done, std::min(chunk, size - done), static_cast<off_t>(offset + done));
    require(got > 0, "pread");
    done += static_cast<std::uint64_t>(got);
  }
}

constexpr std::uint64_t kPart = 2u << 20;
constexpr std::uint64_t kRun = 32u << 20;

struct Options {
  std::uint64_t bytes = 512u << 20;
  std::vector<std::string> only;
  std::string file;
  std::string directory;
  unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, 256u);
  int rounds = 5;
  bool json = false;

  [[nodiscard]] bool wants(const std::string& name) const {
    const auto names = [&](const std::string& given) {
      return name.rfind(given, 0) == 0 && (name.size() == given.size() || name[given.size()] == '_');
    };
    return only.empty() || std::any_of(only.begin(), only.end(), names);
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
    fresh = std::make_unique<FreshMemory>(bytes, advice);
  }
  // Touches as much memory as a run needs, while no clock runs. The first touch costs up to 20 times more if a virtual
  // machine has given the memory back to its host.
  void pretouch() const {
    const FreshMemory memory(bytes, MADV_HUGEPAGE);
    std::memset(memory.data(), 1, bytes);
  }
  char* touched() {
    if (!touched_) {
      touched_ = std::make_unique<FreshMemory>(bytes, MADV_HUGEPAGE);
      std::memset(touched_->data(), 3, bytes);
    }
    return touched_->data();
  }
  int fd() {
    if (fd_ < 0) {
      if (in_.empty()) write_input();
      fd_ = open(in_.c_str(), O_RDONLY | O_CLOEXEC);
      require(fd_ >= 0, in_.c_str());
      struct stat about {};
      require(fstat(fd_, &about) == 0 && static_cast<std::uint64_t>(about.st_size) >= bytes,
              "the file is shorter than --size");
    }
    return fd_;
  }
  // Returns -1 if the file system has no O_DIRECT. Then errno is the reason.
  int direct() {
    if (direct_ < 0) {
      (void)fd();
      direct_ = open_input(O_DIRECT);
    }
    return direct_;
  }
  // Opens the input again. Call fd() before.
  [[nodiscard]] int open_input(int flags) const { return open(in_.c_str(), O_RDONLY | O_CLOEXEC | flags); }
  // Number of bytes in whole blocks, because O_DIRECT moves nothing else. A last block that is not whole is left out.
  [[nodiscard]] std::uint64_t blocks() const { return bytes / 4096 * 4096; }

 private:
  void write_input() {
    in_ = scratch_.file("read");
    const int made = open(in_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    require(made >= 0, "open");
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> block(kPart / 8);
    for (std::uint64_t& word : block) word = random();
    for (std::uint64_t at = 0; at < bytes; at += kPart) {
      const std::uint64_t part = std::min(kPart, bytes - at);
      require(pwrite(made, block.data(), part, static_cast<off_t>(at)) == static_cast<ssize_t>(part), "pwrite");
    }
    require(fsync(made) == 0, "fsync");
    close(made);
  }

  bench::Scratch scratch_;

 public:
  const std::uint64_t bytes;
  const std::string out;
  std::unique_ptr<FreshMemory> fresh;

 private:
  std::string in_;
  int fd_ = -1;
  int direct_ = -1;
  std::unique_ptr<FreshMemory> touched_;
};

struct Contender {
  std::string name;  // for --only and --json
  std::string says;
  std::uint64_t bytes;
  std::function<void()> run;
  std::function<void()> prepare;  // before each run, not timed
  std::vector<double> seconds = {};
  std::vector<double> cpu = {};
};

// The contenders of one race. Each runs in turn, so a disturbance in one round affects all of them.
class Group {
 public:
  // The first run of each contender is not timed if it is to bring our own file into the page cache, or is to make the
  // pages of a removed file the ones that the next file gets.
  Group(const Options& options, std::string title, bool writes = false)
      : options_(options), title_(std::move(title)), warm_up_(writes || options.file.empty()) {}

  void add(const std::string& name, const std::string& says, std::uint64_t bytes, std::function<void()> run,
           std::function<void()> prepare) {
    if (options_.wants(name)) contenders_.push_back({name, says, bytes, std::move(run), std::move(prepare)});
  }
  void missing(const std::string& name, const std::string& why) {
    if (!options_.wants(name)) return;
    const char* const format =
        options_.json ? "{\"name\": \"%s\", \"missing\": \"%s\"}\n" : "  %s: not on this machine: %s\n";
    std::printf(format, name.c_str(), why.c_str());
  }

  void run() {
    if (contenders_.empty()) return;
    for (int round = warm_up_ ? -1 : 0; round < options_.rounds; ++round) {
      for (Contender& contender : contenders_) time(contender, round >= 0);
    }
    if (!options_.json) std::printf(" %s\n", title_.c_str());
    for (const Contender& contender : contenders_) print(contender);
    std::fflush(stdout);
  }

 private:
  static void time(Contender& contender, bool counts) {
    contender.prepare();
    const double cpu = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    contender.run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (!counts) return;
    contender.seconds.push_back(taken.count());
    contender.cpu.push_back(cpu_seconds() - cpu);
  }
  void print(const Contender& contender) const {
    const double seconds = median_of(contender.seconds);
    const double cpu = median_of(contender.cpu);
    const auto bytes = static_cast<double>(contender.bytes);
    if (options_.json) {
      std::printf("{\"name\": \"%s\", \"says\": \"%s\", \"bytes\": %.0f, \"seconds\": %.9f, \"cpu\": %.6f}\n",
                  contender.name.c_str(), contender.says.c_str(), bytes, seconds, cpu);
      return;
    }
    std::printf("  %-18s %-50s %9.2f ms %7.2f GB/s  %6.3f CPU s/GiB\n", contender.name.c_str(), contender.says.c_str(),
                seconds * 1e3, bytes / seconds * 1e-9, cpu / bytes * (1u << 30));
  }

  const Options& options_;
  std::string title_;
  bool warm_up_;
  std::vector<Contender> contenders_;
};

std::string by(unsigned threads) {
  return threads == 1 ? ", 1 thread" : ", " + std::to_string(threads) + " threads";
}
std::string named(const char* name, unsigned threads) {
  return name + ("_" + std::to_string(threads));
}

constexpr std::uint64_t kDirectPart = 1u << 20;

volatile std::uint64_t sink;

// Returns 1, 2, 4, ... and `last`.
std::vector<unsigned> counts(unsigned last) {
  std::vector<unsigned> all;
  for (unsigned n = 1; n < last; n *= 2) all.push_back(n);
  all.push_back(last);
  return all;
}

void copies(Bench& b, const Options& options) {
  Group group(options, "memory to memory");
  group.add(
      "memcpy_small", "memcpy into fresh 4 KiB pages, 1 thread", b.bytes,
      [&b] { std::memcpy(b.fresh->data(), b.touched(), b.bytes); },
      [&b] {
        b.renew(MADV_NOHUGEPAGE);
        b.touched();
      });
  const auto sum = [&b] {
    const char* const from = b.touched();
    std::uint64_t total = 0;
    for (std::uint64_t at = 0; at + 8 <= b.bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + at, 8);
      total += word;
    }
    sink = total;
  };
  group.add("sum", "every byte read from memory, 1 thread", b.bytes, sum, [&b] {
    b.renew(-1);
    b.touched();
  });
  group.run();
}

void warm_reads(Bench& b, const Options& options) {
  Group group(options, "reads from the page cache");
  const auto read = [&b](unsigned threads, bool into_touched) {
    char* const to = into_touched ? b.touched() : b.fresh->data();
    const int fd = b.fd();
    parallel(threads, b.bytes, kPart, [&](std::uint64_t at, std::uint64_t size) { pread_all(fd, to + at, at, size); });
  };
  const auto prepare = [&b](int advice) {
    return [&b, advice] {
      b.renew(advice);
      if (advice < 0) b.touched();
      (void)b.fd();
    };
  };
  for (const unsigned n : counts(options.threads)) {
    group.add(
        named("pread_huge", n), "pread into fresh 2 MiB pages" + by(n), b.bytes, [=] { read(n, false); },
        prepare(MADV_HUGEPAGE));
    group.add(
        named("pread_small", n), "pread into fresh 4 KiB pages" + by(n), b.bytes, [=] { read(n, false); },
        prepare(MADV_NOHUGEPAGE));
    group.add(
        named("pread_touched", n), "pread into touched memory" + by(n), b.bytes, [=] { read(n, true); }, prepare(-1));
  }
  group.run();
}

// Reads a cold file through the page cache, and leaves it there. Each thread opens the file, because the system reads
// ahead per open file, and takes long runs, because read-ahead begins anew with each of them.
void fill_cache(Bench& b, unsigned threads) {
  parallel(threads, b.bytes, kRun, [&](std::uint64_t at, std::uint64_t size) {
    const int own = b.open_input(0);
    pread_all(own, b.fresh->data() + at, at, size);
    close(own);
  });
}

// Removes the file from the page cache. Returns false if the system keeps pages of it, as on tmpfs.
bool evict(Bench& b) {
  if (fdatasync(b.fd()) != 0 || posix_fadvise(b.fd(), 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  void* const map = mmap(nullptr, b.bytes, PROT_READ, MAP_SHARED, b.fd(), 0);
  require(map != MAP_FAILED, "mmap");
  std::vector<unsigned char> pages((b.bytes + 4095) / 4096);
  require(mincore(map, b.bytes, pages.data()) == 0, "mincore");
  munmap(map, b.bytes);
  return std::none_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

void cold_reads(Bench& b, const Options& options) {
  Group group(options, "reads from the device");
  const auto fresh = [&b] { b.renew(MADV_HUGEPAGE); };
  for (const unsigned n : {2u, 4u, 8u}) {
    const std::string name = named("fill", n);
    if (options.wants(name) && !evict(b)) {
      group.missing(name, "the system keeps the file in memory");
      continue;
    }
    group.add(
        name, "pread of 2 MiB of a cold file into fresh 2 MiB pages" + by(n), b.bytes, [&b, n] { fill_cache(b, n); },
        [&b, fresh] {
          fresh();
          require(evict(b), "the system keeps the file in memory");
        });
  }
  for (const unsigned n : {1u, 4u, 8u, 16u}) {
    const std::string name = named("direct", n);
    if (options.wants(name) && b.direct() < 0) {
      group.missing(name, std::string("O_DIRECT: ") + std::strerror(errno));
      continue;
    }
    const auto read = [&b, n] {
      char* const to = b.fresh->data();
      const int fd = b.direct();
      parallel(n, b.blocks(), kDirectPart,
               [&](std::uint64_t at, std::uint64_t size) { pread_all(fd, to + at, at, size); });
    };
    group.add(name, "O_DIRECT pread of 1 MiB into fresh 2 MiB pages" + by(n), b.blocks(), read, fresh);
  }
  group.run();
}

// Buffered, or past the page cache and durable.
void write_all(Bench& b, unsigned threads, bool direct, std::uint64_t size) {
  const int fd = open(b.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (direct ? O_DIRECT : 0), 0644);
  require(fd >= 0, "open");
  if (direct) (void)posix_fallocate(fd, 0, static_cast<off_t>(size));
  const char* const from = b.touched();
  parallel(threads, size, kPart, [&](std::uint64_t at, std::uint64_t part) {
    require(pwrite(fd, from + at, part, static_cast<off_t>(at)) == static_cast<ssize_t>(part), "pwrite");
  });
  if (direct) require(fdatasync(fd) == 0, "fdatasync");
  close(fd);
}

void writes(Bench& b, const Options& options) {
  Group group(options, "writes of a new file", true);
  const auto prepare = [&b] {
    b.renew(-1);
    b.touched();
    unlink(b.out.c_str());
    sync();
    b.pretouch();
  };
  group.add(
      "write_buffered", "buffered writes of 2 MiB, not durable", b.bytes, [&b] { write_all(b, 1, false, b.bytes); },
      prepare);
  for (const unsigned n : {1u, 2u}) {
    const std::string name = named("write_direct", n);
    const int probe = open(b.out.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
    if (probe < 0) {
      group.missing(name, std::string("O_DIRECT: ") + std::strerror(errno));
      continue;
    }
    close(probe);
    group.add(
        name, "fallocate, O_DIRECT writes of 2 MiB, fdatasync" + by(n), b.blocks(),
        [&b, n] { write_all(b, n, true, b.blocks()); }, prepare);
  }
  group.run();
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.json = true;
    } else if (i + 1 == argc) {
      return std::nullopt;
    } else if (name == "--size") {
      options.bytes = static_cast<std::uint64_t>(std::strtod(argv[++i], nullptr) * (1u << 20));
    } else if (name == "--only") {
      std::istringstream list(argv[++i]);
      for (std::string only; std::getline(list, only, ',');) options.only.push_back(only);
    } else if (name == "--file") {
      options.file = argv[++i];
    } else if (name == "--directory") {
      options.directory = argv[++i];
    } else if (name == "--rounds") {
      options.rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else {
      return std::nullopt;
    }
  }
  if (options.bytes < 4096 || options.rounds < 1) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(
        stderr, "usage: limits [--size MIB] [--only NAME,...] [--json] [--file FILE] [--directory DIR] [--rounds N]\n");
    return 2;
  }
  utsname system{};
  uname(&system);
  if (!options->json) {
    std::printf("%llu MiB, %u threads at most, Linux %s, medians of %d\n",
                static_cast<unsigned long long>(options->bytes >> 20), options->threads, system.release,
                options->rounds);
  }
  Bench b(*options);
  copies(b, *options);
  warm_reads(b, *options);
  cold_reads(b, *options);
  writes(b, *options);
}
