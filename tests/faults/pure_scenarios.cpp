// Scenarios that call functions that only compute: versions, texts, dtypes, slices, bytes in memory.
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

void versions(Trial& run) {
  TRY_VOID(run, safetensors_abi_version);
  TRY_VOID(run, safetensors_version_string);
  TRY_VOID(run, safetensors_status_name, SAFETENSORS_ERROR_NOT_FOUND);
  TRY_VOID(run, safetensors_dtype_name, SAFETENSORS_DTYPE_F8_E4M3FNUZ);
  TRY_VOID(run, safetensors_dtype_bits, SAFETENSORS_DTYPE_F4);
  TRY_VOID(run, safetensors_dtype_parse, "BF16", 4);
}

// Without memory, they show less.
void texts(Trial& run) {
  safetensors_error failure;
  std::memset(&failure, 0, sizeof failure);
  failure.code = SAFETENSORS_ERROR_NOT_FOUND;
  failure.offset = 17;
  std::strcpy(failure.message, "there is no such tensor, and that is a long message");
  std::strcpy(failure.path, "a\n.safetensors");
  char text[200];
  TRY_VOID(run, safetensors_error_text, &failure, text, sizeof text);
  EXPECT_IN(run, std::string_view(text).find(failure.message) != std::string_view::npos);
  TRY_VOID(run, safetensors_printable, "a\tlong name that fits into no short string", SAFETENSORS_NUL_TERMINATED, text,
           sizeof text);
  EXPECT_IN(run, std::string_view(text).ends_with("long name that fits into no short string"));
  EXPECT_IN(run, std::string_view(text).find('\t') == std::string_view::npos);
}

void slices(Trial& run) {
  safetensors_dim dims[3];
  std::size_t count = 0;
  TRY(run, safetensors_slice_parse, "1:3,:,-1", 8, dims, 3, run.out(count));
  EXPECT_IN(run, count == 3 && dims[0].end == 3 && dims[2].begin == -1);
  TRY_FAILS(run, SLICE_SYNTAX, safetensors_slice_parse, "1:3,this is no slice", 20, dims, 3, run.out(count));
}

void bytes_in_memory(Trial& run) {
  const std::uint64_t shape[1] = {3};
  const float values[3] = {1, 2, 3};
  const safetensors_tensor_data tensor = {"t", 1, SAFETENSORS_DTYPE_F32, 0, shape, 1, values, sizeof values};
  const safetensors_metadata pair = {"format", 6, "a value that fits into no short string", 38};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.metadata = &pair;
  options.metadata_count = 1;
  safetensors_array* array = nullptr;
  TRY(run, safetensors_serialize, &tensor, 1, &options, run.out(array));
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  TRY(run, safetensors_array_get_info, array, &info);
  EXPECT_IN(run, std::memcmp(static_cast<const char*>(info.data) + info.nbytes - 12, values, 12) == 0);
  TRY_VOID(run, safetensors_array_free, array);
}

}  // namespace

const std::vector<Scenario> kPureScenarios = {
    {.name = "Versions", .body = versions, .asks_system = false, .allocates = false},
    {.name = "Texts", .body = texts, .asks_system = false},
    {.name = "Slices", .body = slices, .asks_system = false},
    {.name = "BytesInMemory", .body = bytes_in_memory, .asks_system = false},
};

}  // namespace safetensors::test::faults
