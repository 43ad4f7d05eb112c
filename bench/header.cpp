// Reading, parsing, checking and indexing a header of 100,000 tensors, against one read() of it into freshly mapped 4
// KiB pages. Lower bound: each byte of the header moves once from the page cache into memory, as in read().
#include <fcntl.h>
#include <safetensors/safetensors.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "bench.h"

namespace st = safetensors;

namespace {

struct Name {
  std::string text;
  st::Dtype dtype;
  std::uint64_t rows;
};

// Names as in a mixture-of-experts checkpoint: layer by layer, with two dtypes.
std::vector<Name> layer_names(std::size_t count) {
  std::vector<Name> names;
  const char* const parts[] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight", "norm.weight"};
  for (std::size_t i = 0; names.size() < count; ++i) {
    names.push_back({"model.layers." + std::to_string(i / 1024) + ".mlp.experts." + std::to_string(i / 4 % 256) + "." +
                         parts[i % 4],
                     i % 4 == 3 ? st::Dtype::F32 : st::Dtype::BF16, i % 7 + 1});
  }
  return names;
}

std::string entry(const Name& name, std::uint64_t begin, std::uint64_t& end) {
  end = begin + name.rows * 2 * st::bits(name.dtype) / 8;
  return "\"" + name.text + "\":{\"dtype\":\"" + std::string(to_string(name.dtype)) + "\",\"shape\":[" +
         std::to_string(name.rows) + ",2],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) +
         "]}";
}

// entries_shuffled: the order of the entries in the text differs from the order of their bytes.
std::string text_of(const std::vector<Name>& names, bool entries_shuffled, std::uint64_t& data_size) {
  std::vector<std::string> entries;
  data_size = 0;
  for (const Name& name : names) entries.push_back(entry(name, data_size, data_size));
  if (entries_shuffled) std::shuffle(entries.begin(), entries.end(), std::mt19937(7));
  std::string text = "{";
  for (const std::string& each : entries) text.append(text.size() > 1 ? "," : "").append(each);
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void write_sparse(const std::string& path, const std::string& text, std::uint64_t data_size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  bench::require(fd >= 0, "open");
  unsigned char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(std::uint64_t{text.size()} >> (8 * i));
  bench::require(write(fd, prefix, 8) == 8, "write");
  bench::require(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write");
  bench::require(ftruncate(fd, static_cast<off_t>(8 + text.size() + data_size)) == 0, "ftruncate");
  close(fd);
}

// The limit. Asks for small pages, whatever the system's default is.
void plain_read(const std::string& path, std::size_t size) {
  const int fd = open(path.c_str(), O_RDONLY);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bench::require(memory != MAP_FAILED, "mmap");
  madvise(memory, size, MADV_NOHUGEPAGE);
  bench::require(read(fd, memory, size) == static_cast<ssize_t>(size), "read");
  munmap(memory, size);
  close(fd);
}

void run(const char* title, const std::vector<Name>& names, bool entries_shuffled, int rounds) {
  bench::Scratch scratch;
  const std::string path = scratch.file("header.safetensors");
  std::uint64_t data_size = 0;
  const std::string text = text_of(names, entries_shuffled, data_size);
  write_sparse(path, text, data_size);
  std::vector<bench::Contender> contenders;
  contenders.push_back({"read() into fresh 4 KiB pages", [&] { plain_read(path, 8 + text.size()); }});
  contenders.push_back({"File::open: read, parse, check, index", [&] { bench::must(st::File::open(path)); }});
  contenders.push_back({"Header::parse of a copy in memory", [&] { bench::must(st::Header::parse(text, data_size)); }});
  bench::race(contenders, rounds);
  std::printf("%s: %zu tensors, header %.1f MB, warm cache\n", title, names.size(),
              static_cast<double>(text.size()) * 1e-6);
  bench::print(contenders);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 31;
  std::vector<Name> names = layer_names(100'000);
  run("layer order", names, false, rounds);
  std::vector<Name> sorted = names;
  std::sort(sorted.begin(), sorted.end(), [](const Name& a, const Name& b) {
    return a.dtype != b.dtype ? st::rank(a.dtype) > st::rank(b.dtype) : a.text < b.text;
  });
  run("writer's order", sorted, false, rounds);
  std::shuffle(names.begin(), names.end(), std::mt19937(1));
  run("names shuffled", names, false, rounds);
  run("names and entries shuffled (offsets must be sorted)", names, true, rounds);
}
