/* Plans, streams and models of several files in C. */
#define _POSIX_C_SOURCE 200809L

#include "c/files.h"

static int calls;
static int32_t count(void* user, uint64_t completed, uint64_t total) {
  ++calls;
  return completed == total ? *(const int32_t*)user : 0;
}

static safetensors_plan* make_plan(const safetensors_model* model, void* destination, size_t size) {
  safetensors_plan* plan = NULL;
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  request.destination = destination;
  request.destination_size = size;
  GOOD(safetensors_plan_create(&plan, &error));
  GOOD(safetensors_plan_add(plan, model, TEXT("weight"), &request, &error));
  return plan;
}

static void execution(void) {
  safetensors_model* model = open_model(path);
  float weight[6] = {0};
  int32_t answer = 0;
  safetensors_plan* plan = make_plan(model, weight, sizeof weight);
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  safetensors_array* arrays[2];
  uint64_t items = 0, nbytes = 0;
  options.progress = count;
  options.user = &answer;
  options.threads = 1;
  options.cache = SAFETENSORS_CACHE_FILL;
  GOOD(safetensors_plan_execute(plan, &options, NULL, 0, &error));
  CHECK(memcmp(weight, kWeight, sizeof weight) == 0 && calls > 0);
  answer = 1;
  FAILS(safetensors_plan_execute(plan, &options, NULL, 0, &error), CANCELLED);
  FAILS(safetensors_plan_add(plan, model, TEXT("none"), NULL, &error), NOT_FOUND);
  GOOD(safetensors_plan_add(plan, model, TEXT("steps"), NULL, &error));
  GOOD(safetensors_plan_get_size(plan, &items, &nbytes, &error));
  CHECK(items == 2 && nbytes == 40);
  FAILS(safetensors_plan_execute(plan, NULL, NULL, 0, &error), BUFFER_SIZE);
  SAYS("the plan has 2 items, `arrays` has room for 0");
  FAILS(safetensors_plan_execute(plan, NULL, arrays, 1, &error), BUFFER_SIZE);
  GOOD(safetensors_plan_execute(plan, NULL, arrays, 2, &error));
  CHECK(look(arrays[0]).data == weight && look(arrays[0]).memory == SAFETENSORS_MEMORY_BORROWED);
  CHECK(memcmp(look(arrays[1]).data, kSteps, sizeof kSteps) == 0 && (uintptr_t)look(arrays[1]).data % 64 == 0);
  safetensors_array_free(arrays[0]);
  safetensors_array_free(arrays[1]);
  options.cache = 5;
  FAILS(safetensors_plan_execute(plan, &options, arrays, 2, &error), INVALID_ARGUMENT);
  SAYS("unknown cache mode 5");
  CHECK(arrays[0] == NULL && arrays[1] == NULL);
  options.cache = INT32_MIN;
  FAILS(safetensors_plan_execute(plan, &options, arrays, 2, &error), INVALID_ARGUMENT);
  SAYS("unknown cache mode -2147483648");
  safetensors_plan_free(plan);
  safetensors_model_free(model);
}

static void errors_of_items(void) {
  safetensors_model* model = open_model(path);
  unsigned char small[2];
  uint64_t strides[1] = {16};
  int64_t apart[4] = {0};
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  request.cast = SAFETENSORS_DTYPE_U8; /* 300 does not fit */
  request.destination = small;
  request.destination_size = sizeof small;
  FAILS(safetensors_model_read(model, TEXT("steps"), &request, NULL, &error), VALUE_OUT_OF_RANGE);
  CHECK(strstr(error.message, "`steps`") && strcmp(error.path, path) == 0 && error.offset != SAFETENSORS_NO_OFFSET);
  request.cast = 0;
  request.destination = apart;
  request.destination_size = sizeof apart;
  request.strides = strides;
  request.stride_count = 1;
  GOOD(safetensors_model_read(model, TEXT("steps"), &request, NULL, &error));
  CHECK(apart[0] == 7 && apart[1] == 0 && apart[2] == 300);
  float weight[6];
  safetensors_plan* plan = make_plan(model, weight, sizeof weight);
  const safetensors_request same_memory = {sizeof same_memory, NULL, 0, weight, 16, NULL, 0, 0, 0, 0, 0};
  GOOD(safetensors_plan_add(plan, model, TEXT("steps"), &same_memory, &error));
  FAILS(safetensors_plan_execute(plan, NULL, NULL, 0, &error), OVERLAPPING_DESTINATION);
  safetensors_plan_free(plan);
  CHECK(truncate(path, 100) == 0);
  safetensors_array* array = NULL;
  FAILS(safetensors_model_read(model, TEXT("weight"), NULL, &array, &error), FILE_TRUNCATED);
  CHECK(strcmp(error.path, path) == 0 && strstr(error.message, "`weight`") && array == NULL);
  safetensors_model_free(model);
  FAILS(safetensors_model_open(path, NULL, &model, &error), INVALID_HEADER_LENGTH);
  write_file(path, 0);
}

static void streams(void) {
  safetensors_model* model = open_model(path);
  safetensors_plan* plan = make_plan(model, NULL, 0);
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  uint64_t index = 7, seen = 0;
  GOOD(safetensors_plan_add(plan, model, TEXT("steps"), NULL, &error));
  safetensors_model_free(model);
  GOOD(safetensors_plan_stream(plan, NULL, &stream, &error));
  safetensors_plan_free(plan);
  for (int i = 0; i < 2; ++i) {
    GOOD(safetensors_stream_next(stream, &index, &array, &error));
    seen |= 1U << index;
    CHECK(memcmp(look(array).data, index == 0 ? (const void*)kWeight : kSteps, look(array).nbytes) == 0);
    safetensors_array_free(array);
  }
  GOOD(safetensors_stream_next(stream, &index, &array, &error));
  CHECK(seen == 3 && array == NULL);
  GOOD(safetensors_stream_cancel(stream, &error));
  FAILS(safetensors_stream_next(stream, &index, &array, &error), CANCELLED);
  safetensors_stream_free(stream);
}

static void several_files(void) {
  char folder[160], index[256];
  char paths[3][256];
  const char* given[3];
  safetensors_model* model = NULL;
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  safetensors_file file = SAFETENSORS_FILE_INIT;
  snprintf(folder, sizeof folder, "%s/model", directory);
  write_file(folder, 1);
  model = open_model(folder);
  GOOD(safetensors_model_get_info(model, &info, &error));
  CHECK(info.tensor_count == 3 && info.file_count == 3);
  CHECK(same(info.index_name, info.index_name_length, "model.safetensors.index.json"));
  CHECK(same(info.index_metadata, info.index_metadata_length, "{\"total_size\":41}"));
  for (uint64_t i = 0; i < 3; ++i) {
    GOOD(safetensors_model_get_file(model, i, &file, &error));
    snprintf(paths[i], sizeof paths[i], "%s", file.path);
    given[i] = paths[i];
  }
  check_weight(model);
  safetensors_model_free(model);
  GOOD(safetensors_model_open_paths(given, 3, NULL, &model, &error));
  CHECK(count_of(model) == 3);
  safetensors_model_free(model);
  given[1] = given[0];
  FAILS(safetensors_model_open_paths(given, 2, NULL, &model, &error), DUPLICATE_NAME);
  FAILS(safetensors_model_open_paths(NULL, 0, NULL, &model, &error), INVALID_ARGUMENT);
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  for (int i = 0; i < 3; ++i) CHECK(unlink(paths[i]) == 0);
  FAILS(safetensors_model_open(index, NULL, &model, &error), OPEN_FAILED);
  CHECK(unlink(index) == 0 && rmdir(folder) == 0);
}

int main(void) {
  if (!make_directory()) return 1;
  write_file(path, 0);
  execution();
  errors_of_items();
  streams();
  several_files();
  CHECK(unlink(path) == 0 && rmdir(directory) == 0);
  return finish("plan");
}
