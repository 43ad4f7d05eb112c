/* A folder with a file of three tensors, for the C tests. */
#ifndef SAFETENSORS_TESTS_C_FILES_H
#define SAFETENSORS_TESTS_C_FILES_H

#include <unistd.h>

#include "c/expect.h"

#define NUL SAFETENSORS_NUL_TERMINATED

static char directory[] = "/tmp/safetensors_c_test_XXXXXX";
static char path[128];

static const float kWeight[6] = {0, 1, 2, 3, 4, 5};
static const int64_t kSteps[2] = {7, 300};
static const uint64_t kMatrix[2] = {2, 3};
static const uint64_t kList[1] = {2};
static const safetensors_metadata kMetadata[2] = {{TEXT("format"), TEXT("pt")}, {TEXT("a"), TEXT("b")}};

/* weight: F32 [2, 3]; steps: I64 [2]; byte: U8 [] */
static inline void make_tensors(safetensors_tensor_data tensors[3]) {
  static const unsigned char byte = 9;
  const safetensors_tensor_data made[3] = {
      {TEXT("weight"), SAFETENSORS_DTYPE_F32, 0, kMatrix, 2, kWeight, sizeof kWeight},
      {TEXT("steps"), SAFETENSORS_DTYPE_I64, 0, kList, 1, kSteps, sizeof kSteps},
      {"byte", NUL, SAFETENSORS_DTYPE_U8, 0, NULL, 0, &byte, 1}};
  memcpy(tensors, made, sizeof made);
}

static inline void write_file(const char* to, uint64_t max_shard_size) {
  safetensors_tensor_data tensors[3];
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  make_tensors(tensors);
  options.metadata = kMetadata;
  options.metadata_count = 2;
  options.durability = SAFETENSORS_DURABILITY_NONE;
  options.max_shard_size = max_shard_size;
  GOOD(safetensors_save(to, tensors, 3, &options, &error));
}

static inline safetensors_model* open_model(const char* from) {
  safetensors_model* model = NULL;
  GOOD(safetensors_model_open(from, NULL, &model, &error));
  return model;
}

static inline uint64_t count_of(const safetensors_model* model) {
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  GOOD(safetensors_model_get_info(model, &info, &error));
  return info.tensor_count;
}

static inline safetensors_array_info look(const safetensors_array* array) {
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_array_get_info(array, &info, &error));
  return info;
}

/* Reads `weight` and compares it. */
static inline void check_weight(const safetensors_model* model) {
  safetensors_array* array = NULL;
  GOOD(safetensors_model_read(model, TEXT("weight"), NULL, &array, &error));
  const safetensors_array_info info = look(array);
  CHECK(info.nbytes == sizeof kWeight && memcmp(info.data, kWeight, sizeof kWeight) == 0);
  safetensors_array_free(array);
}

static inline int make_directory(void) {
  if (!mkdtemp(directory)) return 0;
  snprintf(path, sizeof path, "%s/a.safetensors", directory);
  return 1;
}

static inline const char* in_directory(const char* name) {
  static char text[256];
  snprintf(text, sizeof text, "%s/%s", directory, name);
  return text;
}

#endif
