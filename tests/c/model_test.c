/* Opening and reading in C: each function reaches the library, and its errors have code, offset, tensor and path. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stddef.h>

#include "c/files.h"

static void texts(void) {
  char text[100];
  safetensors_error failure;
  CHECK(safetensors_abi_version() == SAFETENSORS_ABI_VERSION);
  CHECK(strcmp(safetensors_version_string(), SAFETENSORS_VERSION_STRING) == 0);
  CHECK(strcmp(safetensors_status_name(SAFETENSORS_ERROR_NOT_FOUND), "not_found") == 0);
  CHECK(strcmp(safetensors_status_name(9999), "unknown") == 0 && strcmp(safetensors_status_name(0), "ok") == 0);
  CHECK(safetensors_printable(TEXT("a\tb"), text, sizeof text) == 7 && strcmp(text, "a\\u{9}b") == 0);
  CHECK(safetensors_printable("abcdef", NUL, text, 4) == 6 && strcmp(text, "abc") == 0);
  CHECK(safetensors_printable("abcdef", 6, NULL, 0) == 6 && safetensors_printable(NULL, 0, text, 9) == 0);
  memset(&failure, 0, sizeof failure);
  failure.code = SAFETENSORS_ERROR_READ_FAILED;
  failure.offset = 17;
  strcpy(failure.message, "cannot read");
  strcpy(failure.path, "a\n");
  CHECK(safetensors_error_text(&failure, text, sizeof text) == strlen(text));
  CHECK(strcmp(text, "a\\u{a}: cannot read (byte 17)") == 0);
  CHECK(safetensors_error_text(NULL, text, sizeof text) == 0 && text[0] == '\0');
}

static void dtypes(void) {
  int known = 0;
  for (safetensors_dtype dtype = -1; dtype < 300; ++dtype) {
    const char* name = safetensors_dtype_name(dtype);
    CHECK((name != NULL) == (safetensors_dtype_bits(dtype) != 0));
    if (!name) continue;
    ++known;
    CHECK(safetensors_dtype_parse(name, NUL) == dtype && safetensors_dtype_parse(name, strlen(name)) == dtype);
  }
  CHECK(known == 22 && safetensors_dtype_bits(SAFETENSORS_DTYPE_F4) == 4);
  CHECK(safetensors_dtype_parse(TEXT("f32")) == 0 && safetensors_dtype_parse(NULL, 0) == 0);
}

static void contents(void) {
  safetensors_model* model = open_model(path);
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  safetensors_file file = SAFETENSORS_FILE_INIT;
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  safetensors_metadata pair;
  GOOD(safetensors_model_get_info(model, &info, &error));
  CHECK(info.tensor_count == 3 && info.file_count == 1 && info.index_name_length == 0 && info.index_name[0] == '\0');
  GOOD(safetensors_model_get_file(model, 0, &file, &error));
  CHECK(strcmp(file.path, path) == 0 && file.tensor_count == 3 && file.metadata_count == 2 && file.data_bytes == 41);
  CHECK(file.metadata_present == 1 && file.whitespace == 0 && file.access != SAFETENSORS_ACCESS_AUTOMATIC);
  FAILS(safetensors_model_get_file(model, 1, &file, &error), NOT_FOUND);
  SAYS("there is no file 1, there are 1");
  CHECK(file.path == NULL && file.struct_size == sizeof file);
  GOOD(safetensors_model_get_metadata(model, 0, 1, &pair, &error));
  CHECK(same(pair.key, pair.key_length, "format") && same(pair.value, pair.value_length, "pt"));
  GOOD(safetensors_model_find_metadata(model, 0, "a", NUL, &pair, &error));
  CHECK(same(pair.value, pair.value_length, "b"));
  FAILS(safetensors_model_find_metadata(model, 0, TEXT("c"), &pair, &error), NOT_FOUND);
  CHECK(pair.key == NULL && strcmp(error.path, path) == 0);
  FAILS(safetensors_model_get_metadata(model, 0, 2, &pair, &error), NOT_FOUND);
  FAILS(safetensors_model_get_metadata(model, 1, 0, &pair, &error), NOT_FOUND);
  GOOD(safetensors_model_find_tensor(model, TEXT("weight"), &tensor, &error));
  CHECK(tensor.dtype == SAFETENSORS_DTYPE_F32 && tensor.rank == 2 && tensor.shape[1] == 3 && tensor.nbytes == 24);
  CHECK(same(tensor.dtype_name, tensor.dtype_name_length, "F32") && strcmp(tensor.path, path) == 0);
  CHECK(tensor.file_offset >= 8 + file.header_bytes);
  FAILS(safetensors_model_find_tensor(model, TEXT("wieght"), &tensor, &error), NOT_FOUND);
  SAYS("no tensor `wieght` in 1 file of 3 tensors: is it `weight`?");
  CHECK(strcmp(error.path, path) == 0 && tensor.name == NULL);
  GOOD(safetensors_model_get_tensor(model, 0, &tensor, &error));
  CHECK(same(tensor.name, tensor.name_length, "steps"));
  FAILS(safetensors_model_get_tensor(model, 3, &tensor, &error), NOT_FOUND);
  safetensors_model_free(model);
}

static void reading(void) {
  safetensors_model* model = open_model(path);
  safetensors_array* array = NULL;
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  const safetensors_dim column[] = {SAFETENSORS_DIM_ALL, SAFETENSORS_DIM_INDEX(-1)};
  double read[2] = {0, 0};
  uint64_t shape[2] = {0, 0};
  uint64_t nbytes = 0;
  size_t rank = 0;
  for (int32_t map = SAFETENSORS_MAP_SHARED; map <= SAFETENSORS_MAP_COPY_ON_WRITE; ++map) {
    GOOD(safetensors_model_view(model, TEXT("weight"), map, &array, &error));
    const safetensors_array_info view = look(array);
    CHECK(view.nbytes == 24 && memcmp(view.data, kWeight, 24) == 0 && view.shape[0] == 2 && view.rank == 2);
    CHECK(view.dtype == SAFETENSORS_DTYPE_F32 && (uintptr_t)view.data % sizeof(float) == 0);
    CHECK(map == SAFETENSORS_MAP_SHARED || view.mutable_data == view.data);
    CHECK(view.memory != SAFETENSORS_MEMORY_SHARED_MAP || view.mutable_data == NULL);
    safetensors_array_free(array);
  }
  FAILS(safetensors_model_view(model, TEXT("weight"), 2, &array, &error), INVALID_ARGUMENT);
  SAYS("unknown map mode 2");
  request.slice = column;
  request.slice_count = 2;
  request.cast = SAFETENSORS_DTYPE_F64;
  GOOD(safetensors_model_measure(model, "weight", NUL, &request, shape, 2, &rank, &nbytes, &error));
  CHECK(rank == 1 && shape[0] == 2 && nbytes == 16);
  GOOD(safetensors_model_measure(model, "weight", NUL, NULL, NULL, 0, &rank, NULL, &error));
  CHECK(rank == 2);
  FAILS(safetensors_model_measure(model, "weight", NUL, NULL, shape, 1, &rank, &nbytes, &error), BUFFER_SIZE);
  CHECK(rank == 2 && nbytes == 0);
  request.destination = read;
  request.destination_size = sizeof read;
  GOOD(safetensors_model_read(model, "weight", NUL, &request, NULL, &error));
  CHECK(is_big_endian() || (read[0] == 2 && read[1] == 5));
  request.destination_size = 0;
  FAILS(safetensors_model_read(model, "weight", NUL, &request, NULL, &error), BUFFER_SIZE);
  SAYS("tensor `weight`: the result has 16 bytes, the destination 0");
  request.destination_size = 15;
  FAILS(safetensors_model_read(model, "weight", NUL, &request, NULL, &error), BUFFER_SIZE);
  request.cast = SAFETENSORS_DTYPE_I64;
  FAILS(safetensors_model_measure(model, "weight", NUL, &request, NULL, 0, NULL, &nbytes, &error), DTYPE_MISMATCH);
  request.cast = 99;
  FAILS(safetensors_model_read(model, "weight", NUL, &request, NULL, &error), INVALID_ARGUMENT);
  SAYS("unknown dtype 99");
  FAILS(safetensors_model_read(model, TEXT("none"), NULL, &array, &error), NOT_FOUND);
  CHECK(array == NULL);
  safetensors_model_free(model);
}

static void slices(void) {
  safetensors_dim dims[3];
  size_t count = 0;
  GOOD(safetensors_slice_parse(TEXT("1:3,...,-1"), dims, 3, &count, &error));
  CHECK(count == 3 && dims[0].begin == 1 && dims[0].end == 3 && dims[1].kind == SAFETENSORS_DIM_KIND_ELLIPSIS);
  CHECK(dims[2].kind == SAFETENSORS_DIM_KIND_INDEX && dims[2].begin == -1);
  GOOD(safetensors_slice_parse("::-2", NUL, dims, 3, &count, &error));
  CHECK(count == 1 && dims[0].begin == SAFETENSORS_DIM_NONE && dims[0].step == -2);
  FAILS(safetensors_slice_parse("1,2", NUL, dims, 1, &count, &error), BUFFER_SIZE);
  CHECK(count == 2);
  FAILS(safetensors_slice_parse(TEXT("1:x"), dims, 3, &count, &error), SLICE_SYNTAX);
  safetensors_model* model = open_model(path);
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  const safetensors_dim wrong[][1] = {{SAFETENSORS_DIM_INDEX(2)},    {SAFETENSORS_DIM_RANGE(0, 1, 0)},
                                      {SAFETENSORS_DIM_SHARD(2, 2)}, {SAFETENSORS_DIM_SHARD(-1, 2)},
                                      {SAFETENSORS_DIM_SHARD(0, 0)}, {{9, 0, 0, 0, 0}}};
  const safetensors_status codes[] = {SAFETENSORS_ERROR_SLICE_INDEX, SAFETENSORS_ERROR_SLICE_STEP,
                                      SAFETENSORS_ERROR_SLICE_INDEX, SAFETENSORS_ERROR_SLICE_INDEX,
                                      SAFETENSORS_ERROR_SLICE_INDEX, SAFETENSORS_ERROR_INVALID_ARGUMENT};
  request.slice_count = 1;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; ++i) {
    request.slice = wrong[i];
    CHECK(safetensors_model_measure(model, TEXT("steps"), &request, NULL, 0, NULL, NULL, &error) == codes[i]);
  }
  safetensors_model_free(model);
}

static int released;
static void release(void* user) {
  (void)user;
  ++released;
}

static safetensors_status source_size(void* user, uint64_t* size, safetensors_error* failure) {
  (void)failure;
  *size = *(const size_t*)user;
  return SAFETENSORS_OK;
}

static unsigned char bytes[4096];

static safetensors_status source_read(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                      safetensors_error* failure) {
  if (offset >= 4000) {
    strcpy(failure->message, "the archive is broken");
    failure->offset = offset;
    return SAFETENSORS_ERROR_READ_FAILED;
  }
  const size_t left = *(const size_t*)user - (size_t)offset;
  *count = capacity < left ? capacity : left;
  memcpy(destination, bytes + offset, *count);
  return SAFETENSORS_OK;
}

static int32_t always(void* user) {
  ++*(int*)user;
  return 1;
}

static void ways_of_opening(void) {
  safetensors_model* model = NULL;
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  const int descriptor = open(path, O_RDONLY);
  size_t size = (size_t)read(descriptor, bytes, sizeof bytes);
  int asked = 0;
  GOOD(safetensors_model_from_fd(descriptor, NULL, &model, &error));
  close(descriptor);
  check_weight(model);
  safetensors_model_free(model);
  FAILS(safetensors_model_from_fd(-1, NULL, &model, &error), OPEN_FAILED);
  CHECK(error.os_error != 0);
  GOOD(safetensors_model_from_memory(bytes, size, release, NULL, NULL, &model, &error));
  safetensors_array* array = NULL;
  GOOD(safetensors_model_view(model, TEXT("weight"), SAFETENSORS_MAP_SHARED, &array, &error));
  safetensors_model_free(model);
  CHECK(released == 0 && memcmp(look(array).data, kWeight, 24) == 0);
  safetensors_array_free(array);
  CHECK(released == 1);
  FAILS(safetensors_model_from_memory(bytes, 7, release, NULL, NULL, &model, &error), HEADER_TOO_SMALL);
  CHECK(released == 1 && model == NULL);
  source.user = &size;
  source.size = source_size;
  source.read_at = source_read;
  source.release = release;
  GOOD(safetensors_model_from_source(&source, NULL, &model, &error));
  check_weight(model);
  safetensors_model_free(model);
  CHECK(released == 2);
  options.cancelled = always;
  options.user = &asked;
  FAILS(safetensors_model_open(path, &options, &model, &error), CANCELLED);
  CHECK(asked > 0);
}

/* bytes: a file whose header is the text. */
static size_t file_of(const char* text) {
  const size_t length = strlen(text);
  memset(bytes, 0, 8);
  bytes[0] = (unsigned char)length;
  memcpy(bytes + 8, text, length);
  return 8 + length;
}

static void errors_of_files(void) {
  safetensors_model* model = NULL;
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_file file = SAFETENSORS_FILE_INIT;
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  const size_t size = file_of(" {\"w\":{\"dtype\":\"Q3\",\"shape\":[5],\"data_offsets\":[0,2]}}");
  FAILS(safetensors_model_from_memory(bytes, size + 3, NULL, NULL, NULL, &model, &error), JSON_LEADING_WHITESPACE);
  CHECK(error.offset == 8);
  options.accept = SAFETENSORS_ACCEPT_WHITESPACE;
  FAILS(safetensors_model_from_memory(bytes, size + 3, NULL, NULL, &options, &model, &error), UNKNOWN_DTYPE);
  CHECK(error.offset != SAFETENSORS_NO_OFFSET);
  options.accept |= SAFETENSORS_ACCEPT_UNKNOWN_DTYPES;
  FAILS(safetensors_model_from_memory(bytes, size + 3, NULL, NULL, &options, &model, &error), INCOMPLETE_DATA);
  options.accept |= SAFETENSORS_ACCEPT_UNUSED_BYTES;
  GOOD(safetensors_model_from_memory(bytes, size + 3, NULL, NULL, &options, &model, &error));
  GOOD(safetensors_model_get_file(model, 0, &file, &error));
  CHECK(file.whitespace == 1 && file.unknown_dtypes == 1 && file.unused_bytes == 1 && file.path[0] == '\0');
  GOOD(safetensors_model_get_tensor(model, 0, &tensor, &error));
  CHECK(tensor.dtype == SAFETENSORS_DTYPE_UNKNOWN && same(tensor.dtype_name, tensor.dtype_name_length, "Q3"));
  uint64_t shape[1] = {0}, nbytes = 0;
  size_t rank = 0;
  GOOD(safetensors_model_measure(model, TEXT("w"), NULL, shape, 1, &rank, &nbytes, &error));
  CHECK(rank == 1 && shape[0] == 2 && nbytes == 2);
  safetensors_model_free(model);
  options.accept = 8;
  FAILS(safetensors_model_open(path, &options, &model, &error), UNSUPPORTED);
  options.accept = 0;
  options.access = 3;
  FAILS(safetensors_model_open(path, &options, &model, &error), INVALID_ARGUMENT);
  FAILS(safetensors_model_open(in_directory("none"), NULL, &model, &error), OPEN_FAILED);
  CHECK(error.os_error == 2 && strcmp(error.path, in_directory("none")) == 0);
  FAILS(safetensors_model_open(NULL, NULL, &model, &error), INVALID_ARGUMENT);
  SAYS("argument path is NULL");
  CHECK(safetensors_model_open(NULL, NULL, &model, NULL) == SAFETENSORS_ERROR_INVALID_ARGUMENT);
}

/* A file whose F32 is at an odd byte: the view is a copy, and aligned. */
static void unaligned(void) {
  safetensors_model* model = NULL;
  safetensors_array* array = NULL;
  const size_t size = file_of("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
  unsigned char* const odd = malloc(size + 5);
  const size_t shift = (size % 4) == 3 ? 0 : 1;
  if (!odd) exit(1);
  memcpy(odd + shift, bytes, size);
  memcpy(odd + shift + size, &kWeight[5], 4);
  GOOD(safetensors_model_from_memory(odd + shift, size + 4, NULL, NULL, NULL, &model, &error));
  GOOD(safetensors_model_view(model, TEXT("w"), SAFETENSORS_MAP_SHARED, &array, &error));
  const safetensors_array_info info = look(array);
  CHECK((uintptr_t)info.data % 4 == 0 && memcmp(info.data, &kWeight[5], 4) == 0);
  CHECK((info.memory == SAFETENSORS_MEMORY_OWNED) == (((uintptr_t)odd + shift + size) % 4 != 0));
  safetensors_array_free(array);
  safetensors_model_free(model);
  free(odd);
}

static void reserved_member(void) {
  safetensors_model* model = NULL;
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.reserved = 1;
  FAILS(safetensors_model_open(path, &options, &model, &error), UNSUPPORTED);
}

static void dlpack(void) {
  safetensors_model* model = open_model(path);
  safetensors_array* array = NULL;
  safetensors_dl_managed_tensor* managed = NULL;
  safetensors_dl_unversioned_tensor* older = NULL;
  GOOD(safetensors_model_read(model, TEXT("weight"), NULL, &array, &error));
  GOOD(safetensors_array_to_dlpack(array, &managed, &error));
  GOOD(safetensors_array_to_unversioned_dlpack(array, &older, &error));
  safetensors_array_free(array);
  safetensors_model_free(model);
  CHECK(managed->version.major == 1 && managed->flags == 0 && managed->dl_tensor.ndim == 2);
  CHECK(managed->dl_tensor.dtype.bits == 32 && managed->dl_tensor.shape[1] == 3);
  CHECK(memcmp(managed->dl_tensor.data, kWeight, 24) == 0 && older->dl_tensor.data == managed->dl_tensor.data);
  managed->deleter(managed);
  older->deleter(older);
}

int main(void) {
  if (!make_directory()) return 1;
  write_file(path, 0);
  texts();
  dtypes();
  contents();
  reading();
  slices();
  ways_of_opening();
  errors_of_files();
  unaligned();
  reserved_member();
  dlpack();
  CHECK(unlink(path) == 0 && rmdir(directory) == 0);
  return finish("model");
}
