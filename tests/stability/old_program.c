/* A program that was compiled when ABI version 1 began: its structs have the sizes of that time. It must run with every
 * library of ABI version 1. Do not change it: it stands for programs that nobody compiles again.
 *
 * use: old_program FILE, which it writes and removes */
#include <stdio.h>
#include <string.h>
#include <c_interface_1.inc>

static int failures;

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

static void write_file(const char* path) {
  const float w[6] = {0, 1, 2, 3, 4, 5};
  const int64_t step = 7;
  safetensors_named_tensor tensors[2];
  const char* metadata[] = {"format", "pt", NULL};
  safetensors_error error;
  memset(tensors, 0, sizeof tensors);
  tensors[0].name = "w";
  tensors[0].dtype = SAFETENSORS_DTYPE_F32;
  tensors[0].rank = 2;
  tensors[0].shape[0] = 2;
  tensors[0].shape[1] = 3;
  tensors[0].data = w;
  tensors[0].size = sizeof w;
  tensors[1].name = "step";
  tensors[1].dtype = SAFETENSORS_DTYPE_I64;
  tensors[1].data = &step;
  tensors[1].size = sizeof step;
  expect(safetensors_save(path, tensors, 2, metadata, &error) == 0, "save");
}

static void read_plan(const safetensors_tensor* tensor) {
  safetensors_read_plan* plan = NULL;
  safetensors_read_result* result = NULL;
  safetensors_error error;
  double values[6] = {0};
  safetensors_add_options add = SAFETENSORS_ADD_OPTIONS_INIT;
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  uint64_t count = 0, nbytes = 0;
  add.destination = values;
  add.destination_size = sizeof values;
  add.cast = SAFETENSORS_DTYPE_F64;
  options.threads = 2;
  options.cache = SAFETENSORS_CACHE_FILL;
  expect(safetensors_read_plan_create(&plan, &error) == 0, "a plan");
  expect(safetensors_read_plan_add(plan, tensor, NULL, &add, &error) == 0, "an item");
  expect(safetensors_read_plan_size(plan, &count, &nbytes, &error) == 0 && count == 1 && nbytes == 48, "its size");
  expect(safetensors_read_plan_execute(plan, &options, &result, &error) == 0, "execute");
  expect(values[0] == 0 && values[5] == 5, "the values");
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);
}

static void read_file(const char* path) {
  const uint64_t shape[2] = {2, 3};
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  safetensors_file* file = NULL;
  safetensors_tensor* tensor = NULL;
  safetensors_array* array = NULL;
  safetensors_error error;
  float values[6];
  options.access = SAFETENSORS_ACCESS_READ;
  expect(safetensors_file_open(path, &options, &file, &error) == 0, "open");
  expect(safetensors_file_get(file, "w", SAFETENSORS_DTYPE_F32, shape, 2, &array, &error) == 0, "get");
  safetensors_array_free(array);
  expect(safetensors_file_tensor(file, "w", 1, &tensor, &error) == 0, "the tensor");
  expect(safetensors_tensor_read_into(tensor, NULL, values, sizeof values, &error) == 0 && values[5] == 5, "read_into");
  read_plan(tensor);
  safetensors_tensor_free(tensor);
  expect(safetensors_file_tensor(file, "v", 1, &tensor, &error) == SAFETENSORS_ERROR_NOT_FOUND, "an unknown name");
  expect(error.code == SAFETENSORS_ERROR_NOT_FOUND && error.message[0] != 0, "its error");
  safetensors_file_free(file);
  expect(safetensors_file_open("no such file", &options, &file, &error) == SAFETENSORS_ERROR_OPEN_FAILED, "no file");
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  expect(safetensors_abi_version() == 1, "the ABI version");
  write_file(argv[1]);
  read_file(argv[1]);
  remove(argv[1]);
  return failures == 0 ? 0 : 1;
}
