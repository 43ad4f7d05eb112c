// Reads the cases of tools/write_cases.cpp from the standard input, and prints the verdict of the C++17 interface on
// each: "NAME ok", or "NAME CODE OFFSET MESSAGE". Compiled as C++17 without exceptions and RTTI.
//
// Each case is opened over a source, which gives zeros after the bytes of the case. So a case may have a size that no
// memory holds. A case that fits is opened in memory, too. If a file opens, the program lists every tensor and
// reads the smaller ones.
#include <safetensors/safetensors.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

static_assert(__cplusplus == 201703L, "this file is compiled as C++17");

namespace st = safetensors17;

namespace {

constexpr std::uint64_t kLargestData = 1 << 20;  // bytes of a file that is made in memory

struct Case {
  std::string bytes;
  st::ParseOptions options;
  unsigned long long file_size = 0;  // 0: bytes and data
  unsigned long long data_size = 0;
};

class Zeros {
 public:
  Zeros(const std::string& bytes, std::uint64_t size) noexcept : bytes_(&bytes), size_(size) {}
  [[nodiscard]] st::Result<std::uint64_t> size() const noexcept { return size_; }
  // Gives few bytes at once.
  [[nodiscard]] st::Result<std::size_t> read_at(std::uint64_t offset, void* memory,
                                                std::size_t capacity) const noexcept {
    if (offset >= size_) return std::size_t{0};
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>({capacity, size_ - offset, 1000}));
    std::memset(memory, 0, count);
    if (offset < bytes_->size()) bytes_->copy(static_cast<char*>(memory), count, static_cast<std::size_t>(offset));
    return count;
  }

 private:
  const std::string* bytes_;
  std::uint64_t size_;
};

// Whether the list, the names and the sizes agree, and small tensors can be read.
bool usable(const st::File& file) {
  std::uint64_t count = 0;
  for (const st::TensorInfo& info : file.tensors()) {
    ++count;
    const st::Result<st::TensorInfo> found = file.find(info.name());
    const st::Result<st::Tensor> tensor = file.tensor(info.name());
    if (!found || !tensor || found->data_begin() != info.data_begin() || found->shape().size() != info.shape().size())
      return false;
    if (info.nbytes() != info.data_end() - info.data_begin()) return false;
    if (info.nbytes() > kLargestData) continue;
    const st::Result<st::Array> array = tensor->read();
    if (!array || array->nbytes() != info.nbytes()) return false;
  }
  for (const st::MetadataPair pair : file.metadata()) {
    if (file.metadata().find(pair.key) != pair.value) return false;
  }
  return count == file.size();
}

std::string verdict(const st::Result<st::File>& file) {
  if (file) return usable(*file) ? "ok" : "opened, but not usable";
  const st::Error& error = file.error();
  return std::string(error.name()) + ' ' + std::to_string(error.offset()) + ' ' + error.message();
}

// The verdict on the length alone: files of such a size cannot be read.
std::string verdict_on_length(const Case& c) {
  st::Error error;
  std::uint64_t length = 0;
  const std::size_t prefix = std::min<std::size_t>(512, c.bytes.size());
  if (!safetensors_header_length(c.bytes.data(), prefix, c.file_size, &c.options, &length, &error.c())) return "ok";
  return verdict(error);
}

void check(const char* name, const Case& c) {
  const bool length_only = c.file_size != 0;
  const std::uint64_t size = length_only ? c.file_size : c.bytes.size() + c.data_size;
  const std::string source =
      length_only ? verdict_on_length(c) : verdict(st::File::from_source(Zeros(c.bytes, size), c.options));
  std::printf("%s %s\n", name, source.c_str());
  if (length_only || c.data_size > kLargestData) return;
  const std::string whole = c.bytes + std::string(static_cast<std::size_t>(c.data_size), '\0');
  const std::string memory = verdict(st::File::from_memory(whole.data(), whole.size(), c.options));
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
    if (std::fread(&c.bytes[0], 1, c.bytes.size(), stdin) != c.bytes.size()) return 2;
    c.options.allow_leading_whitespace = static_cast<std::uint32_t>(flags & 1);
    c.options.accept = static_cast<std::uint32_t>(flags) >> 1;  // the bits of SAFETENSORS_ACCEPT_...
    c.options.max_header_bytes = limit;
    check(name, c);
  }
  return std::fflush(stdout) == 0 ? 0 : 2;
}
