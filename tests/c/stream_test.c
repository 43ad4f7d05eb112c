/* Streams in the C interface: tensors are handed out one after the other, as they become complete. */
#define _POSIX_C_SOURCE 200809L

#include "c/test_plans.h"

static void streams(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  safetensors_read_report* report = NULL;
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  struct told told = {0, 0, 0, 1};
  uint64_t item = 0;
  uint64_t nbytes = 0;
  int32_t ready = 0;
  int seen[22] = {0};
  options.user = &told;
  options.progress = tell_progress;
  options.memory_limit = 200; /* about one item */
  GOOD(safetensors_read_plan_size(plan, NULL, &nbytes, &error));
  GOOD(safetensors_read_plan_stream(plan, &options, &stream, &error));
  safetensors_read_plan_free(plan); /* the stream keeps what it needs */
  safetensors_file_free(file);
  for (int i = 0; i < 22; ++i) {
    GOOD(safetensors_stream_wait(stream, UINT64_MAX, &ready, &error));
    GOOD(safetensors_stream_next(stream, &item, &array, &error));
    CHECK(ready == 1 && array != NULL && item < 22);
    if (!array || item >= 22) break;
    ++seen[item];
    check_array(array, item);
  }
  for (int i = 0; i < 22; ++i) CHECK(seen[i] == 1);
  for (int i = 0; i < 2; ++i) {
    item = 7;
    GOOD(safetensors_stream_next(stream, &item, &array, &error));
    CHECK(array == NULL && item == 0);
  }
  CHECK(told.calls > 0 && told.total == nbytes);
  GOOD(safetensors_stream_report(stream, &report, &error));
  safetensors_stream_free(stream);
  GOOD(safetensors_read_report_get_info(report, &info, &error));
  CHECK(info.bytes == nbytes && info.threads > 0);
  safetensors_read_report_free(report);
}

static void streams_that_end_early(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  struct told told = {0, 0, 0, 1};
  uint64_t item = 0;
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  safetensors_stream_free(stream); /* nothing was taken */
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  GOOD(safetensors_stream_next(stream, &item, &array, &error));
  GOOD(safetensors_stream_cancel(stream, &error));
  check_array(array, item); /* what was taken stays */
  FAILS(safetensors_stream_next(stream, &item, &array, &error), CANCELLED);
  FAILS(safetensors_stream_next(stream, &item, &array, &error), CANCELLED);
  CHECK(array == NULL && strncmp(error.message, TEXT("cancelled after ")) == 0);
  safetensors_stream_free(stream);
  told.answer = 0;
  options.user = &told;
  options.progress = tell_progress;
  GOOD(safetensors_read_plan_stream(plan, &options, &stream, &error));
  FAILS(safetensors_stream_next(stream, &item, &array, &error), CANCELLED);
  CHECK(told.calls == 1 && array == NULL);
  safetensors_stream_free(stream);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

/* A source over memory whose reads fail, or wait while it is closed. */
struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  const unsigned char* data;
  size_t size;
  int closed;
  int waiting;
  int failing;
  safetensors_stream* stream;
};

static safetensors_status gate_size(void* user, uint64_t* size, safetensors_error* failure) {
  (void)failure;
  *size = ((struct gate*)user)->size;
  return SAFETENSORS_OK;
}

static safetensors_status gate_read_at(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                       safetensors_error* failure) {
  struct gate* gate = user;
  pthread_mutex_lock(&gate->mutex);
  while (gate->closed) {
    gate->waiting = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_cond_wait(&gate->changed, &gate->mutex);
  }
  const int failing = gate->failing;
  pthread_mutex_unlock(&gate->mutex);
  if (failing) {
    strcpy(failure->message, "no answer from the server");
    return SAFETENSORS_ERROR_READ_FAILED;
  }
  *count = offset >= gate->size ? 0 : gate->size - (size_t)offset;
  if (*count > capacity) *count = capacity;
  memcpy(destination, gate->data + offset, *count);
  return SAFETENSORS_OK;
}

/* Cancels the stream while its thread waits in a read, then lets the read go on. */
static void* cancel_while_it_reads(void* user) {
  struct gate* gate = user;
  safetensors_error own;
  safetensors_read_report* report = NULL;
  pthread_mutex_lock(&gate->mutex);
  while (!gate->waiting) pthread_cond_wait(&gate->changed, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
  const int good = safetensors_stream_report(gate->stream, &report, &own) == SAFETENSORS_OK &&
                   safetensors_stream_cancel(gate->stream, &own) == SAFETENSORS_OK;
  safetensors_read_report_free(report);
  pthread_mutex_lock(&gate->mutex);
  gate->closed = 0;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->mutex);
  return good ? gate : NULL;
}

static void streams_over_a_source(void) {
  safetensors_tensor_data tensors[22];
  safetensors_buffer* buffer = NULL;
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  safetensors_file* file = NULL;
  safetensors_stream* stream = NULL;
  safetensors_read_result* result = NULL;
  safetensors_array* array = NULL;
  const void* data = NULL;
  struct gate gate;
  pthread_t thread;
  void* good = NULL;
  uint64_t item = 0;
  int32_t ready = 7;
  const size_t count = make_tensors(tensors);
  memset(&gate, 0, sizeof gate);
  pthread_mutex_init(&gate.mutex, NULL);
  pthread_cond_init(&gate.changed, NULL);
  GOOD(safetensors_serialize(tensors, count, NULL, 0, NULL, &buffer, &error));
  GOOD(safetensors_buffer_bytes(buffer, &data, &gate.size, &error));
  gate.data = data;
  source.user = &gate;
  source.size = gate_size;
  source.read_at = gate_read_at;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  safetensors_read_plan* plan = plan_of(file, "U8");

  gate.closed = 1;
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  gate.stream = stream;
  GOOD(safetensors_stream_wait(stream, 0, &ready, &error));
  CHECK(ready == 0);
  GOOD(safetensors_stream_wait(stream, 10, &ready, &error));
  CHECK(ready == 0);
  CHECK(pthread_create(&thread, NULL, cancel_while_it_reads, &gate) == 0);
  GOOD(safetensors_stream_wait(stream, UINT64_MAX, &ready, &error));
  CHECK(ready == 1);
  FAILS(safetensors_stream_next(stream, &item, &array, &error), CANCELLED);
  SAYS("cancelled after 0 of 24 bytes");
  CHECK(pthread_join(thread, &good) == 0 && good == &gate);
  safetensors_stream_free(stream);

  gate.failing = 1;
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  for (int i = 0; i < 2; ++i) {
    FAILS(safetensors_stream_next(stream, &item, &array, &error), READ_FAILED);
    SAYS("tensor `U8`: no answer from the server");
    CHECK(array == NULL);
  }
  safetensors_stream_free(stream);
  FAILS(safetensors_read_plan_execute(plan, NULL, &result, &error), READ_FAILED);
  SAYS("tensor `U8`: no answer from the server");
  CHECK(result == NULL);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
  safetensors_buffer_free(buffer);
  pthread_cond_destroy(&gate.changed);
  pthread_mutex_destroy(&gate.mutex);
}

static void null_arguments(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of(file, "U8");
  safetensors_read_report* report = NULL;
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  uint64_t number = 1;
  int32_t ready = 7;
  FAILS(safetensors_read_plan_stream(NULL, NULL, &stream, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_plan_stream(plan, NULL, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  FAILS(safetensors_stream_next(NULL, &number, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_next(stream, NULL, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_next(stream, &number, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_wait(NULL, 0, &ready, &error), INVALID_ARGUMENT);
  CHECK(ready == 0);
  FAILS(safetensors_stream_wait(stream, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_cancel(NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_report(NULL, &report, &error), INVALID_ARGUMENT);
  FAILS(safetensors_stream_report(stream, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_stream_next(stream, &number, &array, &error)); /* the item is still there */
  CHECK(number == 0 && array != NULL);
  safetensors_array_free(array);
  safetensors_stream_free(stream);
  safetensors_stream_free(NULL);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  streams();
  streams_that_end_early();
  streams_over_a_source();
  null_arguments();
  remove_directory();
  return finish("c streams");
}
