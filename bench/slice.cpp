// Slices of one matrix of BF16, against one pread of the same number of bytes. Also the number of bytes read per byte
// needed.
#include <atomic>

#include "model.h"

namespace st = safetensors;

namespace {

// Counts the reads of a File and their bytes.
class Counting final : public st::Source {
 public:
  explicit Counting(const std::string& path) : fd_(open(path.c_str(), O_RDONLY)) { bench::require(fd_ >= 0, "open"); }
  ~Counting() override { close(fd_); }
  st::Result<std::uint64_t> size() const noexcept override {
    struct stat status;
    bench::require(fstat(fd_, &status) == 0, "fstat");
    return static_cast<std::uint64_t>(status.st_size);
  }
  st::Result<std::size_t> read_at(std::uint64_t offset, st::Span<std::byte> to) const noexcept override {
    const ssize_t got = pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    bench::require(got >= 0, "pread");
    bytes += static_cast<std::uint64_t>(got);
    ++reads;
    return static_cast<std::size_t>(got);
  }
  mutable std::atomic<std::uint64_t> bytes{0};
  mutable std::atomic<std::uint64_t> reads{0};

 private:
  int fd_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256) << 20;
  bench::Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  const std::uint64_t rows = size / 1'048'576;
  st::HeaderBuilder builder;
  bench::must(builder.add("wide", st::Dtype::BF16, {rows, 524'288}));  // rows of 1 MiB
  const st::Header header = bench::must(builder.build());
  {
    st::Writer writer = bench::must(st::Writer::create(path, header, {.durability = st::Durability::none}));
    const std::vector<std::byte> row(1 << 20, std::byte{7});
    for (std::uint64_t i = 0; i < rows; ++i) bench::must(writer.write("wide", i << 20, row));
    bench::must(writer.commit());
  }
  const auto source = std::make_shared<Counting>(path);
  const st::File counted = bench::must(st::File::from_source(source));
  const st::File file = bench::must(st::File::open(path, {.access = st::Access::read}));
  const st::Tensor tensor = bench::must(file.tensor("wide"));
  const int fd = open(path.c_str(), O_RDONLY);

  std::printf("%llu MiB, BF16, rows of 1 MiB; warm cache; the limit is a pread of as many bytes in one piece\n",
              static_cast<unsigned long long>(size >> 20));
  const char* const slices[] = {":32", "5",   ":,:65536", ":,:32768", ":,:2048", ":,:128",
                                ":,3", "::2", ":,::3",    "::-1",     ":8,::-1", ":,100:500000:7"};
  for (const char* const text : slices) {
    const st::Slice slice = bench::must(st::Slice::parse(text));
    const std::uint64_t needed = bench::must(slice.resolve(tensor.dtype(), tensor.shape())).nbytes();
    std::vector<std::byte> to(needed);
    source->bytes = source->reads = 0;
    bench::must(bench::must(counted.tensor("wide")).read_into(to, slice));
    std::vector<bench::Contender> contenders;
    contenders.push_back(
        {"pread", [&] { bench::pread_all(fd, reinterpret_cast<char*>(to.data()), header.data_start(), needed); }});
    contenders.push_back({text, [&] { bench::must(tensor.read_into(to, slice)); }});
    bench::race(contenders, 5);
    std::printf("  [%-14s %11llu bytes needed, read / needed %8.3f in %7llu reads, %9.3f ms, %8.2f x the limit\n",
                (std::string(text) + "]").c_str(), static_cast<unsigned long long>(needed),
                static_cast<double>(source->bytes) / static_cast<double>(needed),
                static_cast<unsigned long long>(source->reads.load()), contenders[1].median() * 1e3,
                contenders[1].median() / contenders[0].median());
  }
  close(fd);
}
