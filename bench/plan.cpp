// ReadPlan, against plain system calls that move the same bytes. Usage: plan [MIB]. Lower bound: each byte moves once
// from the page cache, or from the device, into memory.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "model.h"

namespace st = safetensors;

namespace {

void pread_two(int fd, char* to, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t half = size / 2 / 4096 * 4096;
  std::thread other([&] { bench::pread_all(fd, to + half, offset + half, size - half); });
  bench::pread_all(fd, to, offset, half);
  other.join();
}

// Reads with O_DIRECT in eight threads. Each thread takes the next MiB.
void direct_eight(const std::string& path, char* to, std::uint64_t size) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT);
  bench::require(fd >= 0, "open with O_DIRECT");
  std::atomic<std::uint64_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t at = next.fetch_add(1 << 20); at < size; at = next.fetch_add(1 << 20))
        bench::require(pread(fd, to + at, 1 << 20, static_cast<off_t>(at)) > 0, "pread");
    });
  }
  for (std::thread& thread : threads) thread.join();
  close(fd);
}

st::ReadPlan plan_of(const st::File& file) {
  st::ReadPlan plan;
  for (const st::TensorInfo& info : file.header().tensors()) bench::must(plan.add(bench::must(file.tensor(info.name))));
  return plan;
}

st::ReadPlan shards_of(const st::File& file, std::int64_t dim) {
  st::ReadPlan plan;
  for (const st::TensorInfo& info : file.header().tensors())
    bench::must(plan.add(bench::must(file.tensor(info.name)), st::Slice::shard(dim, 3, 8)));
  return plan;
}

void forget(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void show(const st::ReadReport& report) {
  std::printf("    buffered %llu MiB, direct %llu MiB, %llu reads, %llu page faults, %u threads, %.3f CPU s\n",
              static_cast<unsigned long long>(report.bytes_buffered >> 20),
              static_cast<unsigned long long>(report.bytes_direct >> 20), static_cast<unsigned long long>(report.reads),
              static_cast<unsigned long long>(report.page_faults), report.threads, report.cpu_seconds);
  for (const std::string& fallback : report.fallbacks) std::printf("    %s\n", fallback.c_str());
}

void warm(const std::string& path, const std::string& small) {
  const st::File file = bench::must(st::File::open(path));
  const st::File many = bench::must(st::File::open(small));
  const std::uint64_t start = file.header().data_start();
  const std::uint64_t bytes = file.header().data_bytes();
  const int fd = open(path.c_str(), O_RDONLY);
  st::ReadReport fresh_report, many_report, cast_report;
  const st::ReadPlan all = plan_of(file), tiny = plan_of(many);
  st::ReadPlan cast;
  for (const st::TensorInfo& info : file.header().tensors())
    bench::must(cast.add(bench::must(file.tensor(info.name)), {}, {}, st::Dtype::F16));

  std::vector<bench::Contender> race;
  race.push_back({"two threads, pread into fresh 2 MiB pages", [&] {
                    const bench::FreshMemory memory(bytes, MADV_HUGEPAGE);
                    pread_two(fd, memory.data(), start, bytes);
                  }});
  race.push_back({"ReadPlan, all tensors", [&] { fresh_report = bench::must(all.execute()).report; }});
  race.push_back({"ReadPlan, many tensors of 64 KiB", [&] { many_report = bench::must(tiny.execute()).report; }});
  race.push_back({"ReadPlan, BF16 cast to F16", [&] { cast_report = bench::must(cast.execute()).report; }});
  race.push_back({"Stream, all tensors", [&] {
                    st::Stream stream = bench::must(all.stream());
                    while (bench::must(stream.next())) {
                    }
                  }});
  bench::race(race, 5);
  std::printf("%llu MiB, warm\n", static_cast<unsigned long long>(bytes >> 20));
  bench::print(race);
  show(fresh_report);
  show(many_report);
  show(cast_report);

  const st::ReadPlan rows = shards_of(file, 0), columns = shards_of(file, 1);
  st::ReadReport rows_report, columns_report;
  std::vector<bench::Contender> parts;
  parts.push_back({"two threads, pread of an eighth into fresh 2 MiB pages", [&] {
                     const bench::FreshMemory memory(bytes / 8, MADV_HUGEPAGE);
                     pread_two(fd, memory.data(), start, bytes / 8);
                   }});
  parts.push_back({"ReadPlan, an eighth of the rows", [&] { rows_report = bench::must(rows.execute()).report; }});
  parts.push_back(
      {"ReadPlan, an eighth of the columns", [&] { columns_report = bench::must(columns.execute()).report; }});
  bench::race(parts, 5);
  bench::print(parts);
  show(rows_report);
  show(columns_report);
  close(fd);
}

void cold(const std::string& path) {
  const st::File file = bench::must(st::File::open(path));
  const std::uint64_t bytes = file.header().data_bytes();
  const st::ReadPlan all = plan_of(file);
  st::ReadReport keep, fill;
  const auto prepare = [&] { forget(path); };
  std::vector<bench::Contender> race;
  race.push_back({"eight threads, O_DIRECT into fresh 2 MiB pages",
                  [&] {
                    const bench::FreshMemory memory(bytes + (2 << 20), MADV_HUGEPAGE);
                    direct_eight(path, memory.data(), bytes);
                  },
                  prepare});
  race.push_back({"ReadPlan", [&] { keep = bench::must(all.execute()).report; }, prepare});
  race.push_back(
      {"ReadPlan, cache filled", [&] { fill = bench::must(all.execute({.cache = st::Cache::fill})).report; }, prepare});
  bench::race(race, 3);
  std::printf("%llu MiB, cold (pages dropped with posix_fadvise)\n", static_cast<unsigned long long>(bytes >> 20));
  bench::print(race);
  show(keep);
  show(fill);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024) << 20;
  bench::Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  const std::string small = scratch.file("small.safetensors");
  bench::write_model(path, 45, size);
  bench::write_model(small, size >> 16, size);
  warm(path, small);
  cold(path);
}
