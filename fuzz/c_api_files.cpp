// A folder with one small file, an index of it and a text. The folder is in memory if the system has such a file
// system, because the calls write and no file has to outlive the program.
#include "c_api_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fuzz {
namespace {

// a: F32 [2, 3]; b: U8 [12]; h: BF16 [2, 6]
constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"U8","shape":[12],"data_offsets":[24,36]},"h":{"dtype":"BF16","shape":[2,6],"data_offsets":[36,60]}})";
constexpr std::string_view kIndex = R"({"weight_map":{"a":"m.safetensors"}})";

std::string whole_file() {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{kHeader.size()} >> (8 * i) & 0xFF);
  bytes += kHeader;
  for (int i = 0; i < 60; ++i) bytes += static_cast<char>(i);
  return bytes;
}

void put(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

Files& Files::get() {
  static Files files;
  return files;
}

Files::Files() : whole_(whole_file()) {
  const std::filesystem::path memory = "/dev/shm";
  const bool usable = ::access(memory.c_str(), W_OK) == 0;
  folder_ = ((usable ? memory : std::filesystem::temp_directory_path()) / "safetensors-fuzz-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) std::abort();
  restore();
  file_ = ::open(path(0).c_str(), O_RDONLY | O_CLOEXEC);
  directory_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

Files::~Files() {
  ::close(file_);
  ::close(directory_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Files::restore() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove_all(entry, ignored);
  put(folder_ + "/m.safetensors", whole_);
  put(folder_ + "/m.safetensors.index.json", kIndex);
  put(folder_ + "/text.txt", "no tensors");
}

std::string Files::path(std::uint8_t choice) const {
  switch (choice % 16) {
    case 8:
      return folder_ + "/m.safetensors.index.json";
    case 9:
      return folder_ + "/text.txt";
    case 10:
      return folder_;
    case 11:
      return folder_ + "/*.safetensors";
    case 12:
      return folder_ + "/new.safetensors";
    case 13:
      return folder_ + "/none/new.safetensors";
    case 14:
      return "";
    case 15:
      return folder_ + "/" + std::string(5000, 'x');
    default:
      return folder_ + "/m.safetensors";
  }
}

std::string_view Files::bytes(std::uint8_t choice, Input& in) {
  constexpr std::array<std::string_view, 14> kTexts = {"a",   "b",  "h",   "format", "__metadata__", "",     "1:,::2",
                                                       "...", "-1", "F32", "BF16",   "nobody",       "x\0y", "\xff\n"};
  if (choice < 150) return kTexts[choice % kTexts.size()];
  if (choice < 165) return kHeader;
  if (choice < 180) return whole_;
  drawn_.clear();
  if (choice < 200) {  // a file with one byte changed
    drawn_ = whole_;
    drawn_[in.u64() % drawn_.size()] = static_cast<char>(in.byte());
    return drawn_;
  }
  if (choice < 230) {  // the bytes of a tensor
    drawn_.assign(std::array<std::size_t, 4>{12, 24, 8, 60}[choice % 4], 'z');
    return drawn_;
  }
  for (std::uint64_t i = in.up_to(20); i > 0; --i) drawn_ += static_cast<char>(in.byte());
  return drawn_;
}

int Files::descriptor(std::uint64_t choice) const {
  if (choice < 2) return file_;
  if (choice == 2) return directory_;
  return choice == 3 ? -1 : 1 << 20;
}

}  // namespace fuzz
