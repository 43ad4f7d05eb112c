/* Shared by the C tests that use files: a directory, and in it a file with every dtype. */
#ifndef SAFETENSORS_TESTS_C_TEST_FILES_H
#define SAFETENSORS_TESTS_C_TEST_FILES_H

#include <unistd.h>

#include "c/expect.h"

static char directory[] = "/tmp/safetensors_c_test_XXXXXX";
static char path[128];
static char other_path[128];

/* All dtypes, 24 elements each, in rank order from low to high. */
static uint64_t shape24[3] = {2, 3, 4};
static unsigned char bytes24[192];

static inline size_t make_tensors(safetensors_tensor_data* tensors) {
  safetensors_dtype dtypes[22];
  size_t count = 0;
  GOOD(safetensors_dtype_list(dtypes, 22, &count, &error));
  for (size_t i = 0; i < sizeof bytes24; ++i) bytes24[i] = (unsigned char)i;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    memset(&tensors[i], 0, sizeof tensors[i]);
    tensors[i].dtype = dtypes[i];
    GOOD(safetensors_dtype_name(dtypes[i], &tensors[i].name, &tensors[i].name_length, &error));
    GOOD(safetensors_dtype_bits(dtypes[i], &bits, &error));
    tensors[i].shape = shape24;
    tensors[i].rank = 3;
    tensors[i].data = bytes24;
    tensors[i].size = 24 * bits / 8;
  }
  return count;
}

static const safetensors_metadata kMetadata[] = {{TEXT("format"), TEXT("pt")}};

static inline void write_all(const char* to) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  GOOD(safetensors_write_file(to, tensors, count, kMetadata, 1, NULL, NULL, &error));
}

static inline safetensors_file* open_file(const char* from, int32_t access) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_file* file = NULL;
  options.access = access;
  GOOD(safetensors_file_open(from, &options, &file, &error));
  return file;
}

static inline safetensors_tensor* tensor_of(const safetensors_file* file, const char* name) {
  safetensors_tensor* tensor = NULL;
  GOOD(safetensors_file_tensor(file, name, strlen(name), &tensor, &error));
  return tensor;
}

/* Every tensor of write_all, through every way of reading. */
static inline void read_all(const safetensors_file* file) {
  safetensors_tensor_data tensors[22];
  const size_t count = make_tensors(tensors);
  for (size_t i = 0; i < count; ++i) {
    safetensors_tensor* tensor = tensor_of(file, tensors[i].name);
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    GOOD(safetensors_tensor_get_info(tensor, &info, &error));
    CHECK(info.dtype == tensors[i].dtype && info.nbytes == tensors[i].size && info.rank == 3 && info.shape[2] == 4);
    uint64_t shape[3] = {0, 0, 0};
    size_t rank = 0;
    GOOD(safetensors_tensor_shape(tensor, shape, 3, &rank, &error));
    CHECK(rank == 3 && memcmp(shape, shape24, sizeof shape) == 0);
    unsigned char read[192] = {0};
    GOOD(safetensors_tensor_read_into(tensor, NULL, read, tensors[i].size, &error));
    CHECK(memcmp(read, bytes24, tensors[i].size) == 0);
    size_t at = 0;
    GOOD(safetensors_file_read_at(file, info.file_offset, read, 1, &at, &error));
    CHECK(at == 1 && read[0] == 0);
    for (int32_t map = SAFETENSORS_MAP_SHARED; map <= SAFETENSORS_MAP_COPY_ON_WRITE; ++map) {
      safetensors_array* array = NULL;
      safetensors_array_info view = SAFETENSORS_ARRAY_INFO_INIT;
      const void* elements = NULL;
      GOOD(safetensors_tensor_view(tensor, map, &array, &error));
      GOOD(safetensors_array_get_info(array, &view, &error));
      CHECK(view.nbytes == tensors[i].size && memcmp(view.data, bytes24, view.nbytes) == 0);
      CHECK(view.dtype == tensors[i].dtype && view.rank == 3 && view.shape[1] == 3);
      const int packed = view.dtype >= SAFETENSORS_DTYPE_F6_E2M3;
      if (view.nbytes > 24 && is_big_endian()) {
        FAILS(safetensors_array_as(array, view.dtype, &elements, &at, &error), UNSUPPORTED);
        CHECK(elements == NULL && at == 0);
      } else {
        GOOD(safetensors_array_as(array, view.dtype, &elements, &at, &error));
        CHECK(elements == view.data && at == (packed ? view.nbytes : 24));
      }
      FAILS(safetensors_array_as(array, view.dtype == 1 ? 2 : view.dtype - 1, &elements, &at, &error), DTYPE_MISMATCH);
      CHECK(elements == NULL && at == 0);
      safetensors_array_free(array);
    }
    safetensors_tensor_free(tensor);
  }
}

static inline int make_directory(void) {
  if (!mkdtemp(directory)) return 0;
  snprintf(path, sizeof path, "%s/a.safetensors", directory);
  snprintf(other_path, sizeof other_path, "%s/b.safetensors", directory);
  return 1;
}

/* What a callback for progress was told, and what it answers. */
struct told {
  uint64_t done;
  uint64_t total;
  int calls;
  int32_t answer;
};

static inline int32_t tell_progress(void* user, uint64_t done, uint64_t total) {
  struct told* told = user;
  told->done = done;
  told->total = total;
  ++told->calls;
  return told->answer;
}

/* Checks that nothing was left behind but the one file. */
static inline void remove_directory(void) {
  CHECK(unlink(path) == 0);
  CHECK(rmdir(directory) == 0);
}

#endif
