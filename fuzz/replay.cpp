// Runs a fuzz target over files and folders of files: for the seeds in ctest, and for inputs that a fuzzer found.
// -random=COUNT also runs COUNT inputs of random bytes, the same ones each time.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "require.h"

namespace {

bool run(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) return false;
  // A buffer of exactly the input's size, so that a sanitizer sees a read past its end.
  const std::vector<unsigned char> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  return true;
}

void run_random(std::size_t count) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<unsigned char> bytes(1 + random() % 1000);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 56);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view kRandom = "-random=";
    if (std::string_view(argv[i]).starts_with(kRandom)) {
      const std::size_t wanted = std::strtoul(argv[i] + kRandom.size(), nullptr, 10);
      run_random(wanted);
      count += wanted;
      continue;
    }
    const std::filesystem::path path(argv[i]);
    if (!std::filesystem::is_directory(path)) {
      if (!run(path)) return std::fprintf(stderr, "cannot read %s\n", path.string().c_str()), 1;
      ++count;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.is_regular_file()) continue;
      std::fprintf(stderr, "%s\n", entry.path().string().c_str());
      if (!run(entry.path())) return 1;
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}
