/* Reading many tensors at once in the C interface: plans, results, reports. */
#define _POSIX_C_SOURCE 200809L

#include "c/test_plans.h"

static void everything_owned(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_array* array = NULL;
  uint64_t count = 0;
  uint64_t nbytes = 0;
  safetensors_file_free(file); /* the plan keeps it */
  GOOD(safetensors_read_plan_size(plan, &count, &nbytes, &error));
  CHECK(count == 22 && nbytes == 24 * (4 * 1 + 6 * 2 + 8 * 8 + 16 * 4 + 32 * 3 + 64 * 4) / 8);
  GOOD(safetensors_read_plan_size(plan, NULL, NULL, &error));
  for (int round = 0; round < 2; ++round) { /* plans are reusable */
    GOOD(safetensors_read_plan_execute(plan, NULL, &result, &error));
    GOOD(safetensors_read_result_count(result, &count, &error));
    CHECK(count == 22);
    for (uint64_t i = 0; i + 1 < count; ++i) {
      GOOD(safetensors_read_result_array(result, i, &array, &error));
      check_array(array, i);
    }
    FAILS(safetensors_read_result_array(result, count, &array, &error), NOT_FOUND);
    SAYS("there is no array 22, there are 22");
    CHECK(array == NULL);
    GOOD(safetensors_read_result_array(result, count - 1, &array, &error));
    safetensors_read_result_free(result);
    check_array(array, count - 1); /* outlives the result */
  }
  safetensors_read_plan_free(plan);
}

static void casts_of_integers(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = NULL;
  safetensors_read_result* result = NULL;
  safetensors_add_options options = SAFETENSORS_ADD_OPTIONS_INIT;
  unsigned char wide[96];
  GOOD(safetensors_read_plan_create(&plan, &error));
  options.destination = wide;
  options.destination_size = sizeof wide;
  options.cast = SAFETENSORS_DTYPE_I32;
  add(plan, file, "U8", &options);
  GOOD(safetensors_read_plan_execute(plan, NULL, &result, &error));
  for (size_t i = 0; i < 24; ++i) CHECK(wide[4 * i] == bytes24[i] && wide[4 * i + 1] == 0 && wide[4 * i + 3] == 0);
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);

  GOOD(safetensors_read_plan_create(&plan, &error));
  options = (safetensors_add_options)SAFETENSORS_ADD_OPTIONS_INIT;
  options.cast = SAFETENSORS_DTYPE_U8;
  add(plan, file, "I16", &options);
  FAILS(safetensors_read_plan_execute(plan, NULL, &result, &error), VALUE_OUT_OF_RANGE);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void destinations_slices_and_casts(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_slice* slice = NULL;
  safetensors_read_plan* plan = NULL;
  safetensors_add_options options = SAFETENSORS_ADD_OPTIONS_INIT;
  unsigned char few[4] = {0};
  unsigned char turned[24] = {0};
  uint64_t strides[3] = {1, 2, 6};
  uint32_t wide[24] = {0};
  GOOD(safetensors_read_plan_create(&plan, &error));
  GOOD(safetensors_slice_parse(TEXT("1,::2,-2:"), &slice, &error));
  options.destination = few;
  options.destination_size = sizeof few;
  GOOD(safetensors_read_plan_add(plan, tensor, slice, &options, &error));
  GOOD(safetensors_read_plan_add(plan, tensor, slice, NULL, &error));
  safetensors_slice_free(slice);
  options.destination = turned;
  options.destination_size = sizeof turned;
  options.strides = strides;
  options.stride_count = 3;
  GOOD(safetensors_read_plan_add(plan, tensor, NULL, &options, &error));
  memset(strides, 0, sizeof strides); /* they were copied */
  safetensors_tensor_free(tensor);
  options = (safetensors_add_options)SAFETENSORS_ADD_OPTIONS_INIT;
  options.destination = wide;
  options.destination_size = sizeof wide;
  options.cast = SAFETENSORS_DTYPE_F32;
  add(plan, file, "BF16", &options);
  safetensors_file_free(file);

  safetensors_read_result* result = NULL;
  safetensors_array* array = NULL;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_read_plan_execute(plan, NULL, &result, &error));
  safetensors_read_plan_free(plan);
  CHECK(memcmp(few, "\x0e\x0f\x16\x17", 4) == 0);
  for (size_t i = 0; i < 24; ++i) {
    CHECK(turned[i / 12 + 2 * (i / 4 % 3) + 6 * (i % 4)] == bytes24[i]);
    const unsigned char as_in_file[4] = {0, 0, bytes24[2 * i], bytes24[2 * i + 1]}; /* on every machine */
    CHECK(memcmp(&wide[i], as_in_file, 4) == 0);
  }
  GOOD(safetensors_read_result_array(result, 0, &array, &error));
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.data == few && info.nbytes == 4 && info.memory == SAFETENSORS_MEMORY_BORROWED && info.writable == 0);
  safetensors_array_free(array);
  GOOD(safetensors_read_result_array(result, 1, &array, &error));
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.rank == 2 && memcmp(info.data, few, 4) == 0 && info.memory == SAFETENSORS_MEMORY_OWNED);
  safetensors_array_free(array);
  GOOD(safetensors_read_result_array(result, 2, &array, &error));
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.nbytes == 0 && info.rank == 3);
  safetensors_array_free(array);
  GOOD(safetensors_read_result_array(result, 3, &array, &error));
  GOOD(safetensors_array_get_info(array, &info, &error));
  CHECK(info.dtype == SAFETENSORS_DTYPE_F32 && info.data == wide);
  safetensors_array_free(array);
  safetensors_read_result_free(result);
}

static void refused_items(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensor = tensor_of(file, "U8");
  safetensors_slice* slice = NULL;
  safetensors_read_plan* plan = NULL;
  safetensors_add_options options = SAFETENSORS_ADD_OPTIONS_INIT;
  unsigned char memory[24];
  const uint64_t strides[3] = {12, 4, 0};
  uint64_t count = 1;
  GOOD(safetensors_read_plan_create(&plan, &error));
  GOOD(safetensors_slice_parse(TEXT("2"), &slice, &error));
  FAILS(safetensors_read_plan_add(plan, tensor, slice, NULL, &error), SLICE_INDEX);
  safetensors_slice_free(slice);
  options.cast = SAFETENSORS_DTYPE_F32;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), DTYPE_MISMATCH);
  SAYS("tensor `U8`: cannot cast U8 to F32");
  options.cast = 23;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("unknown dtype 23");
  options.cast = 0;
  options.destination_size = 24;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("argument destination is NULL, its length 24");
  options.destination = memory;
  options.destination_size = 23;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), BUFFER_SIZE);
  SAYS("tensor `U8`: the result has 24 bytes, the destination 23");
  options.destination_size = 24;
  options.stride_count = 3;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("argument strides is NULL, its length 3");
  options.strides = strides;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("tensor `U8`: the destination's strides let elements of the result overlap");
  options.on_device = 1;
  options.device_size = 24;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("tensor `U8`: a destination on a device has neither bytes of the host nor strides");
  options.device = -1;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("invalid device ordinal -1");
  options.reserved = 1;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), UNSUPPORTED);
  options.struct_size = 8;
  FAILS(safetensors_read_plan_add(plan, tensor, NULL, &options, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_plan_add(plan, NULL, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("argument tensor is NULL");
  FAILS(safetensors_read_plan_add(NULL, tensor, NULL, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_read_plan_size(plan, &count, NULL, &error));
  CHECK(count == 0);
  safetensors_read_plan_free(plan);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
}

static void progress_gets_the_users_pointer(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  struct told told;
  uint64_t nbytes = 0;
  memset(&told, 0, sizeof told);
  told.answer = 1;
  options.threads = 3;
  options.user = &told;
  options.progress = tell_progress;
  options.cache = SAFETENSORS_CACHE_FILL;
  GOOD(safetensors_read_plan_execute(plan, &options, &result, &error));
  safetensors_read_result_free(result);
  GOOD(safetensors_read_plan_size(plan, NULL, &nbytes, &error));
  CHECK(told.calls > 0 && told.done == nbytes && told.total == nbytes);
  safetensors_read_plan_free(plan);

  plan = plan_of(file, "U8");
  told.calls = 0;
  told.answer = 0;
  FAILS(safetensors_read_plan_execute(plan, &options, &result, &error), CANCELLED);
  SAYS("cancelled after 24 of 24 bytes");
  CHECK(result == NULL && told.calls == 1);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void read_options(void) {
  struct {
    safetensors_read_options known;
    uint64_t unknown;
  } later = {SAFETENSORS_READ_OPTIONS_INIT, 0};
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_stream* stream = NULL;
  for (int32_t cache = SAFETENSORS_CACHE_KEEP; cache <= SAFETENSORS_CACHE_AUTOMATIC; ++cache) {
    safetensors_array* array = NULL;
    later.known.cache = cache;
    later.known.threads = 2;
    later.known.memory_limit = 8192;
    GOOD(safetensors_read_plan_execute(plan, &later.known, &result, &error));
    GOOD(safetensors_read_result_array(result, 9, &array, &error));
    check_array(array, 9);
    safetensors_read_result_free(result);
  }
  later.known.cache = 5;
  FAILS(safetensors_read_plan_execute(plan, &later.known, &result, &error), INVALID_ARGUMENT);
  SAYS("unknown cache mode 5");
  later.known.cache = -1;
  FAILS(safetensors_read_plan_stream(plan, &later.known, &stream, &error), INVALID_ARGUMENT);
  later.known.cache = 0;
  later.known.struct_size = sizeof later;
  GOOD(safetensors_read_plan_execute(plan, &later.known, &result, &error));
  safetensors_read_result_free(result);
  later.unknown = 1;
  FAILS(safetensors_read_plan_execute(plan, &later.known, &result, &error), UNSUPPORTED);
  CHECK(result == NULL);
  later.known.struct_size = sizeof later.known - 1;
  FAILS(safetensors_read_plan_stream(plan, &later.known, &stream, &error), INVALID_ARGUMENT);
  CHECK(stream == NULL);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void reports(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of_all(file);
  safetensors_read_result* result = NULL;
  safetensors_read_report* report = NULL;
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  const char* text = NULL;
  size_t length = 0;
  uint64_t nbytes = 0;
  options.threads = 1;
  options.cache = SAFETENSORS_CACHE_FILL;
  GOOD(safetensors_read_plan_size(plan, NULL, &nbytes, &error));
  GOOD(safetensors_read_plan_execute(plan, &options, &result, &error));
  GOOD(safetensors_read_result_report(result, &report, &error));
  safetensors_read_result_free(result); /* the report stays */
  GOOD(safetensors_read_report_get_info(report, &info, &error));
  CHECK(info.bytes == nbytes && info.bytes_buffered >= nbytes && info.bytes_direct == 0 && info.bytes_mapped == 0);
  CHECK(info.reads > 0 && info.threads == 1 && info.seconds > 0 && info.struct_size == sizeof info);
  for (uint64_t i = 0; i < info.fallback_count; ++i) {
    GOOD(safetensors_read_report_fallback(report, i, &text, &length, &error));
    CHECK(text != NULL && length > 0);
  }
  FAILS(safetensors_read_report_fallback(report, info.fallback_count, &text, &length, &error), NOT_FOUND);
  CHECK(text == NULL && length == 0);
  info.struct_size = 8;
  FAILS(safetensors_read_report_get_info(report, &info, &error), INVALID_ARGUMENT);
  CHECK(info.bytes == nbytes); /* no part of a struct that cannot be trusted is written */
  safetensors_read_report_free(report);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void null_arguments(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_read_plan* plan = plan_of(file, "U8");
  safetensors_read_plan* no_plan = plan;
  safetensors_read_result* result = NULL;
  safetensors_read_report* report = NULL;
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  safetensors_array* array = NULL;
  const char* text = "x";
  size_t length = 1;
  uint64_t number = 1;
  FAILS(safetensors_read_plan_create(NULL, &error), INVALID_ARGUMENT);
  SAYS("argument plan is NULL");
  FAILS(safetensors_read_plan_size(NULL, &number, NULL, &error), INVALID_ARGUMENT);
  CHECK(number == 0);
  FAILS(safetensors_read_plan_execute(NULL, NULL, &result, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_plan_execute(plan, NULL, NULL, &error), INVALID_ARGUMENT);

  GOOD(safetensors_read_plan_execute(plan, NULL, &result, &error));
  FAILS(safetensors_read_result_count(NULL, &number, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_result_count(result, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_result_array(NULL, 0, &array, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_result_array(result, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_result_report(NULL, &report, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_result_report(result, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_read_result_report(result, &report, &error));
  FAILS(safetensors_read_report_get_info(NULL, &info, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_report_get_info(report, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_report_fallback(NULL, 0, &text, &length, &error), INVALID_ARGUMENT);
  CHECK(text == NULL && length == 0);
  FAILS(safetensors_read_report_fallback(report, 0, NULL, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_report_fallback(report, 0, &text, NULL, &error), INVALID_ARGUMENT);
  safetensors_read_report_free(report);
  safetensors_read_result_free(result);

  CHECK(safetensors_read_plan_create(&no_plan, NULL) == SAFETENSORS_OK); /* an error is not needed */
  CHECK(safetensors_read_plan_add(no_plan, NULL, NULL, NULL, NULL) == SAFETENSORS_ERROR_INVALID_ARGUMENT);
  safetensors_read_plan_free(no_plan);
  safetensors_read_plan_free(NULL);
  safetensors_read_result_free(NULL);
  safetensors_read_report_free(NULL);
  safetensors_read_plan_free(plan);
  safetensors_file_free(file);
}

static void plans_without_items(void) {
  safetensors_read_plan* plan = NULL;
  safetensors_read_result* result = NULL;
  safetensors_stream* stream = NULL;
  safetensors_array* array = NULL;
  uint64_t count = 1;
  GOOD(safetensors_read_plan_create(&plan, &error));
  GOOD(safetensors_read_plan_execute(plan, NULL, &result, &error));
  GOOD(safetensors_read_result_count(result, &count, &error));
  CHECK(count == 0);
  GOOD(safetensors_read_plan_stream(plan, NULL, &stream, &error));
  GOOD(safetensors_stream_next(stream, &count, &array, &error));
  CHECK(array == NULL);
  safetensors_stream_free(stream);
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  everything_owned();
  destinations_slices_and_casts();
  casts_of_integers();
  refused_items();
  progress_gets_the_users_pointer();
  read_options();
  reports();
  null_arguments();
  plans_without_items();
  remove_directory();
  return finish("c plan");
}
