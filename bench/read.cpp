// Reading a whole checkpoint with one thread, against pread of the same bytes and against memcpy. Usage: read [MIB].
// Lower bound: each byte moves once from the page cache into memory. For a view, no byte moves until it is touched.
#include "model.h"

namespace st = safetensors;

namespace {

volatile std::uint64_t sink;

void touch(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 4096) sum += static_cast<std::uint64_t>(bytes[i]);
  sink = sum;
}

void read_owned(const st::File& file) {
  for (const st::TensorInfo& info : file.header().tensors()) {
    const st::Array array = bench::must(bench::must(file.tensor(info.name)).read());
    touch(array.bytes().first(1));
  }
}

void read_into(const st::File& file, char* memory) {
  for (const st::TensorInfo& info : file.header().tensors()) {
    const auto to = std::as_writable_bytes(std::span(memory + info.begin, info.nbytes()));
    bench::must(bench::must(file.tensor(info.name)).read_into(to));
  }
}

void view(const st::File& file, st::Map map) {
  for (const st::TensorInfo& info : file.header().tensors()) {
    const st::Array array = bench::must(bench::must(file.tensor(info.name)).view({}, map));
    touch(array.bytes());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024) << 20;
  bench::Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  bench::write_model(path, 45, size);
  const st::File file = bench::must(st::File::open(path));
  const std::uint64_t start = file.header().data_start();
  const std::uint64_t bytes = file.header().data_bytes();
  const int fd = open(path.c_str(), O_RDONLY);
  const bench::FreshMemory touched(bytes, MADV_HUGEPAGE);
  const bench::FreshMemory copy(bytes, MADV_HUGEPAGE);
  std::memset(touched.data(), 1, bytes);
  std::memset(copy.data(), 1, bytes);

  std::vector<bench::Contender> fresh;
  fresh.push_back({"pread into fresh 2 MiB pages", [&] {
                     const bench::FreshMemory memory(bytes, MADV_HUGEPAGE);
                     bench::pread_all(fd, memory.data(), start, bytes);
                   }});
  fresh.push_back({"pread into fresh 4 KiB pages", [&] {
                     const bench::FreshMemory memory(bytes, MADV_NOHUGEPAGE);
                     bench::pread_all(fd, memory.data(), start, bytes);
                   }});
  fresh.push_back({"Tensor::read of each", [&] { read_owned(file); }});
  bench::race(fresh, 5);
  std::printf("%llu MiB in 45 tensors, warm cache, one thread\n into memory of its own\n",
              static_cast<unsigned long long>(bytes >> 20));
  bench::print(fresh);

  std::vector<bench::Contender> into;
  into.push_back({"pread into touched memory", [&] { bench::pread_all(fd, touched.data(), start, bytes); }});
  into.push_back({"memcpy", [&] { std::memcpy(copy.data(), touched.data(), bytes); }});
  into.push_back({"Tensor::read_into of each", [&] { read_into(file, touched.data()); }});
  bench::race(into, 5);
  std::printf(" into the caller's memory\n");
  bench::print(into);

  std::vector<bench::Contender> views;
  views.push_back({"mmap, touch every page", [&] {
                     const std::size_t length = start + bytes;
                     void* map = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
                     bench::require(map != MAP_FAILED, "mmap");
                     touch({static_cast<const std::byte*>(map), length});
                     munmap(map, length);
                   }});
  views.push_back(
      {"open, view(shared), touch every page", [&] { view(bench::must(st::File::open(path)), st::Map::shared); }});
  views.push_back({"open, view(copy_on_write), touch every page",
                   [&] { view(bench::must(st::File::open(path)), st::Map::copy_on_write); }});
  bench::race(views, 5);
  std::printf(" views\n");
  bench::print(views);
  close(fd);
}
