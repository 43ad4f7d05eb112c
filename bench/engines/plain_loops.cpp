// The loops that engines write, without any engine: malloc and fread per tensor, a map and memcpy with one or two
// threads, and one buffer with pread. This library only tells where the tensors are, because that costs all of them the
// same.
#include <fcntl.h>
#include <safetensors/safetensors.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "../bench.h"
#include "../model.h"
#include "loops.h"

namespace engines {
namespace {

namespace st = safetensors;
using bench::must;
using bench::require;

struct Range {
  std::string name;
  std::uint64_t offset;
  std::size_t size;
};

std::vector<Range> ranges_of(const std::string& path) {
  const st::File file = must(st::File::open(path));
  std::vector<Range> ranges;
  for (const st::TensorInfo& info : file.header().tensors())
    ranges.push_back({std::string(info.name), info.file_offset, info.nbytes()});
  return ranges;
}

Loaded with_fread(const std::string& path) {
  const std::vector<Range> ranges = ranges_of(path);
  Loaded loaded;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  require(file != nullptr, "fopen");
  for (const Range& range : ranges) {
    std::byte* const memory = loaded.allocate(range.size);
    require(fseeko(file, static_cast<off_t>(range.offset), SEEK_SET) == 0, "fseeko");
    require(std::fread(memory, 1, range.size, file) == range.size, "fread");
    loaded.tensors.emplace_back(range.name, std::span(memory, range.size));
  }
  std::fclose(file);
  return loaded;
}

Loaded with_ifstream(const std::string& path) {
  const std::vector<Range> ranges = ranges_of(path);
  Loaded loaded;
  std::ifstream file(path, std::ios::binary);
  for (const Range& range : ranges) {
    std::byte* const memory = loaded.allocate(range.size);
    file.seekg(static_cast<std::streamoff>(range.offset));
    file.read(reinterpret_cast<char*>(memory), static_cast<std::streamsize>(range.size));
    require(file.good(), "ifstream");
    loaded.tensors.emplace_back(range.name, std::span(memory, range.size));
  }
  return loaded;
}

template <unsigned threads>
Loaded with_map(const std::string& path) {
  const std::vector<Range> ranges = ranges_of(path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  require(fd >= 0 && fstat(fd, &about) == 0, "open");
  const auto size = static_cast<std::size_t>(about.st_size);
  void* const map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  require(map != MAP_FAILED, "mmap");
  Loaded loaded;
  for (const Range& range : ranges)
    loaded.tensors.emplace_back(range.name, std::span(loaded.allocate(range.size), range.size));
  std::atomic<std::size_t> next{0};
  const auto copy = [&] {
    for (std::size_t i = next++; i < ranges.size(); i = next++)
      std::memcpy(const_cast<std::byte*>(loaded.tensors[i].second.data()),
                  static_cast<const std::byte*>(map) + ranges[i].offset, ranges[i].size);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(copy);
  copy();
  for (std::thread& helper : helpers) helper.join();
  munmap(map, size);
  close(fd);
  return loaded;
}

Loaded with_one_buffer(const std::string& path) {
  const std::vector<Range> ranges = ranges_of(path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, "open");
  std::size_t size = 0;
  for (const Range& range : ranges) size += (range.size + 63) / 64 * 64;
  Loaded loaded;
  std::byte* memory = loaded.allocate(size);
  for (const Range& range : ranges) {
    bench::pread_all(fd, reinterpret_cast<char*>(memory), range.offset, range.size, std::uint64_t{1} << 30);
    loaded.tensors.emplace_back(range.name, std::span(memory, range.size));
    memory += (range.size + 63) / 64 * 64;
  }
  close(fd);
  return loaded;
}

}  // namespace

std::vector<Loop> plain_loops() {
  return {{"fread", "malloc and fread per tensor", false, with_fread},
          {"ifstream", "malloc and std::ifstream per tensor", false, with_ifstream},
          {"map_1", "mmap, malloc and memcpy per tensor, 1 thread", false, with_map<1>},
          {"map_2", "mmap, malloc and memcpy per tensor, 2 threads", false, with_map<2>},
          {"pread", "one buffer from malloc, pread per tensor", false, with_one_buffer}};
}

}  // namespace engines
