// Reads the cases of tools/write_cases.cpp from the standard input, and prints the verdict of the library on each:
// "NAME ok", or "NAME CODE OFFSET MESSAGE". Compiled as C++17 without exceptions and RTTI.
//
// Each case is opened over a Source, which gives zeros after the bytes of the case. So a case may have a size that no
// memory holds. A case that fits is opened in memory, too. If a file opens, the program lists every tensor and
// reads the smaller ones.
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/source.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

static_assert(__cplusplus == 201703L, "this file is compiled as C++17");

namespace st = safetensors;

namespace {

constexpr std::uint64_t kLargestData = 1 << 20;  // bytes of a file that is made in memory

struct Case {
  std::string bytes;
  st::ParseOptions options;
  unsigned long long file_size = 0;  // 0: bytes and data
  unsigned long long data_size = 0;
};

class Zeros final : public st::Source {
 public:
  Zeros(const std::string& bytes, std::uint64_t size) noexcept : bytes_(bytes), size_(size) {}
  [[nodiscard]] st::Result<std::uint64_t> size() const override { return size_; }
  // Gives few bytes at once.
  [[nodiscard]] st::Result<std::size_t> read_at(std::uint64_t offset, st::Span<std::byte> to) const override {
    if (offset >= size_) return std::size_t{0};
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>({to.size(), size_ - offset, 1000}));
    std::memset(to.data(), 0, count);
    if (offset < bytes_.size())
      bytes_.copy(reinterpret_cast<char*>(to.data()), count, static_cast<std::size_t>(offset));
    return count;
  }

 private:
  const std::string& bytes_;
  std::uint64_t size_;
};

// Whether the list, the names and the sizes agree, and small tensors can be read.
bool usable(const st::File& file) {
  std::uint64_t count = 0;
  for (const st::Tensor& tensor : file.tensors()) {
    ++count;
    const st::TensorInfo& info = tensor.info();
    const st::TensorInfo* found = file.header().find(info.name);
    if (found != &info || info.nbytes() != info.end - info.begin) return false;
    if (info.nbytes() > kLargestData) continue;
    const st::Result<st::Array> array = tensor.read();
    if (!array || array->nbytes() != info.nbytes()) return false;
  }
  for (const auto& [key, value] : file.metadata()) {
    if (file.metadata().find(key) != value) return false;
  }
  return count == file.size();
}

std::string verdict(const st::Error& error) {
  return std::string(st::to_string(error.code)) + ' ' + std::to_string(error.offset) + ' ' + error.message;
}

std::string verdict(const st::Result<st::File>& file) {
  if (!file) return verdict(file.error());
  return usable(*file) ? "ok" : "opened, but not usable";
}

// The verdict on the length alone: files of such a size cannot be read.
std::string verdict_on_length(const Case& c) {
  const st::Span<const char> prefix(c.bytes.data(), std::min<std::size_t>(512, c.bytes.size()));
  const st::Result<std::uint64_t> length = st::Header::length(as_bytes(prefix), c.file_size, c.options);
  return length ? "ok" : verdict(length.error());
}

void check(const char* name, const Case& c) {
  const bool length_only = c.file_size != 0;
  const std::uint64_t size = length_only ? c.file_size : c.bytes.size() + c.data_size;
  const std::string source =
      length_only ? verdict_on_length(c)
                  : verdict(st::File::from_source(std::make_shared<const Zeros>(c.bytes, size), c.options));
  std::printf("%s %s\n", name, source.c_str());
  if (length_only || c.data_size > kLargestData) return;
  const std::string whole = c.bytes + std::string(static_cast<std::size_t>(c.data_size), '\0');
  const std::string memory = verdict(st::File::from_memory(as_bytes(st::Span(whole)), nullptr, c.options));
  if (memory != source) std::printf("%s, in memory: %s\n", name, memory.c_str());
}

}  // namespace

int main() {
  char name[256];
  int flags = 0;
  unsigned long long limit = 0, size = 0;
  for (Case c;
       std::scanf("%255s %d %llu %llu %llu %llu", name, &flags, &limit, &c.file_size, &c.data_size, &size) == 6;) {
    (void)std::getchar();  // the end of the line
    c.bytes.resize(static_cast<std::size_t>(size));
    if (std::fread(c.bytes.data(), 1, c.bytes.size(), stdin) != c.bytes.size()) return 2;
    c.options.allow_leading_whitespace = (flags & 1) != 0;
    c.options.accept.unknown_dtypes = (flags & 2) != 0;
    c.options.accept.unused_bytes = (flags & 4) != 0;
    c.options.max_header_bytes = limit;
    check(name, c);
  }
  return std::fflush(stdout) == 0 ? 0 : 2;
}
