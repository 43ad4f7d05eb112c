// Opening files and listing their tensors, against open(), fstat() and read() of the same header into fresh 4 KiB
// pages.
#include "model.h"

namespace st = safetensors;

namespace {

void plain(const std::string& path, std::uint64_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY);
  struct stat status;
  bench::require(fd >= 0 && fstat(fd, &status) == 0, "open");
  const bench::FreshMemory memory(bytes, MADV_NOHUGEPAGE);
  bench::require(read(fd, memory.data(), bytes) == static_cast<ssize_t>(bytes), "read");
  close(fd);
}

void list(const std::string& path) {
  const st::File file = bench::must(st::File::open(path));
  std::uint64_t bytes = 0;
  for (const st::TensorInfo& tensor : file.header().tensors()) bytes += tensor.nbytes();
  bench::require(bytes > 0, "no tensors");
}

}  // namespace

int main() {
  std::printf("open and list, warm cache\n");
  for (const std::size_t count : {45u, 1'000u, 18'432u}) {
    bench::Scratch scratch;
    const std::string path = scratch.file("model.safetensors");
    bench::write_model(path, count, count * 8192);
    const st::File file = bench::must(st::File::open(path));
    const std::uint64_t start = file.header().data_start();
    std::vector<bench::Contender> contenders;
    contenders.push_back({"open, fstat, read, close", [&] { plain(path, start); }});
    contenders.push_back({"File::open, iterate", [&] { list(path); }});
    bench::race(contenders, 101);
    std::printf(" %zu tensors, %llu bytes of header\n", count, static_cast<unsigned long long>(start));
    bench::print(contenders);
  }
}
