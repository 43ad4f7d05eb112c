// Uses the C++17 interface as an engine without exceptions and RTTI does: makes a file by hand, opens it, lists it,
// reads a slice and executes a plan. It calls nothing that writes, so the part of the library that reads is enough.
#include <safetensors/safetensors.hpp>

#include <cstdio>
#include <cstring>
#include <string>

static_assert(__cplusplus == 201703L, "compiled as C++17");

namespace st = safetensors17;

static bool make_file(const char* path) {
  std::string text = R"({"weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  text.resize(64, ' ');
  std::string bytes("\x40\0\0\0\0\0\0\0", 8);
  bytes += text;
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}) {
    char element[sizeof value];
    std::memcpy(element, &value, sizeof value);
    bytes.append(element, sizeof value);
  }
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

static st::Status use(const char* path) {
  const st::Result<st::File> file = st::File::open(path);
  if (!file) return file.error();
  for (const st::TensorInfo& info : file->tensors()) {
    if (info.name() != "weight" || info.nbytes() != 24) return st::Error(SAFETENSORS_ERROR_NOT_FOUND, "another tensor");
  }
  const st::Result<st::Tensor> weight = file->tensor("weight");
  if (!weight) return weight.error();
  const st::Result<st::Slice> column = st::Slice::of({st::Dim::all(), st::Dim::at(1)});
  if (!column) return column.error();
  float elements[2];
  if (st::Status status = weight->read_into(elements, sizeof elements, *column); !status) return status;
  if (elements[0] != 2 || elements[1] != 5) return st::Error(SAFETENSORS_ERROR_READ_FAILED, "another column");

  st::Result<st::ReadPlan> plan = st::ReadPlan::create();
  if (!plan) return plan.error();
  double wide[6];
  const st::AddOptions into = st::AddOptions().into(wide, sizeof wide).cast_to(st::Dtype::F64);
  if (st::Status status = plan->add(*weight, into); !status) return status;
  if (st::Result<st::ReadResult> result = plan->execute(); !result) return result.error();
  if (wide[5] != 6) return st::Error(SAFETENSORS_ERROR_READ_FAILED, "another element");
  return {};
}

int main(int argc, char** argv) {
  if (argc != 2 || !make_file(argv[1])) return 2;
  const st::Status status = use(argv[1]);
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
