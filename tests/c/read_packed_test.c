/* Reading many tensors into one buffer in the C interface. */
#define _POSIX_C_SOURCE 200809L

#include "c/test_plans.h"

static safetensors_packed_layout* layout_of_all(const safetensors_packed_options* options) {
  safetensors_checkpoint* checkpoint = NULL;
  safetensors_packed_layout* layout = NULL;
  GOOD(safetensors_checkpoint_open(path, NULL, &checkpoint, &error));
  GOOD(safetensors_packed_layout_of_checkpoint(checkpoint, options, &layout, &error));
  safetensors_checkpoint_free(checkpoint); /* the layout keeps it */
  return layout;
}

/* The ranges of all tensors of write_all, and zeros between them. */
static void check_buffer(const safetensors_packed_layout* layout, const unsigned char* bytes, uint64_t alignment) {
  safetensors_tensor_data tensors[22];
  uint64_t count = 0;
  uint64_t nbytes = 0;
  uint64_t end = 0;
  make_tensors(tensors);
  GOOD(safetensors_packed_layout_size(layout, &count, &nbytes, &error));
  CHECK(count == 22);
  for (uint64_t i = 0; i < count; ++i) {
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    safetensors_tensor_info same = SAFETENSORS_TENSOR_INFO_INIT;
    GOOD(safetensors_packed_layout_tensor_at(layout, i, &info, &error));
    CHECK(info.begin % alignment == 0 && info.begin >= end && info.end - info.begin == info.nbytes);
    CHECK(info.end <= nbytes && info.file_offset == 0 && info.rank == 3 && info.shape[2] == 4);
    CHECK(memcmp(bytes + info.begin, bytes24, (size_t)info.nbytes) == 0);
    while (end < info.begin) CHECK(bytes[end++] == 0);
    end = info.end;
    GOOD(safetensors_packed_layout_tensor(layout, info.name, info.name_length, &same, &error));
    CHECK(same.begin == info.begin && same.dtype == info.dtype);
  }
  CHECK(end == nbytes);
}

static void into_memory_of_the_library(void) {
  safetensors_packed_options options = SAFETENSORS_PACKED_OPTIONS_INIT;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  safetensors_read_report_info figures = SAFETENSORS_READ_REPORT_INFO_INIT;
  safetensors_packed_layout* layout = NULL;
  safetensors_array* memory = NULL;
  safetensors_read_report* report = NULL;
  uint64_t nbytes = 0;
  layout = layout_of_all(NULL);
  GOOD(safetensors_packed_layout_size(layout, NULL, &nbytes, &error));
  GOOD(safetensors_read_packed(layout, NULL, 0, NULL, &memory, &report, &error));
  GOOD(safetensors_array_get_info(memory, &info, &error));
  CHECK(info.dtype == SAFETENSORS_DTYPE_U8 && info.rank == 1 && info.shape[0] == nbytes && info.nbytes == nbytes);
  CHECK(info.memory == SAFETENSORS_MEMORY_OWNED && (uintptr_t)info.data % 64 == 0);
  check_buffer(layout, info.data, 64);
  GOOD(safetensors_read_report_get_info(report, &figures, &error));
  CHECK(figures.bytes > 0 && figures.bytes <= nbytes);
  safetensors_read_report_free(report);
  safetensors_array_free(memory);
  safetensors_packed_layout_free(layout);

  options.order = SAFETENSORS_PACKED_ORDER_NAME;
  options.alignment = 256;
  layout = layout_of_all(&options);
  GOOD(safetensors_read_packed(layout, NULL, 0, NULL, &memory, NULL, &error));
  safetensors_packed_layout_free(layout); /* the array outlives it */
  info = (safetensors_array_info)SAFETENSORS_ARRAY_INFO_INIT;
  GOOD(safetensors_array_get_info(memory, &info, &error));
  layout = layout_of_all(&options);
  check_buffer(layout, info.data, 256);
  safetensors_packed_layout_free(layout);
  safetensors_array_free(memory);
}

static void into_memory_of_the_caller(void) {
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensors[2] = {tensor_of(file, "U8"), tensor_of(file, "F32")};
  safetensors_packed_options options = SAFETENSORS_PACKED_OPTIONS_INIT;
  safetensors_packed_layout* layout = NULL;
  safetensors_array* memory = NULL;
  safetensors_read_report* report = NULL;
  unsigned char* bytes = NULL;
  options.order = SAFETENSORS_PACKED_ORDER_GIVEN;
  options.alignment = 32;
  GOOD(safetensors_packed_layout_create((const safetensors_tensor* const*)tensors, 2, &options, &layout, &error));
  CHECK(posix_memalign((void**)&bytes, 64, 160) == 0);
  memset(bytes, 0xA5, 160);
  FAILS(safetensors_read_packed(layout, bytes, 127, NULL, &memory, &report, &error), BUFFER_SIZE);
  SAYS("the tensors have 128 bytes, the destination 127");
  CHECK(memory == NULL && report == NULL);
  FAILS(safetensors_read_packed(layout, bytes + 16, 128, NULL, &memory, &report, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_packed(layout, NULL, 128, NULL, &memory, &report, &error), INVALID_ARGUMENT);
  CHECK(bytes[0] == 0xA5);
  GOOD(safetensors_read_packed(layout, bytes, 160, NULL, &memory, &report, &error));
  safetensors_read_report_free(report);
  safetensors_array_free(memory);
  CHECK(memcmp(bytes, bytes24, 24) == 0 && memcmp(bytes + 32, bytes24, 96) == 0);
  for (size_t i = 24; i < 32; ++i) CHECK(bytes[i] == 0);
  CHECK(bytes[128] == 0xA5 && bytes[159] == 0xA5);
  free(bytes);
  safetensors_packed_layout_free(layout);

  options.cast = SAFETENSORS_DTYPE_F64;
  FAILS(safetensors_packed_layout_create((const safetensors_tensor* const*)tensors, 2, &options, &layout, &error),
        DTYPE_MISMATCH);
  GOOD(safetensors_packed_layout_create((const safetensors_tensor* const*)tensors + 1, 1, &options, &layout, &error));
  safetensors_packed_layout_free(layout);
  safetensors_tensor_free(tensors[0]);
  tensors[0] = tensors[1];
  options.cast = 0;
  FAILS(safetensors_packed_layout_create((const safetensors_tensor* const*)tensors, 2, &options, &layout, &error),
        DUPLICATE_NAME);
  SAYS("tensor `F32` occurs twice in the list, expected each name once");
  tensors[0] = NULL;
  FAILS(safetensors_packed_layout_create((const safetensors_tensor* const*)tensors, 2, &options, &layout, &error),
        INVALID_ARGUMENT);
  CHECK(layout == NULL);
  safetensors_tensor_free(tensors[1]);
  safetensors_file_free(file);
}

static void wrong_arguments(void) {
  safetensors_packed_options options = SAFETENSORS_PACKED_OPTIONS_INIT;
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  safetensors_packed_layout* layout = NULL;
  safetensors_array* memory = NULL;
  uint64_t count = 1;
  options.alignment = 48;
  FAILS(safetensors_packed_layout_create(NULL, 0, &options, &layout, &error), INVALID_ARGUMENT);
  SAYS("invalid alignment 48, expected a power of two from 1 to 4096");
  options.alignment = 0;
  options.order = 3;
  FAILS(safetensors_packed_layout_create(NULL, 0, &options, &layout, &error), INVALID_ARGUMENT);
  SAYS("unknown order 3");
  options.order = 0;
  options.cast = 9999;
  FAILS(safetensors_packed_layout_create(NULL, 0, &options, &layout, &error), INVALID_ARGUMENT);
  FAILS(safetensors_packed_layout_create(NULL, 1, NULL, &layout, &error), INVALID_ARGUMENT);
  FAILS(safetensors_packed_layout_of_checkpoint(NULL, NULL, &layout, &error), INVALID_ARGUMENT);
  GOOD(safetensors_packed_layout_create(NULL, 0, NULL, &layout, &error));
  GOOD(safetensors_packed_layout_size(layout, &count, NULL, &error));
  CHECK(count == 0);
  FAILS(safetensors_packed_layout_tensor_at(layout, 0, &info, &error), NOT_FOUND);
  FAILS(safetensors_packed_layout_tensor(layout, "x", 1, &info, &error), NOT_FOUND);
  SAYS("the buffer has no tensor `x`");
  FAILS(safetensors_packed_layout_tensor(layout, NULL, 1, &info, &error), INVALID_ARGUMENT);
  FAILS(safetensors_packed_layout_tensor_at(layout, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_packed_layout_size(NULL, &count, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_packed(NULL, NULL, 0, NULL, &memory, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_read_packed(layout, NULL, 0, NULL, NULL, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_read_packed(layout, NULL, 0, NULL, &memory, NULL, &error));
  safetensors_array_free(memory);
  safetensors_packed_layout_free(layout);
  safetensors_packed_layout_free(NULL);
}

int main(void) {
  if (!make_directory()) return 1;
  write_all(path);
  into_memory_of_the_library();
  into_memory_of_the_caller();
  wrong_arguments();
  remove_directory();
  return finish("c read packed");
}
