// The program behind scripts/demo: writes a checkpoint of the size of GPT-2 small, and reads a slice of it.
#include <safetensors/safetensors.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace st = safetensors;

namespace {

struct Parameter {
  std::string name;
  st::Dtype dtype;
  std::vector<std::uint64_t> shape;
};

// The 148 tensors of the published model: matrices in BF16, the rest in F32.
std::vector<Parameter> gpt2_small() {
  std::vector<Parameter> parameters;
  const auto matrix = [&](std::string name, std::uint64_t rows, std::uint64_t columns) {
    parameters.push_back({std::move(name), st::Dtype::BF16, {rows, columns}});
  };
  const auto vector = [&](std::string name, std::uint64_t size) {
    parameters.push_back({std::move(name), st::Dtype::F32, {size}});
  };
  matrix("wte.weight", 50257, 768);
  matrix("wpe.weight", 1024, 768);
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    vector(h + "ln_1.weight", 768);
    vector(h + "ln_1.bias", 768);
    matrix(h + "attn.c_attn.weight", 768, 2304);
    vector(h + "attn.c_attn.bias", 2304);
    matrix(h + "attn.c_proj.weight", 768, 768);
    vector(h + "attn.c_proj.bias", 768);
    vector(h + "ln_2.weight", 768);
    vector(h + "ln_2.bias", 768);
    matrix(h + "mlp.c_fc.weight", 768, 3072);
    vector(h + "mlp.c_fc.bias", 3072);
    matrix(h + "mlp.c_proj.weight", 3072, 768);
    vector(h + "mlp.c_proj.bias", 768);
  }
  vector("ln_f.weight", 768);
  vector("ln_f.bias", 768);
  return parameters;
}

// Normal numbers of about the size of real weights, made once and repeated.
class Weights {
 public:
  Weights() : floats_(1 << 16), halves_(floats_.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (std::size_t i = 0; i < floats_.size(); ++i) {
      floats_[i] = normal(random);
      std::uint32_t bits = 0;
      std::copy_n(reinterpret_cast<const char*>(&floats_[i]), sizeof bits, reinterpret_cast<char*>(&bits));
      halves_[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  [[nodiscard]] std::span<const std::byte> of(st::Dtype dtype) const {
    return dtype == st::Dtype::F32 ? std::as_bytes(std::span(floats_)) : std::as_bytes(std::span(halves_));
  }

 private:
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
};

// Lays out the file first and then writes it in pieces, so the whole file is never in memory.
st::Status write(const char* path) {
  st::HeaderBuilder builder;
  if (st::Status s = builder.metadata("format", "pt"); !s) return s;
  const std::vector<Parameter> parameters = gpt2_small();
  for (const Parameter& p : parameters)
    if (st::Status s = builder.add(p.name, p.dtype, p.shape); !s) return s;
  const auto header = builder.build();
  if (!header) return header.error();
  auto writer = st::Writer::create(path, *header);
  if (!writer) return writer.error();
  const Weights weights;
  for (const st::TensorInfo& tensor : header->tensors()) {
    const std::span<const std::byte> pattern = weights.of(tensor.dtype);
    for (std::uint64_t at = 0; at < tensor.nbytes(); at += pattern.size()) {
      const auto piece = pattern.first(std::min<std::uint64_t>(pattern.size(), tensor.nbytes() - at));
      if (st::Status s = writer->write(tensor.name, at, piece); !s) return s;
    }
  }
  if (st::Status s = writer->commit(); !s) return s;
  std::printf("%zu tensors, %.1f MB\n", header->size(), static_cast<double>(header->file_bytes()) / 1e6);
  return {};
}

// A user-defined Source: a file that counts the bytes read.
class CountingSource : public st::Source {
 public:
  explicit CountingSource(const char* path) : descriptor_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  CountingSource(const CountingSource&) = delete;
  CountingSource& operator=(const CountingSource&) = delete;
  ~CountingSource() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] st::Result<std::uint64_t> size() const noexcept override {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) return st::Error{.code = st::Errc::read_failed, .message = "fstat failed"};
    return static_cast<std::uint64_t>(status.st_size);
  }
  [[nodiscard]] st::Result<std::size_t> read_at(std::uint64_t offset,
                                                st::Span<std::byte> destination) const noexcept override {
    const ssize_t count = ::pread(descriptor_, destination.data(), destination.size(), static_cast<off_t>(offset));
    if (count < 0) return st::Error{.code = st::Errc::read_failed, .message = "pread failed"};
    bytes_ += static_cast<std::uint64_t>(count);
    return static_cast<std::size_t>(count);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  int descriptor_;
  mutable std::atomic<std::uint64_t> bytes_ = 0;
};

st::Status read(const char* path) {
  const auto source = std::make_shared<CountingSource>(path);
  const auto file = st::File::from_source(source);
  if (!file) return file.error();
  const std::uint64_t opening = source->bytes();
  const auto tensor = file->tensor("wte.weight");
  if (!tensor) return tensor.error();
  const auto rows = tensor->read(st::Slice{st::DimSlice::range(1000, 1002), st::DimSlice::range({}, 4)});
  if (!rows) return rows.error();
  const auto halves = rows->as<std::uint16_t>();
  if (!halves) return halves.error();
  for (std::size_t i = 0; i < halves->size(); ++i) {
    const std::uint32_t bits = std::uint32_t{(*halves)[i]} << 16;
    float value = 0;
    std::copy_n(reinterpret_cast<const char*>(&bits), sizeof value, reinterpret_cast<char*>(&value));
    std::printf("%s%g", i == 0 ? "" : i % 4 == 0 ? "\n" : " ", static_cast<double>(value));
  }
  std::printf("\nread: %llu bytes to open the file, %llu for the slice (%llu asked for); the file has %llu\n",
              static_cast<unsigned long long>(opening), static_cast<unsigned long long>(source->bytes() - opening),
              static_cast<unsigned long long>(rows->nbytes()),
              static_cast<unsigned long long>(file->header().file_bytes()));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  if (command != "write" && command != "read") {
    std::fprintf(stderr, "usage: demo write|read FILE\n");
    return 2;
  }
  const st::Status status = command == "write" ? write(argv[2]) : read(argv[2]);
  if (!status) std::fprintf(stderr, "demo: %s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
