// Scenarios that call functions that only compute: versions, dtypes, headers, slices, bytes in memory.
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}})";

bool same(const char* text, std::size_t length, std::string_view expected) {
  return std::string_view(text, length) == expected;
}

void versions(Trial& run) {
  TRY_VOID(run, safetensors_abi_version);
  TRY_VOID(run, safetensors_version_string);
  TRY_VOID(run, safetensors_status_name, SAFETENSORS_ERROR_NOT_FOUND);
  TRY_VOID(run, safetensors_status_rule, SAFETENSORS_ERROR_NOT_FOUND);
  TRY_VOID(run, safetensors_status_is_system_error, SAFETENSORS_ERROR_NOT_FOUND);
}

void texts(Trial& run) {
  constexpr std::string_view kOdd = "a\tlong name that fits into no short string";
  safetensors_error failure;
  std::memset(&failure, 0, sizeof failure);
  failure.code = SAFETENSORS_ERROR_NOT_FOUND;
  failure.offset = 17;
  std::strcpy(failure.message, "there is no such tensor");
  std::strcpy(failure.path, "a\n.safetensors");
  char text[200];
  std::size_t length = 0;
  TRY(run, safetensors_error_format, &failure, text, sizeof text, run.out(length));
  EXPECT_IN(run, same(text, length, "a\\u{a}.safetensors: there is no such tensor (byte 17)"));
  TRY(run, safetensors_printable, kOdd.data(), kOdd.size(), text, sizeof text, run.out(length));
  EXPECT_IN(run, same(text, length, "a\\u{9}long name that fits into no short string"));
}

void dtypes(Trial& run) {
  safetensors_dtype listed[32];
  std::size_t count = 0;
  TRY(run, safetensors_dtype_list, listed, 32, run.out(count));
  EXPECT_IN(run, count == 22 && listed[0] == SAFETENSORS_DTYPE_BOOL);
  std::uint32_t number = 0;
  TRY(run, safetensors_dtype_bits, SAFETENSORS_DTYPE_F4, run.out(number));
  EXPECT_IN(run, number == 4);
  TRY(run, safetensors_dtype_rank, SAFETENSORS_DTYPE_U64, run.out(number));
  EXPECT_IN(run, number == 21);
  const char* name = nullptr;
  std::size_t length = 0;
  TRY(run, safetensors_dtype_name, SAFETENSORS_DTYPE_F8_E4M3FNUZ, run.out(name), run.out(length));
  EXPECT_IN(run, same(name, length, "F8_E4M3FNUZ"));
  safetensors_dtype dtype = 0;
  TRY(run, safetensors_dtype_parse, "BF16", 4, run.out(dtype));
  EXPECT_IN(run, dtype == SAFETENSORS_DTYPE_BF16);
  safetensors_dl_data_type type;
  TRY(run, safetensors_dtype_dlpack, SAFETENSORS_DTYPE_F32, run.out(type));
  EXPECT_IN(run, type.bits == 32);
  TRY_FAILS(run, UNKNOWN_DTYPE, safetensors_dtype_parse, "a dtype of nobody, long", 23, run.out(dtype));
  TRY_FAILS(run, INVALID_ARGUMENT, safetensors_dtype_bits, 99, run.out(number));
}

void header(Trial& run) {
  std::uint64_t length = 0;
  TRY(run, safetensors_header_length, "\x10\0\0\0\0\0\0\0", 8, 100, nullptr, run.out(length));
  EXPECT_IN(run, length == 16);
  safetensors_header* header = nullptr;
  TRY(run, safetensors_header_parse, kHeader.data(), kHeader.size(), 25, nullptr, run.out(header));
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  TRY(run, safetensors_header_get_info, header, &info);
  EXPECT_IN(run, info.tensor_count == 2 && info.metadata_count == 1 && info.data_bytes == 25);
  safetensors_tensor_info tensor = SAFETENSORS_TENSOR_INFO_INIT;
  TRY(run, safetensors_header_tensor_at, header, SAFETENSORS_ORDER_NAME, 1, &tensor);
  EXPECT_IN(run, same(tensor.name, tensor.name_length, "b"));
  TRY(run, safetensors_header_find, header, "a", 1, &tensor);
  EXPECT_IN(run, tensor.rank == 2 && tensor.nbytes == 24);
  TRY_FAILS(run, NOT_FOUND, safetensors_header_find, header, "a name that is not there", 24, &tensor);
  std::uint64_t shape[2] = {};
  std::size_t rank = 0;
  TRY(run, safetensors_header_shape, header, "a", 1, shape, 2, run.out(rank));
  EXPECT_IN(run, rank == 2 && shape[1] == 3);
  const char* dtype = nullptr;
  std::size_t dtype_length = 0;
  TRY(run, safetensors_header_dtype_name, header, "a", 1, run.out(dtype), run.out(dtype_length));
  EXPECT_IN(run, same(dtype, dtype_length, "F32"));
  const char* key = nullptr;
  const char* value = nullptr;
  std::size_t key_length = 0;
  std::size_t value_length = 0;
  TRY(run, safetensors_header_metadata_at, header, 0, run.out(key), run.out(key_length), run.out(value),
      run.out(value_length));
  EXPECT_IN(run, same(key, key_length, "format") && same(value, value_length, "pt"));
  safetensors_metadata pair = {};
  TRY(run, safetensors_header_metadata_pair, header, 0, &pair);
  EXPECT_IN(run, same(pair.key, pair.key_length, "format") && same(pair.value, pair.value_length, "pt"));
  TRY(run, safetensors_header_metadata_find, header, "format", 6, run.out(value), run.out(value_length));
  safetensors_buffer* text = nullptr;
  TRY(run, safetensors_header_text, header, run.out(text));
  const void* data = nullptr;
  std::size_t size = 0;
  TRY(run, safetensors_buffer_bytes, text, run.out(data), run.out(size));
  EXPECT_IN(run, size >= kHeader.size() && std::memcmp(data, kHeader.data(), 15) == 0);
  TRY_VOID(run, safetensors_buffer_free, text);
  TRY_VOID(run, safetensors_header_free, header);
  TRY_FAILS(run, JSON_SYNTAX, safetensors_header_parse, "{not JSON but long", 18, 0, nullptr, run.out(header));
}

void header_builder(Trial& run) {
  safetensors_header_builder* builder = nullptr;
  TRY(run, safetensors_header_builder_create, run.out(builder));
  const std::uint64_t shape[2] = {2, 3};
  TRY(run, safetensors_header_builder_add, builder, "a tensor with a long name", 25, SAFETENSORS_DTYPE_F32, shape, 2);
  TRY(run, safetensors_header_builder_add, builder, "b", 1, SAFETENSORS_DTYPE_U8, nullptr, 0);
  TRY_FAILS(run, DUPLICATE_NAME, safetensors_header_builder_add, builder, "b", 1, SAFETENSORS_DTYPE_U8, nullptr, 0);
  TRY(run, safetensors_header_builder_metadata_present, builder);
  TRY(run, safetensors_header_builder_metadata, builder, "key", 3, "a value that is somewhat long", 29);
  safetensors_header* header = nullptr;
  TRY(run, safetensors_header_builder_build, builder, nullptr, run.out(header));
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  PREPARE(run, safetensors_header_get_info, header, &info);
  EXPECT_IN(run, info.tensor_count == 2 && info.metadata_count == 1 && info.data_bytes == 25);
  TRY_VOID(run, safetensors_header_free, header);
  TRY_VOID(run, safetensors_header_builder_free, builder);
}

void slices(Trial& run) {
  const safetensors_dim_slice dims[] = {SAFETENSORS_DIM_RANGE(0, 4, 2), SAFETENSORS_DIM_AT(-1)};
  safetensors_slice* slice = nullptr;
  safetensors_slice* other = nullptr;
  TRY(run, safetensors_slice_create, dims, 2, run.out(slice));
  TRY(run, safetensors_slice_shard, 0, 1, 2, run.out(other));
  TRY_VOID(run, safetensors_slice_free, other);
  TRY(run, safetensors_slice_parse, "1:3,:,-1", 8, run.out(other));
  TRY_VOID(run, safetensors_slice_free, other);
  TRY_FAILS(run, SLICE_SYNTAX, safetensors_slice_parse, "1:3,this is no slice", 20, run.out(other));
  const std::uint64_t shape[2] = {5, 3};
  safetensors_resolved_slice* resolved = nullptr;
  TRY(run, safetensors_slice_resolve, slice, SAFETENSORS_DTYPE_F32, shape, 2, run.out(resolved));
  TRY_VOID(run, safetensors_slice_free, slice);
  std::uint64_t result[2] = {};
  std::size_t rank = 0;
  TRY(run, safetensors_resolved_slice_shape, resolved, result, 2, run.out(rank));
  EXPECT_IN(run, rank == 1 && result[0] == 2);
  std::uint64_t nbytes = 0;
  std::uint64_t count = 0;
  TRY(run, safetensors_resolved_slice_size, resolved, run.out(nbytes), run.out(count));
  EXPECT_IN(run, nbytes == 8 && count == 2);
  TRY_VOID(run, safetensors_resolved_slice_free, resolved);
}

void bytes_in_memory(Trial& run) {
  const std::uint64_t shape[1] = {3};
  const float values[3] = {1, 2, 3};
  const safetensors_tensor_data tensor = {"t", 1, shape, 1, values, sizeof values, SAFETENSORS_DTYPE_F32, 0};
  const safetensors_metadata pair = {"format", 6, "pt", 2};
  safetensors_header* header = nullptr;
  TRY(run, safetensors_layout, &tensor, 1, &pair, 1, nullptr, run.out(header));
  TRY_VOID(run, safetensors_header_free, header);
  safetensors_buffer* buffer = nullptr;
  TRY(run, safetensors_serialize, &tensor, 1, &pair, 1, nullptr, run.out(buffer));
  const void* data = nullptr;
  std::size_t size = 0;
  PREPARE(run, safetensors_buffer_bytes, buffer, &data, &size);
  EXPECT_IN(run, size > 12 && std::memcmp(static_cast<const char*>(data) + size - 12, values, 12) == 0);
  TRY_VOID(run, safetensors_buffer_free, buffer);
}

void layout_of_files(Trial& run) {
  const std::uint64_t shape[1] = {4};
  const safetensors_layout_tensor tensors[] = {{"a", 1, shape, 1, 0, 0, SAFETENSORS_DTYPE_F32, 0},
                                               {"b", 1, shape, 1, 0, 0, SAFETENSORS_DTYPE_F32, 0}};
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  options.max_shard_size = 16;
  options.index_metadata = R"({"x":"a value that fits into no short string"})";
  options.index_metadata_length = std::strlen(options.index_metadata);
  safetensors_checkpoint_layout* layout = nullptr;
  TRY(run, safetensors_checkpoint_layout_create, tensors, 2, &options, run.out(layout));
  std::uint64_t files = 0;
  std::uint64_t size = 0;
  TRY(run, safetensors_checkpoint_layout_size, layout, run.out(files), run.out(size));
  EXPECT_IN(run, files == 2 && size == 32);
  const char* name = nullptr;
  safetensors_header* header = nullptr;
  TRY(run, safetensors_checkpoint_layout_file_at, layout, 1, run.out(name), run.out(header));
  EXPECT_IN(run, std::string_view(name) == "model-00002-of-00002.safetensors");
  safetensors_header_free(header);
  std::uint64_t file = 0;
  TRY(run, safetensors_checkpoint_layout_find, layout, "b", 1, run.out(file));
  EXPECT_IN(run, file == 1);
  TRY_FAILS(run, NOT_FOUND, safetensors_checkpoint_layout_find, layout, "a name of nobody, long", 22, run.out(file));
  const char* text = nullptr;
  std::size_t length = 0;
  TRY(run, safetensors_checkpoint_layout_index, layout, run.out(name), run.out(text), run.out(length));
  EXPECT_IN(run, length > 0 && std::string_view(name) == "model.safetensors.index.json");
  TRY_VOID(run, safetensors_checkpoint_layout_free, layout);
}

}  // namespace

const std::vector<Scenario> kPureScenarios = {
    {.name = "Versions", .body = versions, .asks_system = false, .allocates = false},
    {.name = "Texts", .body = texts, .asks_system = false},
    {.name = "Dtypes", .body = dtypes, .asks_system = false},
    {.name = "Header", .body = header, .asks_system = false},
    {.name = "HeaderBuilder", .body = header_builder, .asks_system = false},
    {.name = "Slices", .body = slices, .asks_system = false},
    {.name = "BytesInMemory", .body = bytes_in_memory, .asks_system = false},
    {.name = "CheckpointLayout", .body = layout_of_files, .asks_system = false},
};

}  // namespace safetensors::test::faults
