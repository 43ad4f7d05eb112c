/* Shared by the C tests of plans and streams: plans over the file of write_all, and callbacks. */
#ifndef SAFETENSORS_TESTS_C_TEST_PLANS_H
#define SAFETENSORS_TESTS_C_TEST_PLANS_H

#include <pthread.h>

#include "c/test_files.h"

static inline void add(safetensors_read_plan* plan, const safetensors_file* file, const char* name,
                       const safetensors_add_options* options) {
  safetensors_tensor* tensor = tensor_of(file, name);
  GOOD(safetensors_read_plan_add(plan, tensor, NULL, options, &error));
  safetensors_tensor_free(tensor);
}

/* Every tensor of write_all, in the order of make_tensors. */
static inline safetensors_read_plan* plan_of_all(const safetensors_file* file) {
  safetensors_tensor_data tensors[22];
  safetensors_read_plan* plan = NULL;
  const size_t count = make_tensors(tensors);
  GOOD(safetensors_read_plan_create(&plan, &error));
  for (size_t i = 0; i < count; ++i) add(plan, file, tensors[i].name, NULL);
  return plan;
}

static inline safetensors_read_plan* plan_of(const safetensors_file* file, const char* name) {
  safetensors_read_plan* plan = NULL;
  GOOD(safetensors_read_plan_create(&plan, &error));
  add(plan, file, name, NULL);
  return plan;
}

/* Takes an array that must be tensor item of write_all. */
static inline void check_array(safetensors_array* array, uint64_t item) {
  safetensors_tensor_data tensors[22];
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  make_tensors(tensors);
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(item < 22 && info.dtype == tensors[item].dtype && info.nbytes == tensors[item].size);
  CHECK(info.rank == 3 && info.shape[0] == 2 && info.shape[1] == 3 && info.shape[2] == 4);
  CHECK(info.memory == SAFETENSORS_MEMORY_OWNED && info.writable == 1 && (uintptr_t)info.data % 64 == 0);
  CHECK(memcmp(info.data, bytes24, info.nbytes) == 0);
  safetensors_array_free(array);
}

#endif
