// Uses the installed package in C++: writes a file, opens it, and reads a slice. It must also compile with
// -fno-exceptions.
#include <safetensors/safetensors.h>

#include <array>
#include <cstdio>

namespace st = safetensors;

static int fail(const st::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const std::array<std::uint64_t, 2> shape = {2, 3};
  const st::TensorData tensor = {"weight", st::Dtype::F32, shape, st::as_bytes(st::Span(values))};
  if (st::Status status = st::save(argv[1], {&tensor, 1}); !status) return fail(status.error());

  const st::Result<st::File> file = st::File::open(argv[1]);
  if (!file) return fail(file.error());
  if (file->header().size() != 1) return 1;
  const st::Result<st::Tensor> weight = file->tensor("weight");
  if (!weight) return fail(weight.error());
  const st::Result<st::Array> row = weight->read(st::Slice{st::DimSlice::at(1), st::DimSlice::range(1, {})});
  if (!row) return fail(row.error());
  const auto elements = row->as<float>();
  if (!elements) return fail(elements.error());
  if (elements->size() != 2 || (*elements)[0] != 5 || (*elements)[1] != 6) return 1;
  if (file->tensor("no such name")) return 1;
  return weight.value().nbytes() == 24 ? 0 : 1;
}
