// Reads the cases of write_cases.cpp from the standard input, and prints the verdict on each: "NAME ok", or "NAME CODE
// OFFSET MESSAGE". Needs no operating system and no exceptions, so it also runs as WebAssembly.
//
// Each case is read as a header, as a file in memory and as a file over a Source of callbacks. First come checks of the
// calls that need a system: they must fail with ENOSYS.
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/save.h>
#include <safetensors/source.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace {

using safetensors::Errc;
using safetensors::File;
using safetensors::Header;

constexpr unsigned long long kLargestData = 1 << 20;  // bytes of a file that is made in memory

struct Case {
  std::string bytes;
  safetensors::ParseOptions options;
  unsigned long long file_size = 0;  // 0: bytes and data
  unsigned long long data_size = 0;
};

class Bytes final : public safetensors::Source {
 public:
  explicit Bytes(const std::string& bytes) : bytes_(bytes) {}
  [[nodiscard]] safetensors::Result<std::uint64_t> size() const noexcept override { return bytes_.size(); }
  // Gives few bytes at once.
  [[nodiscard]] safetensors::Result<std::size_t> read_at(std::uint64_t offset,
                                                         std::span<std::byte> destination) const noexcept override {
    const auto rest = std::as_bytes(std::span(bytes_)).subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min({rest.size(), destination.size(), std::size_t{1000}});
    std::copy_n(rest.begin(), count, destination.begin());
    return count;
  }

 private:
  const std::string& bytes_;
};

template <class Value>
std::string verdict(const safetensors::Result<Value>& result) {
  if (result) return "ok";
  const safetensors::Error& error = result.error();
  return std::string(to_string(error.code)) + ' ' + std::to_string(error.offset) + ' ' + error.message;
}

safetensors::Result<Header> parse(const Case& c, unsigned long long file_size) {
  const auto bytes = std::as_bytes(std::span(c.bytes));
  const auto length = Header::length(bytes.first(std::min<std::size_t>(512, bytes.size())), file_size, c.options);
  if (!length) return length.error();
  if (c.file_size != 0) return Header();
  return Header::parse(std::string_view(c.bytes).substr(8, *length), file_size - 8 - *length, c.options);
}

void check(const char* name, const Case& c) {
  const std::string header = verdict(parse(c, c.file_size != 0 ? c.file_size : c.bytes.size() + c.data_size));
  std::printf("%s %s\n", name, header.c_str());
  if (c.file_size != 0 || c.data_size > kLargestData) return;
  const std::string whole = c.bytes + std::string(static_cast<std::size_t>(c.data_size), '\0');
  const std::string memory = verdict(File::from_memory(std::as_bytes(std::span(whole)), nullptr, c.options));
  const std::string source = verdict(File::from_source(std::make_shared<Bytes>(whole), c.options));
  if (memory != header) std::printf("%s, in memory: %s\n", name, memory.c_str());
  if (source != header) std::printf("%s, from a source: %s\n", name, source.c_str());
}

bool needs_system() {
  const auto opened = File::open("model.safetensors");
  const auto saved = safetensors::save("model.safetensors", {});
  if (!opened.ok() && opened.error().os_error == ENOSYS && !saved.ok() && saved.error().os_error == ENOSYS) return true;
  std::fprintf(stderr, "without a system: %s; %s\n", opened.ok() ? "opened" : opened.error().to_string().c_str(),
               saved.ok() ? "saved" : saved.error().to_string().c_str());
  return false;
}

}  // namespace

int main() {
  if (!needs_system()) return 1;
  char name[256];
  int flags = 0;
  unsigned long long limit = 0, size = 0;
  for (Case c;
       std::scanf("%255s %d %llu %llu %llu %llu", name, &flags, &limit, &c.file_size, &c.data_size, &size) == 6;) {
    (void)std::getchar();  // the end of the line
    c.bytes.resize(static_cast<std::size_t>(size));
    if (std::fread(c.bytes.data(), 1, c.bytes.size(), stdin) != c.bytes.size()) return 2;
    c.options.allow_leading_whitespace = (flags & 1) != 0;
    c.options.accept = {
        .unknown_dtypes = (flags & 2) != 0, .holes = (flags & 4) != 0, .unused_bytes = (flags & 8) != 0};
    c.options.max_header_bytes = limit;
    check(name, c);
  }
  return std::fflush(stdout) == 0 ? 0 : 2;
}
