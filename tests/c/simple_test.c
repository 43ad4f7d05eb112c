/* The short functions of the C interface: NUL-terminated names, listing, typed access, saving. C99. */
#define _POSIX_C_SOURCE 200809L

#include "c/test_files.h"

static const float kWeight[6] = {0, 1, 2, 3, 4, 5};
static const int64_t kStep = 1000;
static const uint64_t kShape[2] = {2, 3};
static const char* const kPairs[] = {"format", "pt", "empty", "", NULL};

static void save(void) {
  const safetensors_named_tensor tensors[] = {
      {"weight", SAFETENSORS_DTYPE_F32, 2, {2, 3}, kWeight, sizeof kWeight},
      {"step", SAFETENSORS_DTYPE_I64, 0, {0}, &kStep, sizeof kStep},
  };
  GOOD(safetensors_save(path, tensors, 2, kPairs, &error));
}

static void listing(const safetensors_file* file) {
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  char text[64];
  size_t length = 0;
  CHECK(safetensors_file_count(file) == 2);
  CHECK(safetensors_file_count(NULL) == 0);
  GOOD(safetensors_file_info_at(file, 0, &info, &error));
  CHECK(same(info.name, info.name_length, "step") && info.dtype == SAFETENSORS_DTYPE_I64 && info.rank == 0);
  GOOD(safetensors_tensor_info_format(&info, text, sizeof text, &length, &error));
  CHECK(strcmp(text, "step I64 []") == 0 && length == strlen(text));
  GOOD(safetensors_file_info_at(file, 1, &info, &error));
  GOOD(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error));
  CHECK(strcmp(text, "weight F32 [2, 3]") == 0);
  GOOD(safetensors_tensor_info_format(&info, text, 7, &length, &error));
  CHECK(strcmp(text, "weight") == 0 && length == 17);
  GOOD(safetensors_tensor_info_format(&info, NULL, 0, &length, &error));
  CHECK(length == 17);
  FAILS(safetensors_file_info_at(file, 2, &info, &error), NOT_FOUND);
  SAYS("there is no tensor 2, there are 2");
  CHECK(info.name == NULL && info.rank == 0);
  FAILS(safetensors_file_info_at(NULL, 0, &info, &error), INVALID_ARGUMENT);
  SAYS("argument file is NULL");
  FAILS(safetensors_file_info_at(file, 0, NULL, &error), INVALID_ARGUMENT);

  GOOD(safetensors_file_info(file, "weight", &info, &error));
  CHECK(info.nbytes == 24 && info.shape[1] == 3);
  FAILS(safetensors_file_info(file, "wieght", &info, &error), NOT_FOUND);
  SAYS("no tensor `wieght` in a file of 2 tensors: is it `weight`?");
  CHECK(info.name == NULL && strcmp(error.path, path) == 0);
  FAILS(safetensors_file_info(file, NULL, &info, &error), INVALID_ARGUMENT);
  SAYS("argument name is NULL");
}

static void odd_infos(void) {
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  char text[80];
  FAILS(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error), INVALID_ARGUMENT);
  SAYS("unknown dtype 0");
  info.dtype = SAFETENSORS_DTYPE_F4;
  info.name = "a\n";
  info.name_length = 2;
  info.rank = 8;
  GOOD(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error));
  CHECK(strcmp(text, "a\\u{a} F4 [0, 0, 0, 0, 0, 0, 0, 0]") == 0);
  info.rank = 9;
  GOOD(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error));
  CHECK(strcmp(text, "a\\u{a} F4 [0, 0, 0, 0, 0, 0, 0, 0, ... 9 dimensions]") == 0);
  FAILS(safetensors_tensor_info_format(&info, NULL, 1, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_tensor_info_format(NULL, text, sizeof text, NULL, &error), INVALID_ARGUMENT);
  info.name = NULL;
  FAILS(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error), INVALID_ARGUMENT);
  info.struct_size = 7;
  FAILS(safetensors_tensor_info_format(&info, text, sizeof text, NULL, &error), INVALID_ARGUMENT);
}

static void metadata(const safetensors_file* file) {
  char value[8];
  size_t length = 9;
  GOOD(safetensors_file_metadata(file, "format", value, sizeof value, &length, &error));
  CHECK(strcmp(value, "pt") == 0 && length == 2);
  GOOD(safetensors_file_metadata(file, "format", value, 3, NULL, &error));
  GOOD(safetensors_file_metadata(file, "format", NULL, 0, &length, &error));
  CHECK(length == 2);
  GOOD(safetensors_file_metadata(file, "empty", value, 1, &length, &error));
  CHECK(value[0] == '\0' && length == 0);
  FAILS(safetensors_file_metadata(file, "format", value, 2, &length, &error), BUFFER_SIZE);
  SAYS("destination too small: capacity 2, expected at least 3");
  CHECK(length == 2);
  FAILS(safetensors_file_metadata(file, "other", value, sizeof value, &length, &error), NOT_FOUND);
  SAYS("there is no metadata key `other`");
  CHECK(length == 0 && strcmp(error.path, path) == 0);
  FAILS(safetensors_file_metadata(NULL, "format", value, sizeof value, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_metadata(file, NULL, value, sizeof value, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_metadata(file, "format", NULL, 3, &length, &error), INVALID_ARGUMENT);
}

static void wrong_requests(const safetensors_file* file) {
  const uint64_t swapped[2] = {3, 2};
  safetensors_array* array = NULL;
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, swapped, 2, &array, &error), SHAPE_MISMATCH);
  SAYS("tensor `weight`: expected F32 [3, 2], found F32 [2, 3]");
  CHECK(array == NULL && strcmp(error.path, path) == 0);
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 1, &array, &error), SHAPE_MISMATCH);
  SAYS("tensor `weight`: expected F32 [2], found F32 [2, 3]");
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_BF16, swapped, 2, &array, &error), DTYPE_MISMATCH);
  SAYS("tensor `weight`: expected BF16 [3, 2], found F32 [2, 3]");
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_U32, NULL, SAFETENSORS_ANY_RANK, &array, &error),
        DTYPE_MISMATCH);
  SAYS("tensor `weight`: expected U32, found F32");
  FAILS(safetensors_file_get(file, "wight", SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error), NOT_FOUND);
  SAYS("no tensor `wight` in a file of 2 tensors: is it `weight`?");
  FAILS(safetensors_file_get(file, "weight", 77, kShape, 2, &array, &error), INVALID_ARGUMENT);
  SAYS("unknown dtype 77");
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, NULL, 2, &array, &error), INVALID_ARGUMENT);
  SAYS("argument shape is NULL, its length 2");
  FAILS(safetensors_file_get(NULL, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_get(file, NULL, SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, NULL, &error), INVALID_ARGUMENT);
  CHECK(safetensors_array_data(NULL) == NULL);
}

static void typed_views(const safetensors_file* file) {
  safetensors_array* array = NULL;
  if (is_big_endian()) {
    FAILS(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error), UNSUPPORTED);
    return;
  }
  GOOD(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error));
  const float* weight = safetensors_array_data(array);
  CHECK(weight && memcmp(weight, kWeight, sizeof kWeight) == 0);
  safetensors_array_free(array);
  GOOD(safetensors_file_get(file, "weight", SAFETENSORS_DTYPE_F32, NULL, SAFETENSORS_ANY_RANK, &array, &error));
  safetensors_array_free(array);
  GOOD(safetensors_file_get(file, "step", SAFETENSORS_DTYPE_I64, NULL, 0, &array, &error));
  const int64_t* step = safetensors_array_data(array);
  CHECK(step && *step == kStep);
  safetensors_array_free(array);
}

static void typed_reads(const safetensors_file* file) {
  float weight[6] = {9};
  GOOD(safetensors_file_read(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, weight, sizeof weight, &error));
  CHECK(memcmp(weight, kWeight, sizeof weight) == 0);
  FAILS(safetensors_file_read(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, weight, 20, &error), BUFFER_SIZE);
  FAILS(safetensors_file_read(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 0, weight, 24, &error), SHAPE_MISMATCH);
  SAYS("tensor `weight`: expected F32 [], found F32 [2, 3]");
  FAILS(safetensors_file_read(file, "step", SAFETENSORS_DTYPE_F64, NULL, 0, weight, 8, &error), DTYPE_MISMATCH);
  FAILS(safetensors_file_read(file, "x", SAFETENSORS_DTYPE_F32, kShape, 2, weight, 24, &error), NOT_FOUND);
  FAILS(safetensors_file_read(file, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, NULL, 24, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_read(file, NULL, SAFETENSORS_DTYPE_F32, kShape, 2, weight, 24, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_read(NULL, "weight", SAFETENSORS_DTYPE_F32, kShape, 2, weight, 24, &error), INVALID_ARGUMENT);
  FAILS(safetensors_file_read(file, "weight", -1, kShape, 2, weight, 24, &error), INVALID_ARGUMENT);
}

/* A view that is not aligned is replaced by a copy that is. */
static void misaligned_tensors(void) {
  const safetensors_named_tensor tensor = {"t", SAFETENSORS_DTYPE_F32, 1, {6}, kWeight, sizeof kWeight};
  FILE* saved = NULL;
  char bytes[256];
  GOOD(safetensors_save(other_path, &tensor, 1, NULL, &error));
  CHECK((saved = fopen(other_path, "rb")) != NULL);
  if (!saved) return;
  const size_t size = fread(bytes + 1, 1, sizeof bytes - 1, saved);
  fclose(saved);
  CHECK(unlink(other_path) == 0);
  void* moved = malloc(size + 1);
  CHECK(moved != NULL);
  if (!moved) return;
  memcpy((char*)moved + 1, bytes + 1, size);
  safetensors_file* file = NULL;
  safetensors_array* array = NULL;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_file_from_memory((char*)moved + 1, size, NULL, NULL, NULL, &file, &error));
  CHECK(safetensors_file_metadata(file, "format", NULL, 0, NULL, NULL) == SAFETENSORS_ERROR_NOT_FOUND);
  if (!is_big_endian()) {
    GOOD(safetensors_file_get(file, "t", SAFETENSORS_DTYPE_F32, &tensor.shape[0], 1, &array, &error));
    GOOD(safetensors_array_get_info(array, &info, &error));
    CHECK(info.memory == SAFETENSORS_MEMORY_OWNED);
    CHECK(memcmp(safetensors_array_data(array), kWeight, sizeof kWeight) == 0);
  }
  safetensors_array_free(array);
  safetensors_file_free(file);
  free(moved);
}

static void every_dtype(void) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  write_all(path);
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_MAP);
  for (size_t i = 0; i < count; ++i) {
    safetensors_array* array = NULL;
    unsigned char read[192];
    const int packed_or_bytes = tensors[i].size <= 24;
    GOOD(safetensors_file_read(file, tensors[i].name, tensors[i].dtype, shape24, 3, read, tensors[i].size, &error));
    CHECK(memcmp(read, bytes24, tensors[i].size) == 0);
    if (!packed_or_bytes && is_big_endian()) continue;
    GOOD(safetensors_file_get(file, tensors[i].name, tensors[i].dtype, shape24, 3, &array, &error));
    CHECK(array && memcmp(safetensors_array_data(array), bytes24, tensors[i].size) == 0);
    safetensors_array_free(array);
  }
  safetensors_file_free(file);
}

static void checkpoints(void) {
  const safetensors_named_tensor other = {"b", SAFETENSORS_DTYPE_F32, 2, {2, 3}, kWeight, sizeof kWeight};
  const char* paths[2];
  safetensors_checkpoint* model = NULL;
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  safetensors_array* array = NULL;
  float read[6] = {9};
  save();
  GOOD(safetensors_save(other_path, &other, 1, NULL, &error));
  paths[0] = path;
  paths[1] = other_path;
  GOOD(safetensors_checkpoint_open_paths(paths, 2, NULL, &model, &error));
  CHECK(safetensors_checkpoint_count(model) == 3);
  CHECK(safetensors_checkpoint_count(NULL) == 0);
  GOOD(safetensors_checkpoint_info_at(model, 2, &info, &error));
  CHECK(same(info.name, info.name_length, "b"));
  FAILS(safetensors_checkpoint_info_at(model, 3, &info, &error), NOT_FOUND);
  GOOD(safetensors_checkpoint_info(model, "step", &info, &error));
  CHECK(info.dtype == SAFETENSORS_DTYPE_I64);
  FAILS(safetensors_checkpoint_info(model, "steps", &info, &error), NOT_FOUND);
  FAILS(safetensors_checkpoint_info(NULL, "step", &info, &error), INVALID_ARGUMENT);
  SAYS("argument checkpoint is NULL");
  GOOD(safetensors_checkpoint_read(model, "b", SAFETENSORS_DTYPE_F32, kShape, 2, read, sizeof read, &error));
  CHECK(memcmp(read, kWeight, sizeof read) == 0);
  FAILS(safetensors_checkpoint_read(model, "b", SAFETENSORS_DTYPE_I32, kShape, 2, read, sizeof read, &error),
        DTYPE_MISMATCH);
  CHECK(strcmp(error.path, other_path) == 0);
  FAILS(safetensors_checkpoint_get(model, "b", SAFETENSORS_DTYPE_F32, kShape, 1, &array, &error), SHAPE_MISMATCH);
  CHECK(array == NULL);
  if (!is_big_endian()) {
    GOOD(safetensors_checkpoint_get(model, "b", SAFETENSORS_DTYPE_F32, kShape, 2, &array, &error));
    CHECK(array && memcmp(safetensors_array_data(array), kWeight, sizeof kWeight) == 0);
  }
  safetensors_checkpoint_free(model);
  if (array) CHECK(memcmp(safetensors_array_data(array), kWeight, sizeof kWeight) == 0);
  safetensors_array_free(array);
  CHECK(unlink(other_path) == 0);
}

static void saving_errors(void) {
  safetensors_named_tensor tensor = {"t", SAFETENSORS_DTYPE_F32, 2, {2, 3}, kWeight, sizeof kWeight};
  static const char* const odd[] = {"format", "pt", "lonely\n", NULL};
  static const char* const none[] = {NULL};
  safetensors_file* file = NULL;
  safetensors_header* header = NULL;
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  FAILS(safetensors_save(NULL, &tensor, 1, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_save(other_path, NULL, 1, NULL, &error), INVALID_ARGUMENT);
  SAYS("argument tensors is NULL, its length 1");
  FAILS(safetensors_save(other_path, &tensor, 1, odd, &error), INVALID_ARGUMENT);
  SAYS("metadata key `lonely\\u{a}` has no value: the list ends after it");
  tensor.size = 20;
  FAILS(safetensors_save(other_path, &tensor, 1, NULL, &error), DATA_LENGTH);
  tensor.rank = 1;
  FAILS(safetensors_save(other_path, &tensor, 1, NULL, &error), INVALID_ARGUMENT);
  SAYS("tensor 0: dimension 1 is 3, expected 0 after the 1 dimensions of its rank");
  tensor.rank = 9;
  FAILS(safetensors_save(other_path, &tensor, 1, NULL, &error), INVALID_ARGUMENT);
  SAYS("tensor 0: rank 9, at most 8 (safetensors_write_file() takes any rank)");
  tensor.dtype = 0;
  FAILS(safetensors_save(other_path, &tensor, 1, NULL, &error), INVALID_ARGUMENT);
  SAYS("tensor 0: unknown dtype 0");
  tensor.name = NULL;
  FAILS(safetensors_save(other_path, &tensor, 1, NULL, &error), INVALID_ARGUMENT);
  SAYS("tensor 0: its name is NULL");
  CHECK(access(other_path, F_OK) != 0);

  GOOD(safetensors_save(path, NULL, 0, none, &error)); /* no tensors, no metadata */
  GOOD(safetensors_file_open(path, NULL, &file, &error));
  GOOD(safetensors_file_header(file, &header, &error));
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.tensor_count == 0 && info.metadata_present == 0);
  safetensors_header_free(header);
  safetensors_file_free(file);
}

int main(void) {
  safetensors_file* file = NULL;
  if (!make_directory()) return 1;
  save();
  GOOD(safetensors_file_open(path, NULL, &file, &error));
  listing(file);
  odd_infos();
  metadata(file);
  wrong_requests(file);
  typed_views(file);
  typed_reads(file);
  safetensors_file_free(file);
  misaligned_tensors();
  every_dtype();
  checkpoints();
  saving_errors();
  remove_directory();
  return finish("c simple");
}
