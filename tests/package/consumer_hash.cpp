// Uses the installed component hash: writes a file and its manifest, verifies the file, and finds a changed byte.
#include <safetensors/hash.h>
#include <safetensors/safetensors.h>

#include <array>
#include <cstdio>
#include <string>

namespace st = safetensors;

static int fail(const st::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

static st::Status write(const std::string& path, float last) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, last};
  const std::array<std::uint64_t, 2> shape = {2, 3};
  const st::TensorData tensor = {"weight", st::Dtype::F32, shape, std::as_bytes(std::span(values))};
  return st::save(path, {&tensor, 1});
}

// Returns 0 if the manifest accepts the intact file, and names the tensor of a changed one.
static int check(const std::string& path, st::HashAlgorithm algorithm) {
  if (st::Status status = write(path, 6); !status) return fail(status.error());
  const st::Result<st::File> file = st::File::open(path);
  if (!file) return fail(file.error());
  const st::Result<st::Manifest> made = st::Manifest::make({&*file, 1}, {.algorithm = algorithm});
  if (!made) return fail(made.error());
  const st::Result<st::Manifest> manifest = st::Manifest::parse(made->text().value());
  if (!manifest) return fail(manifest.error());
  const auto intact = st::verify_file(*file, manifest->files[0], *manifest);
  if (!intact) return fail(intact.error());
  if (!intact->empty()) return 1;

  if (st::Status status = write(path, 7); !status) return fail(status.error());
  const st::Result<st::File> changed = st::File::open(path);
  if (!changed) return fail(changed.error());
  const auto damaged = st::verify_file(*changed, manifest->files[0], *manifest);
  if (!damaged) return fail(damaged.error());
  return damaged->size() == 1 && (*damaged)[0].tensors == std::vector<std::string>{"weight"} ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const st::Result<st::Digest> empty = st::hash_bytes({});
  if (!empty) return fail(empty.error());
  if (st::to_hex(*empty) != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") return 1;
  if (const int status = check(argv[1], st::HashAlgorithm::sha256); status != 0) return status;
  // BLAKE3 is a choice of the build.
  return st::hash_library(st::HashAlgorithm::blake3).empty() ? 0 : check(argv[1], st::HashAlgorithm::blake3);
}
