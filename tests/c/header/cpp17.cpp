// A program in C++17 that knows only the C headers: it saves, lists and reads a file, and uses every macro.
#include <safetensors/c.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

static_assert(__cplusplus == 201703L, "this file is compiled as C++17");

namespace {

struct Free {
  void operator()(safetensors_file* file) const { safetensors_file_free(file); }
  void operator()(safetensors_array* array) const { safetensors_array_free(array); }
};

bool save(const char* path, safetensors_error& error) {
  const float weight[] = {0, 1, 2, 3, 4, 5};
  const std::int64_t step = 1000;
  const safetensors_named_tensor tensors[] = {
      {"weight", SAFETENSORS_DTYPE_F32, 2, {2, 3}, weight, sizeof weight},
      {"step", SAFETENSORS_DTYPE_I64, 0, {}, &step, sizeof step},
  };
  const char* const metadata[] = {"format", "pt", nullptr};
  return safetensors_save(path, tensors, 2, metadata, &error) == SAFETENSORS_OK;
}

std::string list(const safetensors_file* file) {
  std::string all;
  for (std::uint64_t i = 0; i < safetensors_file_count(file); ++i) {
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    char text[100];
    if (safetensors_file_info_at(file, i, &info, nullptr) != SAFETENSORS_OK) return "no info";
    safetensors_tensor_info_format(&info, text, sizeof text, nullptr, nullptr);
    all += std::string(text) + "\n";
  }
  return all;
}

bool read(const char* path, safetensors_error& error) {
  safetensors_file* opened = nullptr;
  safetensors_array* array = nullptr;
  const std::uint64_t shape[] = {2, 3};
  if (safetensors_file_open(path, nullptr, &opened, &error) != SAFETENSORS_OK) return false;
  const std::unique_ptr<safetensors_file, Free> file(opened);
  if (list(opened) != "step I64 []\nweight F32 [2, 3]\n") return false;
  float copy[6] = {};
  if (safetensors_file_read(opened, "weight", SAFETENSORS_DTYPE_F32, shape, 2, copy, sizeof copy, &error) != 0)
    return false;
  const safetensors_status got =
      safetensors_file_get(opened, "weight", SAFETENSORS_DTYPE_F32, nullptr, SAFETENSORS_ANY_RANK, &array, &error);
  const std::unique_ptr<safetensors_array, Free> owner(array);
  if (got == SAFETENSORS_ERROR_UNSUPPORTED) return true;  // a big-endian machine
  return got == SAFETENSORS_OK && static_cast<const float*>(safetensors_array_data(array))[5] == 5;
}

// Every initializer and every slice of c.h is also C++.
bool use_macros() {
  const safetensors_parse_options parse = SAFETENSORS_PARSE_OPTIONS_INIT;
  const safetensors_open_options open = SAFETENSORS_OPEN_OPTIONS_INIT;
  const safetensors_source source = SAFETENSORS_SOURCE_INIT;
  const safetensors_header_info header = SAFETENSORS_HEADER_INFO_INIT;
  const safetensors_array_info array = SAFETENSORS_ARRAY_INFO_INIT;
  const safetensors_layout_options layout = SAFETENSORS_LAYOUT_OPTIONS_INIT;
  const safetensors_write_options write = SAFETENSORS_WRITE_OPTIONS_INIT;
  const safetensors_edit_options edit = SAFETENSORS_EDIT_OPTIONS_INIT;
  const safetensors_checkpoint_options checkpoint = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  const safetensors_checkpoint_layout_options files = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  const safetensors_checkpoint_write_options folder = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  const safetensors_add_options add = SAFETENSORS_ADD_OPTIONS_INIT;
  const safetensors_read_options read_options = SAFETENSORS_READ_OPTIONS_INIT;
  const safetensors_read_report_info report = SAFETENSORS_READ_REPORT_INFO_INIT;
  const safetensors_dim_slice dims[] = {
      SAFETENSORS_DIM_ALL,         SAFETENSORS_DIM_AT(-1),  SAFETENSORS_DIM_RANGE(0, 1, 1), SAFETENSORS_DIM_FROM(1, 2),
      SAFETENSORS_DIM_UNTIL(1, 2), SAFETENSORS_DIM_STEP(2), SAFETENSORS_DIM_SHARD(0, 2),    SAFETENSORS_DIM_ELLIPSIS};
  return parse.struct_size + open.struct_size + source.struct_size + header.struct_size + array.struct_size +
                 layout.struct_size + write.struct_size + edit.struct_size + checkpoint.struct_size + add.struct_size +
                 read_options.struct_size + report.struct_size + files.struct_size + folder.struct_size >
             0 &&
         dims[1].index == -1;
}

}  // namespace

int main() {
  char folder[] = "/tmp/safetensors_cpp17_XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string path = std::string(folder) + "/a.safetensors";
  safetensors_error error{};
  const bool good = use_macros() && save(path.c_str(), error) && read(path.c_str(), error);
  if (!good) std::fprintf(stderr, "%s\n", error.message);
  std::remove(path.c_str());
  std::remove(folder);
  return good ? 0 : 1;
}
