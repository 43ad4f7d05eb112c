// Writes files for pseudocode_reader.py into the given folder, and prints their contents: a line "FILE METADATA-KEYS"
// and then for each tensor "NAME DTYPE SHAPE BYTES", names and bytes in hexadecimal.
#include <safetensors/safetensors.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace safetensors;

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

struct Owned {
  std::string name;
  Dtype dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

Owned make(std::string name, Dtype dtype, Shape shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  Owned tensor{std::move(name), dtype, std::move(shape), std::vector<std::byte>(count * bits(dtype) / 8)};
  unsigned value = 7;
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(value = (value * 31 + 1) & 0xFF);
  return tensor;
}

bool write(const std::string& directory, const char* file, const std::vector<Owned>& tensors,
           const std::optional<MetadataPairs>& metadata, const LayoutOptions& layout = {}) {
  std::vector<TensorData> data;
  for (const Owned& tensor : tensors) data.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  const std::string path = directory + "/" + file;
  const Status status = save(path, data, metadata, {.durability = Durability::none}, layout);
  if (!status) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), status.error().message.c_str());
    return false;
  }
  std::printf("file %s %d\n", file, metadata ? static_cast<int>(metadata->size()) : -1);
  for (const Owned& tensor : tensors) {
    std::string shape = "[";
    for (const std::uint64_t dim : tensor.shape) shape += (shape == "[" ? "" : ",") + std::to_string(dim);
    std::printf("tensor x%s %s %s] x%s\n", hex(std::as_bytes(std::span(tensor.name))).c_str(),
                std::string(to_string(tensor.dtype)).c_str(), shape.c_str(), hex(tensor.bytes).c_str());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<Owned> all;
  for (const Dtype dtype : all_dtypes()) all.push_back(make("of." + std::string(to_string(dtype)), dtype, {2, 4}));
  const std::vector<Owned> names = {make("", Dtype::U8, {3}),
                                    make("../../x", Dtype::F32, {2, 2}),
                                    make("a\"b\\c/d\n\t\x01\x7f", Dtype::I16, {}),
                                    make("gr\u00f6\u00dfe \U0001F980 \uffff", Dtype::U64, {1}),
                                    make(std::string("nul\0", 4), Dtype::BOOL, {0}),
                                    make("empty", Dtype::F64, {4, 0, 2})};
  const std::string directory = argv[1];
  const bool good = write(directory, "nothing", {}, std::nullopt) &&
                    write(directory, "metadata", {}, MetadataPairs{}) &&
                    write(directory, "dtypes", all, MetadataPairs{{"format", "pt"}}) &&
                    write(directory, "names", names, MetadataPairs{{"k\u00e9\n", "\"v\\"}, {"", ""}}) &&
                    write(directory, "aligned", all, std::nullopt, {.data_alignment = 4096, .metadata_slack = 100});
  return good ? 0 : 1;
}
