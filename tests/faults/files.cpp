// Writes the files that scenarios read through the C interface, before any fault.
#include "faults/files.h"

#include <safetensors/c.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace safetensors::test::faults {
namespace {

safetensors_tensor_data tensor_of(const char* name, safetensors_dtype dtype, const std::vector<std::uint64_t>& shape,
                                  const std::vector<unsigned char>& bytes, std::size_t size) {
  return {name, SAFETENSORS_NUL_TERMINATED, dtype, 0, shape.data(), shape.size(), bytes.data(), size};
}

void write(const std::string& path, const std::vector<safetensors_tensor_data>& tensors) {
  const safetensors_metadata pairs[] = {{"format", 6, "pt", 2}, {"x", 1, "y", 1}};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.durability = SAFETENSORS_DURABILITY_NONE;
  options.metadata = pairs;
  options.metadata_count = 2;
  if (safetensors_save(path.c_str(), tensors.data(), tensors.size(), &options, nullptr) != 0) std::abort();
}

}  // namespace

bool as_expected(const void* bytes, std::size_t size, std::size_t offset) {
  const auto* const read = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i)
    if (read[i] != byte_at(offset + i)) return false;
  return true;
}

void make_files(const std::string& directory) {
  std::vector<unsigned char> bytes(kLargeBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
  const std::vector<std::uint64_t> matrix = {4, 6};
  const std::vector<std::uint64_t> wide = {64, 512};
  const std::vector<std::uint64_t> list = {256};
  const std::vector<std::uint64_t> big = {kLargeBytes};
  write(directory + "/" + kSmall, {tensor_of("m", SAFETENSORS_DTYPE_I64, {}, bytes, 8),
                                   tensor_of("w", SAFETENSORS_DTYPE_F32, matrix, bytes, 96)});
  write(directory + "/" + kLarge, {tensor_of("big", SAFETENSORS_DTYPE_U8, big, bytes, kLargeBytes),
                                   tensor_of("f", SAFETENSORS_DTYPE_F32, wide, bytes, 64 * 512 * 4)});
  std::ofstream(directory + "/" + kPart) << R"({"metadata":{"total_size":7},"weight_map":{"w":"small.safetensors"}})";
  const std::string model = directory + "/" + kModel;
  std::filesystem::create_directory(model);
  std::filesystem::create_directory(directory + "/out");
  write(model + "/one.safetensors", {tensor_of("a", SAFETENSORS_DTYPE_F32, list, bytes, 1024)});
  write(model + "/two.safetensors", {tensor_of("b", SAFETENSORS_DTYPE_F32, list, bytes, 1024)});
  std::ofstream(model + "/model.safetensors.index.json")
      << R"({"metadata":{},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})";
}

}  // namespace safetensors::test::faults
