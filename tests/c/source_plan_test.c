/* A source of the caller in C, which is called by one thread at a time, in requests of its size. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>

#include "c/test_plans.h"

struct owner {
  pthread_mutex_t mutex;
  const unsigned char* data;
  size_t size;
  size_t largest; /* request */
  int inside;
  int met; /* two threads were inside at once */
};

static safetensors_status source_size(void* user, uint64_t* size, safetensors_error* told) {
  const struct owner* owner = user;
  (void)told;
  *size = owner->size;
  return SAFETENSORS_OK;
}

static safetensors_status source_read_at(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                         safetensors_error* told) {
  struct owner* owner = user;
  (void)told;
  pthread_mutex_lock(&owner->mutex);
  if (++owner->inside != 1) owner->met = 1;
  if (capacity > owner->largest) owner->largest = capacity;
  pthread_mutex_unlock(&owner->mutex);
  *count = capacity < owner->size - offset ? capacity : (size_t)(owner->size - offset);
  if (*count != 0) memcpy(destination, owner->data + offset, *count);
  pthread_mutex_lock(&owner->mutex);
  --owner->inside;
  pthread_mutex_unlock(&owner->mutex);
  return SAFETENSORS_OK;
}

static void sources(void) {
  struct owner owner;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  safetensors_tensor_data tensors[22];
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  safetensors_buffer* buffer = NULL;
  safetensors_file* file = NULL;
  safetensors_read_result* result = NULL;
  const void* data = NULL;
  const size_t count = make_tensors(tensors);
  memset(&owner, 0, sizeof owner);
  pthread_mutex_init(&owner.mutex, NULL);
  options.threads = 3;
  GOOD(safetensors_serialize(tensors, count, NULL, 0, NULL, &buffer, &error));
  GOOD(safetensors_buffer_bytes(buffer, &data, &owner.size, &error));
  owner.data = data;
  source.user = &owner;
  source.size = source_size;
  source.read_at = source_read_at;
  source.one_thread_at_a_time = 1;
  source.request_bytes = 100;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  safetensors_read_plan* plan = plan_of_all(file);
  GOOD(safetensors_read_plan_execute(plan, &options, &result, &error));
  CHECK(!owner.met && owner.largest == 100);
  for (uint64_t i = 0; i < 22; ++i) {
    safetensors_array* array = NULL;
    GOOD(safetensors_read_result_array(result, i, &array, &error));
    check_array(array, i);
  }
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);

  owner.largest = 0;
  source.struct_size = offsetof(safetensors_source, request_bytes); /* of a caller from before these fields */
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  CHECK(owner.largest > 100);
  safetensors_file_free(file);
  source.struct_size = sizeof source;
  source.reserved = 1;
  FAILS(safetensors_file_from_source(&source, NULL, &file, &error), UNSUPPORTED);
  safetensors_buffer_free(buffer);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  sources();
  remove_directory();
  return finish("c source plan");
}
