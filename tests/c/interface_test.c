/* Parts of the C interface that need no files: versions, codes, dtypes, headers, slices, and structs that grow. */
#include "c/expect.h"

static const safetensors_dtype kDtypes[] = {
    SAFETENSORS_DTYPE_BOOL,    SAFETENSORS_DTYPE_F4,          SAFETENSORS_DTYPE_F6_E2M3,     SAFETENSORS_DTYPE_F6_E3M2,
    SAFETENSORS_DTYPE_U8,      SAFETENSORS_DTYPE_I8,          SAFETENSORS_DTYPE_F8_E5M2,     SAFETENSORS_DTYPE_F8_E4M3,
    SAFETENSORS_DTYPE_F8_E8M0, SAFETENSORS_DTYPE_F8_E4M3FNUZ, SAFETENSORS_DTYPE_F8_E5M2FNUZ, SAFETENSORS_DTYPE_I16,
    SAFETENSORS_DTYPE_U16,     SAFETENSORS_DTYPE_F16,         SAFETENSORS_DTYPE_BF16,        SAFETENSORS_DTYPE_I32,
    SAFETENSORS_DTYPE_U32,     SAFETENSORS_DTYPE_F32,         SAFETENSORS_DTYPE_C64,         SAFETENSORS_DTYPE_F64,
    SAFETENSORS_DTYPE_I64,     SAFETENSORS_DTYPE_U64};

/* Rank order: name, bits, DLPack code. */
static const struct {
  const char* name;
  uint32_t bits;
  uint8_t dlpack;
} kExpected[] = {{"BOOL", 8, 6},     {"F4", 4, 17},          {"F6_E2M3", 6, 15},     {"F6_E3M2", 6, 16},
                 {"U8", 8, 1},       {"I8", 8, 0},           {"F8_E5M2", 8, 12},     {"F8_E4M3", 8, 10},
                 {"F8_E8M0", 8, 14}, {"F8_E4M3FNUZ", 8, 11}, {"F8_E5M2FNUZ", 8, 13}, {"I16", 16, 0},
                 {"U16", 16, 1},     {"F16", 16, 2},         {"BF16", 16, 4},        {"I32", 32, 0},
                 {"U32", 32, 1},     {"F32", 32, 2},         {"C64", 64, 5},         {"F64", 64, 2},
                 {"I64", 64, 0},     {"U64", 64, 1}};

static void versions_and_codes(void) {
  CHECK(safetensors_abi_version() == SAFETENSORS_ABI_VERSION);
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d+", SAFETENSORS_VERSION_MAJOR, SAFETENSORS_VERSION_MINOR,
           SAFETENSORS_VERSION_PATCH);
  CHECK(strncmp(safetensors_version_string(), version, strlen(version)) == 0);
  CHECK(strcmp(safetensors_version_string(), SAFETENSORS_RELEASE) == 0); /* the file VERSION */

  CHECK(strcmp(safetensors_status_name(SAFETENSORS_OK), "ok") == 0);
  CHECK(strcmp(safetensors_status_name(SAFETENSORS_ERROR_INVALID_OFFSET), "invalid_offset") == 0);
  CHECK(strcmp(safetensors_status_name(11), "unknown") == 0);
  CHECK(strcmp(safetensors_status_name(-1), "unknown") == 0);
  CHECK(strcmp(safetensors_status_name(65536 + 60), "unknown") == 0);
  CHECK(safetensors_status_rule(SAFETENSORS_ERROR_HEADER_TOO_SMALL) == 1);
  CHECK(safetensors_status_rule(SAFETENSORS_ERROR_INCOMPLETE_DATA) == 10);
  CHECK(safetensors_status_rule(SAFETENSORS_ERROR_OPEN_FAILED) == 0);
  CHECK(safetensors_status_is_system_error(SAFETENSORS_ERROR_OPEN_FAILED) == 1);
  CHECK(safetensors_status_is_system_error(SAFETENSORS_ERROR_NOT_FOUND) == 0);
  CHECK(strcmp(safetensors_status_name(SAFETENSORS_ERROR_INVALID_INDEX), "invalid_index") == 0);
  CHECK(strcmp(safetensors_status_name(SAFETENSORS_ERROR_AMBIGUOUS_CHECKPOINT), "ambiguous_checkpoint") == 0);
  CHECK(strcmp(safetensors_status_name(SAFETENSORS_ERROR_DEVICE_FAILED), "device_failed") == 0);
  CHECK(safetensors_status_rule(SAFETENSORS_ERROR_INVALID_INDEX) == 0);
  CHECK(safetensors_status_is_system_error(SAFETENSORS_ERROR_DEVICE_FAILED) == 1);
}

static void errors_and_text(void) {
  safetensors_error failure;
  memset(&failure, 0, sizeof failure);
  failure.code = SAFETENSORS_ERROR_JSON_SYNTAX;
  failure.offset = 17;
  strcpy(failure.message, "what and where");
  strcpy(failure.path, "a\nb");
  const char* whole = "a\\u{a}b: what and where (byte 17)";
  char text[64];
  size_t length = 0;
  GOOD(safetensors_error_format(&failure, text, sizeof text, &length, &error));
  CHECK(same(text, length, whole));
  GOOD(safetensors_error_format(&failure, text, 9, &length, &error));
  CHECK(length == strlen(whole) && strcmp(text, "a\\u{a}b:") == 0);
  GOOD(safetensors_error_format(&failure, NULL, 0, &length, &error));
  CHECK(length == strlen(whole));
  CHECK(safetensors_error_format(&failure, text, sizeof text, NULL, &failure) == SAFETENSORS_OK);
  CHECK(strcmp(text, whole) == 0 && failure.offset == 17 && failure.code == SAFETENSORS_ERROR_JSON_SYNTAX);
  FAILS(safetensors_error_format(NULL, text, sizeof text, &length, &error), INVALID_ARGUMENT);
  SAYS("argument failure is NULL");
  CHECK(length == 0);
  FAILS(safetensors_error_format(&failure, NULL, 8, &length, &error), INVALID_ARGUMENT);

  GOOD(safetensors_printable(TEXT("a\x1b[0m\\"), text, sizeof text, &length, &error));
  CHECK(same(text, length, "a\\u{1b}[0m\\\\"));
  GOOD(safetensors_printable(TEXT("caf\xc3\xa9"), text, 5, &length, &error));
  CHECK(length == 5 && strcmp(text, "caf") == 0); /* cut before the whole character */
  GOOD(safetensors_printable(NULL, 0, text, sizeof text, &length, &error));
  CHECK(length == 0 && text[0] == '\0');
  FAILS(safetensors_printable(NULL, 3, text, sizeof text, &length, &error), INVALID_ARGUMENT);
  SAYS("argument text is NULL, its length 3");
  FAILS(safetensors_printable("a", 1, NULL, 3, &length, &error), INVALID_ARGUMENT);
}

static void dtypes(void) {
  safetensors_dtype all[30];
  size_t count = 0;
  GOOD(safetensors_dtype_list(NULL, 0, &count, &error));
  CHECK(count == 22);
  FAILS(safetensors_dtype_list(all, 21, &count, &error), BUFFER_SIZE);
  SAYS("destination too small: capacity 21, expected at least 22");
  CHECK(count == 22);
  FAILS(safetensors_dtype_list(NULL, 30, &count, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_list(all, 30, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_dtype_list(all, 30, &count, &error));
  CHECK(count == 22 && memcmp(all, kDtypes, sizeof kDtypes) == 0);
  for (uint32_t i = 0; i < 22; ++i) {
    uint32_t number = 99;
    const char* name = NULL;
    size_t length = 0;
    safetensors_dtype parsed = 0;
    safetensors_dl_data_type type;
    GOOD(safetensors_dtype_name(all[i], &name, &length, &error));
    CHECK(same(name, length, kExpected[i].name));
    GOOD(safetensors_dtype_parse(name, length, &parsed, &error));
    CHECK(parsed == all[i]);
    GOOD(safetensors_dtype_bits(all[i], &number, &error));
    CHECK(number == kExpected[i].bits);
    GOOD(safetensors_dtype_rank(all[i], &number, &error));
    CHECK(number == i);
    GOOD(safetensors_dtype_dlpack(all[i], &type, &error));
    CHECK(type.code == kExpected[i].dlpack && type.bits == kExpected[i].bits && type.lanes == 1);
  }
}

static void dtypes_that_are_none(void) {
  static const safetensors_dtype none[] = {0, 23, -1, 256 + 10, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof none / sizeof *none; ++i) {
    uint32_t number = 99;
    const char* name = "x";
    size_t length = 9;
    safetensors_dl_data_type type = {9, 9, 9};
    FAILS(safetensors_dtype_bits(none[i], &number, &error), INVALID_ARGUMENT);
    CHECK(number == 0);
    FAILS(safetensors_dtype_rank(none[i], &number, &error), INVALID_ARGUMENT);
    FAILS(safetensors_dtype_name(none[i], &name, &length, &error), INVALID_ARGUMENT);
    CHECK(name == NULL && length == 0);
    FAILS(safetensors_dtype_dlpack(none[i], &type, &error), INVALID_ARGUMENT);
    CHECK(type.code == 0 && type.bits == 0 && type.lanes == 0);
  }
  safetensors_dtype parsed = 7;
  FAILS(safetensors_dtype_parse(TEXT("f32"), &parsed, &error), UNKNOWN_DTYPE);
  SAYS("no dtype is called `f32`");
  CHECK(parsed == 0);
  FAILS(safetensors_dtype_parse(NULL, 2, &parsed, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_parse(TEXT("F32"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_bits(SAFETENSORS_DTYPE_F32, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_rank(SAFETENSORS_DTYPE_F32, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_name(SAFETENSORS_DTYPE_F32, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_dtype_dlpack(SAFETENSORS_DTYPE_F32, NULL, &error), INVALID_ARGUMENT);
}

static const char kText[] =
    "{\"__metadata__\":{\"k\":\"v\",\"a\":\"\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[24,26]}}";

static void header_length(void) {
  const unsigned char prefix[8] = {16, 0, 0, 0, 0, 0, 0, 0};
  safetensors_parse_options options = SAFETENSORS_PARSE_OPTIONS_INIT;
  uint64_t length = 9;
  GOOD(safetensors_header_length(prefix, 8, 24, NULL, &length, &error));
  CHECK(length == 16);
  GOOD(safetensors_header_length(prefix, 8, 24, &options, &length, &error));
  options.max_header_bytes = 15;
  FAILS(safetensors_header_length(prefix, 8, 24, &options, &length, &error), HEADER_TOO_LARGE);
  CHECK(length == 0 && error.offset == 0);
  FAILS(safetensors_header_length(prefix, 8, 23, NULL, &length, &error), INVALID_HEADER_LENGTH);
  FAILS(safetensors_header_length(prefix, 7, 7, NULL, &length, &error), HEADER_TOO_SMALL);
  FAILS(safetensors_header_length(NULL, 0, 0, NULL, &length, &error), HEADER_TOO_SMALL);
  FAILS(safetensors_header_length(NULL, 8, 24, NULL, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_length(prefix, 8, 24, NULL, NULL, &error), INVALID_ARGUMENT);
}

static void header_tensors(const safetensors_header* header) {
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  GOOD(safetensors_header_tensor_at(header, SAFETENSORS_ORDER_OFFSET, 0, &info, &error));
  CHECK(same(info.name, info.name_length, "b") && info.dtype == SAFETENSORS_DTYPE_F32 && info.rank == 2);
  CHECK(info.shape[0] == 2 && info.shape[1] == 3 && info.shape[2] == 0);
  CHECK(info.dims[0] == 2 && info.dims[1] == 3);
  CHECK(info.begin == 0 && info.end == 24 && info.nbytes == 24 && info.file_offset == 8 + sizeof kText - 1);
  GOOD(safetensors_header_tensor_at(header, SAFETENSORS_ORDER_NAME, 0, &info, &error));
  CHECK(same(info.name, info.name_length, "a") && info.rank == 9 && info.shape[7] == 1 && info.dims[8] == 2);
  FAILS(safetensors_header_tensor_at(header, SAFETENSORS_ORDER_NAME, 2, &info, &error), NOT_FOUND);
  SAYS("there is no tensor 2, there are 2");
  CHECK(info.name == NULL && info.rank == 0 && info.dims == NULL && info.struct_size == sizeof info);
  FAILS(safetensors_header_tensor_at(header, 2, 0, &info, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_tensor_at(header, 0, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_tensor_at(NULL, 0, 0, &info, &error), INVALID_ARGUMENT);
  GOOD(safetensors_header_find(header, TEXT("a"), &info, &error));
  CHECK(info.begin == 24 && info.end == 26);
  FAILS(safetensors_header_find(header, TEXT("c\n"), &info, &error), NOT_FOUND);
  SAYS("there is no tensor `c\\u{a}`");
  FAILS(safetensors_header_find(header, NULL, 1, &info, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_find(header, NULL, 0, &info, &error), NOT_FOUND);
  FAILS(safetensors_header_find(NULL, TEXT("a"), &info, &error), INVALID_ARGUMENT);

  uint64_t shape[10] = {0};
  size_t rank = 0;
  GOOD(safetensors_header_shape(header, TEXT("a"), NULL, 0, &rank, &error));
  CHECK(rank == 9);
  FAILS(safetensors_header_shape(header, TEXT("a"), shape, 8, &rank, &error), BUFFER_SIZE);
  CHECK(rank == 9 && shape[0] == 0);
  GOOD(safetensors_header_shape(header, TEXT("a"), shape, 10, &rank, &error));
  CHECK(rank == 9 && shape[0] == 1 && shape[8] == 2 && shape[9] == 0);
  FAILS(safetensors_header_shape(header, TEXT("c"), shape, 10, &rank, &error), NOT_FOUND);
  CHECK(rank == 0);
  FAILS(safetensors_header_shape(header, TEXT("a"), NULL, 10, &rank, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_shape(header, TEXT("a"), shape, 10, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_shape(NULL, TEXT("a"), shape, 10, &rank, &error), INVALID_ARGUMENT);
}

static void header_metadata(const safetensors_header* header) {
  const char* key = NULL;
  const char* value = NULL;
  size_t key_length = 0;
  size_t value_length = 0;
  GOOD(safetensors_header_metadata_at(header, 0, &key, &key_length, &value, &value_length, &error));
  CHECK(same(key, key_length, "a") && value_length == 0);
  GOOD(safetensors_header_metadata_at(header, 1, &key, &key_length, &value, &value_length, &error));
  CHECK(same(key, key_length, "k") && same(value, value_length, "v"));
  safetensors_metadata pair = {NULL, 0, NULL, 0};
  GOOD(safetensors_header_metadata_pair(header, 1, &pair, &error));
  CHECK(pair.key == key && pair.key_length == key_length && pair.value == value && pair.value_length == value_length);
  FAILS(safetensors_header_metadata_pair(header, 2, &pair, &error), NOT_FOUND);
  CHECK(pair.key == NULL && pair.key_length == 0 && pair.value == NULL && pair.value_length == 0);
  FAILS(safetensors_header_metadata_pair(header, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_metadata_pair(NULL, 0, &pair, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_metadata_at(header, 2, &key, &key_length, &value, &value_length, &error), NOT_FOUND);
  CHECK(key == NULL && value == NULL && key_length == 0 && value_length == 0);
  FAILS(safetensors_header_metadata_at(header, 0, NULL, &key_length, &value, &value_length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_metadata_at(NULL, 0, &key, &key_length, &value, &value_length, &error), INVALID_ARGUMENT);
  GOOD(safetensors_header_metadata_find(header, TEXT("k"), &value, &value_length, &error));
  CHECK(same(value, value_length, "v"));
  FAILS(safetensors_header_metadata_find(header, TEXT("x"), &value, &value_length, &error), NOT_FOUND);
  SAYS("there is no metadata key `x`");
  FAILS(safetensors_header_metadata_find(header, NULL, 1, &value, &value_length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_metadata_find(NULL, TEXT("k"), &value, &value_length, &error), INVALID_ARGUMENT);
}

static void header_parse(void) {
  safetensors_header* header = NULL;
  GOOD(safetensors_header_parse(TEXT(kText), 26, NULL, &header, &error));
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.tensor_count == 2 && info.metadata_count == 2 && info.metadata_present == 1);
  CHECK(info.header_bytes == sizeof kText - 1 && info.data_bytes == 26 && info.data_start == info.header_bytes + 8);
  CHECK(info.file_bytes == info.data_start + 26 && info.leading_whitespace == 0);
  FAILS(safetensors_header_get_info(NULL, &info, &error), INVALID_ARGUMENT);
  CHECK(info.tensor_count == 0 && info.struct_size == sizeof info);
  FAILS(safetensors_header_get_info(header, NULL, &error), INVALID_ARGUMENT);
  header_tensors(header);
  header_metadata(header);
  safetensors_header_free(header);

  safetensors_parse_options options = SAFETENSORS_PARSE_OPTIONS_INIT;
  FAILS(safetensors_header_parse(TEXT(" {}"), 0, NULL, &header, &error), JSON_LEADING_WHITESPACE);
  CHECK(header == NULL && error.offset == 8);
  options.allow_leading_whitespace = 1;
  GOOD(safetensors_header_parse(TEXT(" {}"), 0, &options, &header, &error));
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.leading_whitespace == 1 && info.metadata_present == 0);
  safetensors_header_free(header);
  FAILS(safetensors_header_parse(TEXT(kText), 25, NULL, &header, &error), INCOMPLETE_DATA);
  FAILS(safetensors_header_parse(NULL, 5, 0, NULL, &header, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_parse(TEXT("{}"), 0, NULL, NULL, &error), INVALID_ARGUMENT);
  CHECK(safetensors_header_parse(TEXT("{"), 0, NULL, &header, NULL) == SAFETENSORS_ERROR_JSON_SYNTAX);
  safetensors_header_free(NULL);
}

static void accepted_faults(void) {
  static const char kFaults[] =
      "{\"a\":{\"dtype\":\"X8\",\"shape\":[2,5],\"data_offsets\":[0,6]},"
      "\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[6,8]}}";
  const uint32_t all = SAFETENSORS_ACCEPT_UNKNOWN_DTYPES | SAFETENSORS_ACCEPT_UNUSED_BYTES;
  safetensors_header* header = NULL;
  safetensors_parse_options options = SAFETENSORS_PARSE_OPTIONS_INIT;
  FAILS(safetensors_header_parse(TEXT(kFaults), 10, &options, &header, &error), UNKNOWN_DTYPE);
  options.accept = SAFETENSORS_ACCEPT_UNKNOWN_DTYPES;
  FAILS(safetensors_header_parse(TEXT(kFaults), 10, &options, &header, &error), INCOMPLETE_DATA);
  options.accept = all;
  FAILS(safetensors_header_parse(TEXT(kFaults), 7, &options, &header, &error), INCOMPLETE_DATA);
  GOOD(safetensors_header_parse(TEXT(kFaults), 10, &options, &header, &error));
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.unknown_dtypes == 1 && info.unused_bytes == 2);
  safetensors_tensor_info tensor = SAFETENSORS_TENSOR_INFO_INIT;
  GOOD(safetensors_header_find(header, TEXT("a"), &tensor, &error));
  CHECK(tensor.dtype == SAFETENSORS_DTYPE_UNKNOWN && tensor.nbytes == 6);
  const char* dtype = NULL;
  size_t length = 0;
  GOOD(safetensors_header_dtype_name(header, TEXT("a"), &dtype, &length, &error));
  CHECK(length == 2 && memcmp(dtype, "X8", 2) == 0);
  GOOD(safetensors_header_dtype_name(header, TEXT("c"), &dtype, &length, &error));
  CHECK(length == 2 && memcmp(dtype, "U8", 2) == 0);
  FAILS(safetensors_header_dtype_name(header, TEXT("d"), &dtype, &length, &error), NOT_FOUND);
  CHECK(dtype == NULL && length == 0);
  FAILS(safetensors_header_dtype_name(NULL, TEXT("a"), &dtype, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_dtype_name(header, TEXT("a"), NULL, &length, &error), INVALID_ARGUMENT);
  safetensors_buffer* text = NULL;
  FAILS(safetensors_header_text(header, &text, &error), UNSUPPORTED);
  uint32_t bits = 0;
  FAILS(safetensors_dtype_bits(SAFETENSORS_DTYPE_UNKNOWN, &bits, &error), INVALID_ARGUMENT);
  safetensors_header_free(header);
}

/* A file in memory: an unknown dtype is read as an array of bytes. */
static void accepted_faults_of_file(void) {
  static const char kFaults[] = "{\"a\":{\"dtype\":\"X8\",\"shape\":[2,5],\"data_offsets\":[0,3]}}";
  char bytes[8 + sizeof kFaults - 1 + 3] = {(char)(sizeof kFaults - 1)};
  memcpy(bytes + 8, kFaults, sizeof kFaults - 1);
  memcpy(bytes + 8 + sizeof kFaults - 1, "abc", 3);
  safetensors_parse_options options = SAFETENSORS_PARSE_OPTIONS_INIT;
  safetensors_file* file = NULL;
  FAILS(safetensors_file_from_memory(bytes, sizeof bytes, NULL, NULL, &options, &file, &error), UNKNOWN_DTYPE);
  options.accept = SAFETENSORS_ACCEPT_UNKNOWN_DTYPES;
  GOOD(safetensors_file_from_memory(bytes, sizeof bytes, NULL, NULL, &options, &file, &error));
  safetensors_tensor* tensor = NULL;
  safetensors_array* array = NULL;
  GOOD(safetensors_file_tensor(file, TEXT("a"), &tensor, &error));
  GOOD(safetensors_tensor_read(tensor, NULL, &array, &error));
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.dtype == SAFETENSORS_DTYPE_U8 && info.rank == 1 && info.shape[0] == 3);
  CHECK(memcmp(info.data, "abc", 3) == 0);
  safetensors_array_free(array);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  safetensors_open_options open = SAFETENSORS_OPEN_OPTIONS_INIT;
  open.accept = 64;
  FAILS(safetensors_file_open("nothing", &open, &file, &error), UNSUPPORTED);
}

static void header_builder(void) {
  safetensors_header_builder* builder = NULL;
  safetensors_header* header = NULL;
  safetensors_buffer* text = NULL;
  const uint64_t shape[2] = {2, 3};
  GOOD(safetensors_header_builder_create(&builder, &error));
  GOOD(safetensors_header_builder_add(builder, TEXT("x"), SAFETENSORS_DTYPE_F32, shape, 2, &error));
  GOOD(safetensors_header_builder_add(builder, TEXT("s"), SAFETENSORS_DTYPE_I64, NULL, 0, &error));
  GOOD(safetensors_header_builder_metadata_present(builder, &error));
  FAILS(safetensors_header_builder_add(builder, TEXT("x"), SAFETENSORS_DTYPE_U8, shape, 2, &error), DUPLICATE_NAME);
  FAILS(safetensors_header_builder_add(builder, TEXT("__metadata__"), SAFETENSORS_DTYPE_U8, shape, 2, &error),
        RESERVED_NAME);
  FAILS(safetensors_header_builder_add(builder, TEXT("\xff"), SAFETENSORS_DTYPE_U8, shape, 2, &error), INVALID_UTF8);
  FAILS(safetensors_header_builder_add(builder, TEXT("y"), SAFETENSORS_DTYPE_F4, shape + 1, 1, &error),
        MISALIGNED_SIZE);
  FAILS(safetensors_header_builder_add(builder, TEXT("y"), 99, shape, 2, &error), INVALID_ARGUMENT);
  SAYS("unknown dtype 99");
  FAILS(safetensors_header_builder_add(builder, TEXT("y"), SAFETENSORS_DTYPE_U8, NULL, 2, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_add(builder, NULL, 1, SAFETENSORS_DTYPE_U8, shape, 2, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_add(NULL, TEXT("y"), SAFETENSORS_DTYPE_U8, shape, 2, &error), INVALID_ARGUMENT);
  GOOD(safetensors_header_builder_build(builder, NULL, &header, &error));
  GOOD(safetensors_header_text(header, &text, &error));
  const void* data = NULL;
  size_t size = 0;
  GOOD(safetensors_buffer_bytes(text, &data, &size, &error));
  static const char expected[] =
      "{\"__metadata__\":{},\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}}";
  CHECK(size % 8 == 0 && size >= sizeof expected - 1 && size < sizeof expected + 7);
  CHECK(memcmp(data, expected, sizeof expected - 1) == 0);
  FAILS(safetensors_buffer_bytes(NULL, &data, &size, &error), INVALID_ARGUMENT);
  CHECK(data == NULL && size == 0);
  FAILS(safetensors_buffer_bytes(text, NULL, &size, &error), INVALID_ARGUMENT);
  safetensors_buffer_free(text);
  safetensors_buffer_free(NULL);
  safetensors_header_free(header);
  FAILS(safetensors_header_text(NULL, &text, &error), INVALID_ARGUMENT);
  CHECK(text == NULL);

  GOOD(safetensors_header_builder_metadata(builder, TEXT("k"), TEXT("v"), &error));
  GOOD(safetensors_header_builder_metadata(builder, NULL, 0, NULL, 0, &error));
  FAILS(safetensors_header_builder_metadata(builder, TEXT("k"), TEXT("w"), &error), DUPLICATE_NAME);
  FAILS(safetensors_header_builder_metadata(builder, TEXT("l"), NULL, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_metadata(builder, NULL, 1, TEXT("w"), &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_metadata(NULL, TEXT("k"), TEXT("w"), &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_metadata_present(NULL, &error), INVALID_ARGUMENT);
  safetensors_layout_options options = SAFETENSORS_LAYOUT_OPTIONS_INIT;
  options.data_alignment = 4096;
  options.metadata_slack = 4096;
  GOOD(safetensors_header_builder_build(builder, &options, &header, &error));
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.data_start == 8192 && info.metadata_count == 2);
  safetensors_header_free(header);
  options.data_alignment = 3;
  FAILS(safetensors_header_builder_build(builder, &options, &header, &error), INVALID_ALIGNMENT);
  CHECK(header == NULL);
  FAILS(safetensors_header_builder_build(NULL, NULL, &header, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_build(builder, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_header_builder_create(NULL, &error), INVALID_ARGUMENT);
  safetensors_header_builder_free(builder);
  safetensors_header_builder_free(NULL);
}

/* The size of a slice of U8 [4, 6], and the number of its runs, as "2 in 1". */
static const char* size_of(const safetensors_slice* slice) {
  static char text[64];
  static const uint64_t shape[2] = {4, 6};
  safetensors_resolved_slice* resolved = NULL;
  uint64_t nbytes = 0;
  uint64_t run_count = 0;
  GOOD(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, shape, 2, &resolved, &error));
  GOOD(safetensors_resolved_slice_size(resolved, &nbytes, &run_count, &error));
  safetensors_resolved_slice_free(resolved);
  snprintf(text, sizeof text, "%" PRIu64 " in %" PRIu64, nbytes, run_count);
  return text;
}

static void slices(void) {
  const safetensors_dim_slice dims[][2] = {{SAFETENSORS_DIM_AT(-1), SAFETENSORS_DIM_RANGE(1, 3, 1)},
                                           {SAFETENSORS_DIM_FROM(2, 1), SAFETENSORS_DIM_ALL},
                                           {SAFETENSORS_DIM_UNTIL(1, 1), SAFETENSORS_DIM_STEP(3)},
                                           {SAFETENSORS_DIM_SHARD(1, 4), SAFETENSORS_DIM_ALL},
                                           {SAFETENSORS_DIM_ELLIPSIS, SAFETENSORS_DIM_RANGE(5, 3, -1)}};
  static const char* const expected[] = {"2 in 1", "12 in 1", "2 in 2", "6 in 1", "8 in 8"};
  for (size_t i = 0; i < 5; ++i) {
    safetensors_slice* slice = NULL;
    GOOD(safetensors_slice_create(dims[i], 2, &slice, &error));
    CHECK(strcmp(size_of(slice), expected[i]) == 0);
    safetensors_slice_free(slice);
  }
  CHECK(strcmp(size_of(NULL), "24 in 1") == 0);
  safetensors_slice* slice = NULL;
  GOOD(safetensors_slice_create(NULL, 0, &slice, &error));
  CHECK(strcmp(size_of(slice), "24 in 1") == 0);
  safetensors_slice_free(slice);
  GOOD(safetensors_slice_shard(1, 0, 2, &slice, &error));
  CHECK(strcmp(size_of(slice), "12 in 4") == 0);
  safetensors_slice_free(slice);
  GOOD(safetensors_slice_parse(TEXT("1:3, 2"), &slice, &error));
  CHECK(strcmp(size_of(slice), "2 in 2") == 0);
  safetensors_slice_free(slice);
  safetensors_slice_free(NULL);
}

static void slice_errors(void) {
  const uint64_t shape[2] = {4, 6};
  safetensors_slice* slice = NULL;
  safetensors_resolved_slice* resolved = NULL;
  uint64_t dims[2] = {0, 0};
  uint64_t nbytes = 1;
  size_t count = 1;
  safetensors_dim_slice dim = SAFETENSORS_DIM_AT(4);
  static const struct {
    const char* text;
    safetensors_status status;
  } bad[] = {{"4", SAFETENSORS_ERROR_SLICE_INDEX},
             {"::0", SAFETENSORS_ERROR_SLICE_STEP},
             {"0,0,0", SAFETENSORS_ERROR_SLICE_RANK}};
  for (size_t i = 0; i < 3; ++i) {
    GOOD(safetensors_slice_parse(bad[i].text, strlen(bad[i].text), &slice, &error));
    CHECK(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, shape, 2, &resolved, &error) == bad[i].status);
    CHECK(error.code == bad[i].status && resolved == NULL);
    safetensors_slice_free(slice);
  }
  GOOD(safetensors_slice_create(&dim, 1, &slice, &error));
  FAILS(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, shape, 2, &resolved, &error), SLICE_INDEX);
  FAILS(safetensors_slice_resolve(slice, 0, shape, 2, &resolved, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, NULL, 2, &resolved, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_U8, shape, 2, NULL, &error), INVALID_ARGUMENT);
  safetensors_slice_free(slice);
  GOOD(safetensors_slice_parse(TEXT(":,1:2"), &slice, &error));
  FAILS(safetensors_slice_resolve(slice, SAFETENSORS_DTYPE_F4, shape, 2, &resolved, &error), SLICE_BITS);
  safetensors_slice_free(slice);
  FAILS(safetensors_slice_parse(TEXT("1:x"), &slice, &error), SLICE_SYNTAX);
  CHECK(slice == NULL);
  FAILS(safetensors_slice_parse(NULL, 1, &slice, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_parse(TEXT("1"), NULL, &error), INVALID_ARGUMENT);
  dim.kind = 5;
  FAILS(safetensors_slice_create(&dim, 1, &slice, &error), INVALID_ARGUMENT);
  SAYS("unknown kind 5 of a dimension's slice");
  FAILS(safetensors_slice_create(NULL, 1, &slice, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_create(&dim, 1, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_slice_shard(0, 0, 1, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_slice_resolve(NULL, SAFETENSORS_DTYPE_U8, shape, 2, &resolved, &error));
  FAILS(safetensors_resolved_slice_shape(resolved, dims, 1, &count, &error), BUFFER_SIZE);
  CHECK(count == 2);
  GOOD(safetensors_resolved_slice_shape(resolved, dims, 2, &count, &error));
  CHECK(count == 2 && dims[0] == 4 && dims[1] == 6);
  GOOD(safetensors_resolved_slice_size(resolved, &nbytes, NULL, &error));
  CHECK(nbytes == 24);
  FAILS(safetensors_resolved_slice_shape(NULL, dims, 2, &count, &error), INVALID_ARGUMENT);
  FAILS(safetensors_resolved_slice_size(NULL, &nbytes, NULL, &error), INVALID_ARGUMENT);
  CHECK(nbytes == 0);
  safetensors_resolved_slice_free(resolved);
  safetensors_resolved_slice_free(NULL);
}

/* A caller compiled against a later header, whose options struct has one more field. */
struct later_options {
  safetensors_parse_options known;
  uint64_t unknown;
};
struct later_info {
  safetensors_header_info known;
  uint64_t unknown;
};

static void structs_of_other_sizes(void) {
  struct later_options options = {SAFETENSORS_PARSE_OPTIONS_INIT, 0};
  safetensors_header* header = NULL;
  options.known.struct_size = sizeof options;
  GOOD(safetensors_header_parse(TEXT("{}"), 0, &options.known, &header, &error));
  struct later_info info = {SAFETENSORS_HEADER_INFO_INIT, 7};
  info.known.struct_size = sizeof info;
  GOOD(safetensors_header_get_info(header, &info.known, &error));
  CHECK(info.unknown == 0 && info.known.header_bytes == 2 && info.known.struct_size == sizeof info);
  info.known.struct_size = offsetof(safetensors_header_info, unknown_dtypes); /* the struct of an older program */
  info.known.unknown_dtypes = 99;
  GOOD(safetensors_header_get_info(header, &info.known, &error));
  CHECK(info.known.header_bytes == 2 && info.known.unknown_dtypes == 99);
  info.known.struct_size = offsetof(safetensors_header_info, leading_whitespace);
  info.known.header_bytes = 99;
  FAILS(safetensors_header_get_info(header, &info.known, &error), INVALID_ARGUMENT);
  CHECK(info.known.header_bytes == 99); /* no part of a struct that cannot be trusted is written */
  safetensors_header_free(header);

  memset(&options.unknown, 1, 1);
  FAILS(safetensors_header_parse(TEXT("{}"), 0, &options.known, &header, &error), UNSUPPORTED);
  char expected[128];
  const unsigned size = (unsigned)sizeof options.known;
  snprintf(expected, sizeof expected, "an option at byte %u of its struct is not known here, where it has %u bytes",
           size, size);
  CHECK(strcmp(error.message, expected) == 0);
  CHECK(header == NULL);
  static const uint64_t sizes[] = {0, 8, offsetof(safetensors_parse_options, cancelled) - 1, 4097, UINT64_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    options.known.struct_size = sizes[i];
    FAILS(safetensors_header_parse(TEXT("{}"), 0, &options.known, &header, &error), INVALID_ARGUMENT);
  }
  SAYS("struct_size is 18446744073709551615, not from 24 to 4096 (initialize the struct with its INIT macro)");
  options.known.struct_size = sizeof options.known;
  options.known.accept = 8 | SAFETENSORS_ACCEPT_UNUSED_BYTES;
  FAILS(safetensors_header_parse(TEXT("{}"), 0, &options.known, &header, &error), UNSUPPORTED);
  SAYS("unknown flags in accept: 8");
}

static void long_messages_are_cut(void) {
  char name[2000];
  memset(name, 'n', sizeof name);
  safetensors_header* header = NULL;
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  GOOD(safetensors_header_parse(TEXT("{}"), 0, NULL, &header, &error));
  memset(&error, 0x7f, sizeof error); /* needs no initialization */
  FAILS(safetensors_header_find(header, name, sizeof name, &info, &error), NOT_FOUND);
  CHECK(strlen(error.message) == sizeof error.message - 1);
  CHECK(strcmp(error.message + sizeof error.message - 5, "n...") == 0);
  CHECK(error.path[0] == '\0' && error.os_error == 0 && error.offset == SAFETENSORS_NO_OFFSET);
  safetensors_header_free(header);
}

int main(void) {
  versions_and_codes();
  errors_and_text();
  dtypes();
  dtypes_that_are_none();
  header_length();
  header_parse();
  header_builder();
  accepted_faults();
  accepted_faults_of_file();
  slices();
  slice_errors();
  structs_of_other_sizes();
  long_messages_are_cut();
  return finish("c");
}
