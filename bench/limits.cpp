// Moving bytes by the system alone: memcpy, pread, O_DIRECT, io_uring, maps and writes, per number of threads.
// Usage: limits [--size MIB] [--only NAME,...] [--json] [--file FILE] [--directory DIR] [--threads N] [--rounds N]
//               [--no-warm-up]
// --only takes names or their first words (pread, pread_huge, pread_huge_1). --json prints one object per line. With
// --file, the first MIB of FILE are read instead of random bytes. If the machine cannot run a contender, limits says so
// and goes on.
#include <sys/utsname.h>

#include <optional>

#include "limits.h"
#include "uring.h"

namespace {

using limits::Bench;
using limits::by;
using limits::Group;
using limits::kPart;
using limits::named;
using limits::Options;
using limits::parallel;

constexpr std::uint64_t kDirectPart = 1u << 20;
constexpr unsigned kDepth = 16;

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
  const auto both = [&b] {
    b.renew(-1);
    b.touched(0);
    b.touched(1);
  };
  for (const unsigned n : {1u, 2u}) {
    const auto copy = [&b, n] {
      char* const to = b.touched(1);
      const char* const from = b.touched(0);
      parallel(n, b.bytes, kPart, [&](std::uint64_t at, std::uint64_t size) { std::memcpy(to + at, from + at, size); });
    };
    group.add(named("memcpy", n), "memcpy into touched memory" + by(n), b.bytes, copy, both);
  }
  const auto fresh = [&b](int advice) {
    return [&b, advice] {
      b.renew(advice);
      b.touched(0);
    };
  };
  const auto copy_fresh = [&b] { std::memcpy(b.fresh->data(), b.touched(0), b.bytes); };
  group.add("memcpy_small", "memcpy into fresh 4 KiB pages, 1 thread", b.bytes, copy_fresh, fresh(MADV_NOHUGEPAGE));
  group.add("memcpy_huge", "memcpy into fresh 2 MiB pages, 1 thread", b.bytes, copy_fresh, fresh(MADV_HUGEPAGE));
  const auto sum = [&b] {
    const char* const from = b.touched(0);
    std::uint64_t total = 0;
    for (std::uint64_t at = 0; at + 8 <= b.bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + at, 8);
      total += word;
    }
    sink = total;
  };
  group.add("sum", "every byte read from memory, 1 thread", b.bytes, sum, both);
  group.run();
}

void warm_reads(Bench& b, const Options& options) {
  Group group(options, "reads from the page cache");
  const auto read = [&b](unsigned threads, bool into_touched) {
    char* const to = into_touched ? b.touched(0) : b.fresh->data();
    const int fd = b.fd();
    parallel(threads, b.bytes, kPart,
             [&](std::uint64_t at, std::uint64_t size) { bench::pread_all(fd, to + at, at, size); });
  };
  const auto prepare = [&b](int advice) {
    return [&b, advice] {
      b.renew(advice);
      if (advice < 0) b.touched(0);
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

// Maps the file and touches one byte of every page. Reads it in a shared map, or writes it in a private map.
void touch_map(Bench& b, unsigned threads, bool write) {
  const int protection = write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const map = mmap(nullptr, b.bytes, protection, write ? MAP_PRIVATE : MAP_SHARED, b.fd(), 0);
  bench::require(map != MAP_FAILED, "mmap");
  parallel(threads, b.bytes, kPart, [&](std::uint64_t begin, std::uint64_t size) {
    auto* const bytes = static_cast<volatile char*>(map) + begin;
    for (std::uint64_t at = 0; at < size; at += 4096) {
      if (write) {
        bytes[at] = 1;
      } else {
        (void)bytes[at];
      }
    }
  });
  munmap(map, b.bytes);
}

void maps(Bench& b, const Options& options) {
  Group group(options, "maps of a file in the page cache");
  const auto prepare = [&b] {
    b.renew(-1);
    (void)b.fd();
  };
  for (const unsigned n : counts(options.threads)) {
    group.add(
        named("mmap_touch", n), "mmap, one byte of every page read" + by(n), b.bytes,
        [&b, n] { touch_map(b, n, false); }, prepare);
    group.add(
        named("mmap_write", n), "private mmap, one byte of every page written" + by(n), b.bytes,
        [&b, n] { touch_map(b, n, true); }, prepare);
  }
  group.run();
}

double resident(int fd, std::uint64_t size) {
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return 1;
  std::vector<unsigned char> pages((size + 4095) / 4096);
  const bool known = mincore(map, size, pages.data()) == 0;
  munmap(map, size);
  if (!known) return 1;
  const auto in = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<double>(in) / static_cast<double>(pages.size());
}

// Removes the file from the page cache. Returns an empty text, or the reason why the file stays.
std::string evict(int fd, std::uint64_t size) {
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (resident(fd, size) < 0.01) return "";
  sync();
  const int all = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  const bool dropped = all >= 0 && write(all, "1", 1) == 1;
  const std::string why = dropped ? "" : std::strerror(errno);
  if (all >= 0) close(all);
  if (!dropped) return "the file stays in the page cache, and drop_caches: " + why;
  return resident(fd, size) < 0.01 ? "" : "the file stays in the page cache after drop_caches";
}

// Reads the file with kDepth requests under way. The memory holds the whole file, or, if ring_only, just one part per
// request, which is used again and again.
void read_uring(Bench& b, char* memory, bool ring_only) {
  bench::Uring uring;
  bench::require(uring.open(kDepth), "io_uring_setup");
  const std::uint64_t size = b.blocks();
  std::uint64_t lengths[kDepth] = {};
  std::uint64_t next = 0;
  unsigned under_way = 0;
  const auto send = [&](unsigned slot) {
    lengths[slot] = std::min(kDirectPart, size - next);
    char* const to = memory + (ring_only ? slot * kDirectPart : next);
    uring.read(slot, b.direct(), to, static_cast<unsigned>(lengths[slot]), next);
    next += lengths[slot];
    ++under_way;
  };
  for (unsigned slot = 0; slot < kDepth && next < size; ++slot) send(slot);
  while (under_way > 0) {
    const auto [slot, result] = uring.wait();
    if (result < 0) errno = -result;
    bench::require(result >= 0 && static_cast<std::uint64_t>(result) == lengths[slot], "io_uring read");
    --under_way;
    if (next < size) send(slot);
  }
}

void add_uring(Group& group, Bench& b) {
  bench::Uring uring;
  if (!uring.open(kDepth) || b.bytes < kDepth * kDirectPart) {
    const std::string why = b.bytes < kDepth * kDirectPart ? "--size is below 16 MiB" : std::strerror(errno);
    group.missing("io_uring_ring", why);
    group.missing("io_uring_huge", why);
    return;
  }
  const auto memory = std::make_shared<bench::FreshMemory>(kDepth * kDirectPart, MADV_HUGEPAGE);
  std::memset(memory->data(), 3, kDepth * kDirectPart);
  group.add(
      "io_uring_ring", "io_uring, O_DIRECT, 16 x 1 MiB, into 16 MiB", b.blocks(),
      [&b, memory] { read_uring(b, memory->data(), true); }, [&b] { b.renew(-1); });
  group.add(
      "io_uring_huge", "io_uring, O_DIRECT, 16 x 1 MiB, into fresh 2 MiB pages", b.blocks(),
      [&b] { read_uring(b, b.fresh->data(), false); }, [&b] { b.renew(MADV_HUGEPAGE); });
}

void cold_reads(Bench& b, const Options& options) {
  if (!options.wants_any({"direct", "io_uring", "cold"})) return;
  Group group(options, "reads from the device");
  if (b.direct() < 0) {
    const std::string why = std::string("O_DIRECT: ") + std::strerror(errno);
    for (const char* const name : {"direct_1", "direct_4", "direct_8", "direct_16"}) group.missing(name, why);
    group.missing("io_uring_ring", why);
    group.missing("io_uring_huge", why);
  } else {
    for (const unsigned n : {1u, 4u, 8u, 16u}) {
      const auto read = [&b, n] {
        char* const to = b.fresh->data();
        const int fd = b.direct();
        parallel(n, b.blocks(), kDirectPart,
                 [&](std::uint64_t at, std::uint64_t size) { bench::pread_all(fd, to + at, at, size); });
      };
      group.add(named("direct", n), "O_DIRECT pread of 1 MiB into fresh 2 MiB pages" + by(n), b.blocks(), read,
                [&b] { b.renew(MADV_HUGEPAGE); });
    }
    add_uring(group, b);
  }
  const std::string kept = evict(b.fd(), b.bytes);
  for (const unsigned n : counts(options.threads)) {
    if (!kept.empty()) {
      group.missing(named("cold_pread", n), kept);
      continue;
    }
    const auto read = [&b, n] {
      char* const to = b.fresh->data();
      parallel(n, b.bytes, kPart,
               [&](std::uint64_t at, std::uint64_t size) { bench::pread_all(b.fd(), to + at, at, size); });
    };
    group.add(named("cold_pread", n), "buffered pread into fresh 2 MiB pages, cold" + by(n), b.bytes, read, [&b] {
      b.renew(MADV_HUGEPAGE);
      (void)evict(b.fd(), b.bytes);
    });
  }
  group.run();
}

void write_all(Bench& b, unsigned threads, int flags, bool allocate, bool durable, std::uint64_t size) {
  const int fd = open(b.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
  bench::require(fd >= 0, "open");
  if (allocate) (void)posix_fallocate(fd, 0, static_cast<off_t>(size));
  const char* const from = b.touched(0);
  parallel(threads, size, kPart, [&](std::uint64_t at, std::uint64_t part) {
    bench::require(pwrite(fd, from + at, part, static_cast<off_t>(at)) == static_cast<ssize_t>(part), "pwrite");
  });
  if (durable) bench::require(fdatasync(fd) == 0, "fdatasync");
  close(fd);
}

void writes(Bench& b, const Options& options) {
  Group group(options, "writes of a new file");
  const auto prepare = [&b] {
    b.renew(-1);
    b.touched(0);
    unlink(b.out.c_str());
    sync();
    b.pretouch();
  };
  group.add(
      "write_buffered", "buffered writes of 2 MiB, not durable", b.bytes,
      [&b] { write_all(b, 1, 0, false, false, b.bytes); }, prepare);
  group.add(
      "write_fdatasync", "buffered writes of 2 MiB, fdatasync", b.bytes,
      [&b] { write_all(b, 1, 0, false, true, b.bytes); }, prepare);
  const int probe = open(b.out.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
  const std::string why = std::string("O_DIRECT: ") + std::strerror(errno);
  if (probe >= 0) close(probe);
  for (const unsigned n : {1u, 2u}) {
    if (probe < 0) {
      group.missing(named("write_direct", n), why);
      continue;
    }
    group.add(
        named("write_direct", n), "fallocate, O_DIRECT writes of 2 MiB, fdatasync" + by(n), b.blocks(),
        [&b, n] { write_all(b, n, O_DIRECT, true, true, b.blocks()); }, prepare);
  }
  group.run();
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) all.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.json = true;
    } else if (name == "--no-warm-up") {
      options.warm_up = false;
    } else if (i + 1 == argc) {
      return std::nullopt;
    } else if (name == "--size") {
      options.bytes = static_cast<std::uint64_t>(std::strtod(argv[++i], nullptr) * (1u << 20));
    } else if (name == "--only") {
      options.only = split(argv[++i]);
    } else if (name == "--file") {
      options.file = argv[++i];
    } else if (name == "--directory") {
      options.directory = argv[++i];
    } else if (name == "--threads") {
      options.threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (name == "--rounds") {
      options.rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else {
      return std::nullopt;
    }
  }
  if (options.bytes < 4096 || options.threads == 0 || options.threads > 256 || options.rounds < 1) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: limits [--size MIB] [--only NAME,...] [--json] [--file FILE] [--directory DIR] [--threads N] "
                 "[--rounds N] [--no-warm-up]\n");
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
  maps(b, *options);
  cold_reads(b, *options);
  writes(b, *options);
}
