/* An engine in C: its threads run the reads of plans, its memory holds the results, and its source is called by one
 * thread at a time, in requests of its size. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>

#include "c/test_plans.h"

enum { kTasks = 3, kMaxResults = 64 };

struct engine {
  pthread_mutex_t mutex;
  size_t tasks;     /* the tasks of the last run */
  size_t runs;      /* calls of the executor */
  int lazy;         /* the executor runs nothing */
  size_t allocated; /* calls of allocate */
  size_t fail_at;   /* the call of allocate that returns NULL */
  void* memory[kMaxResults];
  size_t sizes[kMaxResults];
  size_t live;
  struct told told;
  /* the source */
  const unsigned char* data;
  size_t size;
  size_t largest; /* request */
  int inside;
  int met; /* two threads were inside at once */
};

/* CHECK is for the main thread. */
static pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;
static int faults;
static void expect_in_thread(int good) {
  if (good) return;
  pthread_mutex_lock(&fault_mutex);
  ++faults;
  pthread_mutex_unlock(&fault_mutex);
}

struct job {
  void (*task)(void* context, size_t index);
  void* context;
  size_t index;
};

static void* run_job(void* given) {
  const struct job* job = given;
  job->task(job->context, job->index);
  return NULL;
}

/* A thread per task: an executor need not have the threads for long. */
static void run_in_threads(void* user, size_t count, void (*task)(void* context, size_t index), void* context) {
  struct engine* engine = user;
  struct job jobs[kTasks];
  pthread_t threads[kTasks];
  engine->tasks = count;
  ++engine->runs;
  if (engine->lazy) return;
  for (size_t i = 0; i < count && i < kTasks; ++i) {
    jobs[i].task = task;
    jobs[i].context = context;
    jobs[i].index = i;
    expect_in_thread(pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0);
  }
  for (size_t i = 0; i < count && i < kTasks; ++i) expect_in_thread(pthread_join(threads[i], NULL) == 0);
}

static void* allocate(void* user, size_t size, size_t alignment) {
  struct engine* engine = user;
  void* memory = NULL;
  pthread_mutex_lock(&engine->mutex);
  const size_t call = engine->allocated++;
  expect_in_thread(alignment == 64 && size != 0 && call < kMaxResults);
  if (call != engine->fail_at && call < kMaxResults && posix_memalign(&memory, alignment, size) == 0) {
    engine->memory[call] = memory;
    engine->sizes[call] = size;
    ++engine->live;
  }
  pthread_mutex_unlock(&engine->mutex);
  return memory;
}

static void deallocate(void* user, void* memory, size_t size) {
  struct engine* engine = user;
  pthread_mutex_lock(&engine->mutex);
  size_t found = 0;
  while (found < kMaxResults && engine->memory[found] != memory) ++found;
  expect_in_thread(found < kMaxResults && engine->sizes[found] == size);
  if (found < kMaxResults) engine->memory[found] = NULL;
  --engine->live;
  pthread_mutex_unlock(&engine->mutex);
  free(memory);
}

static int32_t tell(void* user, uint64_t completed, uint64_t total) {
  struct engine* engine = user;
  return tell_progress(&engine->told, completed, total);
}

static safetensors_read_options options_of(struct engine* engine) {
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  memset(engine, 0, sizeof *engine);
  pthread_mutex_init(&engine->mutex, NULL);
  engine->fail_at = SIZE_MAX;
  engine->told.answer = 1;
  options.threads = kTasks;
  options.user = engine;
  options.progress = tell;
  options.executor = run_in_threads;
  options.allocate = allocate;
  options.deallocate = deallocate;
  return options;
}

static void plans(void) {
  struct engine engine;
  safetensors_read_options options = options_of(&engine);
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_array* kept = NULL;
  GOOD(safetensors_read_plan_execute(plan, &options, &result, &error));
  CHECK(engine.runs == 1 && engine.tasks >= 1 && engine.tasks <= kTasks);
  CHECK(engine.allocated == 22 && engine.live == 22 && engine.told.calls > 0);
  for (uint64_t i = 0; i < 22; ++i) {
    safetensors_array* array = NULL;
    GOOD(safetensors_read_result_array(result, i, &array, &error));
    check_array(array, i);
  }
  GOOD(safetensors_read_result_array(result, 9, &kept, &error));
  safetensors_read_result_free(result);
  CHECK(engine.live == 1);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
  check_array(kept, 9); /* frees it */
  CHECK(engine.live == 0);
}

static void streams(void) {
  struct engine engine;
  safetensors_read_options options = options_of(&engine);
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  uint64_t index = 0;
  int32_t ready = 0;
  size_t seen = 0;
  options.memory_limit = 1000;
  GOOD(safetensors_read_plan_stream(plan, &options, &stream, &error));
  CHECK(engine.runs == 0);
  for (;; ++seen) {
    GOOD(safetensors_stream_wait(stream, 0, &ready, &error));
    CHECK(ready == 1);
    GOOD(safetensors_stream_next(stream, &index, &array, &error));
    if (array == NULL) break;
    check_array(array, index);
  }
  CHECK(seen == 22 && engine.runs > 1 && engine.allocated == 22 && engine.live == 0);
  safetensors_stream_free(stream);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void engines_that_fail(void) {
  struct engine engine;
  safetensors_read_options options = options_of(&engine);
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_stream* stream = NULL;
  safetensors_arena* arena = NULL;
  engine.fail_at = 3;
  FAILS(safetensors_read_plan_execute(plan, &options, &result, &error), OUT_OF_MEMORY);
  CHECK(result == NULL && engine.live == 0 && engine.runs == 0);
  CHECK(strstr(error.message, "the allocator has no memory of ") != NULL);
  engine.fail_at = SIZE_MAX;
  engine.allocated = 0;
  engine.lazy = 1;
  FAILS(safetensors_read_plan_execute(plan, &options, &result, &error), INVALID_ARGUMENT);
  CHECK(strstr(error.message, "the executor ran none of ") != NULL && engine.live == 0);
  GOOD(safetensors_arena_create(&arena, &error));
  options.arena = arena;
  FAILS(safetensors_read_plan_execute(plan, &options, &result, &error), INVALID_ARGUMENT);
  SAYS("both an arena and an allocator are set, expected one of them");
  FAILS(safetensors_read_plan_stream(plan, &options, &stream, &error), INVALID_ARGUMENT);
  options.arena = NULL;
  options.deallocate = NULL;
  FAILS(safetensors_read_plan_execute(plan, &options, &result, &error), INVALID_ARGUMENT);
  SAYS("the allocator has one function, expected allocate and deallocate");
  CHECK(result == NULL && stream == NULL);
  safetensors_arena_free(arena);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static safetensors_status source_size(void* user, uint64_t* size, safetensors_error* told) {
  const struct engine* engine = user;
  (void)told;
  *size = engine->size;
  return SAFETENSORS_OK;
}

static safetensors_status source_read_at(void* user, uint64_t offset, void* destination, size_t capacity, size_t* count,
                                         safetensors_error* told) {
  struct engine* engine = user;
  (void)told;
  pthread_mutex_lock(&engine->mutex);
  if (++engine->inside != 1) engine->met = 1;
  if (capacity > engine->largest) engine->largest = capacity;
  pthread_mutex_unlock(&engine->mutex);
  *count = capacity < engine->size - offset ? capacity : (size_t)(engine->size - offset);
  if (*count != 0) memcpy(destination, engine->data + offset, *count);
  pthread_mutex_lock(&engine->mutex);
  --engine->inside;
  pthread_mutex_unlock(&engine->mutex);
  return SAFETENSORS_OK;
}

static void sources(void) {
  struct engine engine;
  safetensors_read_options options = options_of(&engine);
  safetensors_tensor_data tensors[22];
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  safetensors_buffer* buffer = NULL;
  safetensors_file* file = NULL;
  safetensors_read_result* result = NULL;
  const void* data = NULL;
  const size_t count = make_tensors(tensors);
  GOOD(safetensors_serialize(tensors, count, NULL, 0, NULL, &buffer, &error));
  GOOD(safetensors_buffer_bytes(buffer, &data, &engine.size, &error));
  engine.data = data;
  source.user = &engine;
  source.size = source_size;
  source.read_at = source_read_at;
  source.one_thread_at_a_time = 1;
  source.request_bytes = 100;
  options.chunk_bytes = 4096;
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  safetensors_read_plan* plan = plan_of_all(file);
  GOOD(safetensors_read_plan_execute(plan, &options, &result, &error));
  CHECK(!engine.met && engine.largest == 100);
  for (uint64_t i = 0; i < 22; ++i) {
    safetensors_array* array = NULL;
    GOOD(safetensors_read_result_array(result, i, &array, &error));
    check_array(array, i);
  }
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);

  engine.largest = 0;
  source.struct_size = offsetof(safetensors_source, request_bytes); /* of a caller from before these fields */
  GOOD(safetensors_file_from_source(&source, NULL, &file, &error));
  CHECK(engine.largest > 100);
  safetensors_file_free(file);
  source.struct_size = sizeof source;
  source.reserved = 1;
  FAILS(safetensors_file_from_source(&source, NULL, &file, &error), UNSUPPORTED);
  safetensors_buffer_free(buffer);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  plans();
  streams();
  engines_that_fail();
  sources();
  CHECK(faults == 0);
  remove_directory();
  return finish("c engine");
}
