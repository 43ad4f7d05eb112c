/* Opens a file or a model of several files, lists its tensors, and uses one of them as a matrix of floats without a
 * copy.
 *
 * Build:  cc load.c -o load $(pkg-config --cflags --libs safetensors)
 * Run:    ./load model.safetensors                          lists the tensors
 *         ./load model.safetensors linear.weight 2 3        also prints this tensor, which must be F32 [2, 3]
 */
#include <safetensors/c.h>
#include <stdio.h>
#include <stdlib.h>

static int print_error(const safetensors_error* error) {
  char text[1200];
  safetensors_error_text(error, text, sizeof text);
  fprintf(stderr, "%s\n", text);
  return 1;
}

static void print_tensor(FILE* to, const safetensors_tensor* tensor) {
  char name[300];
  safetensors_printable(tensor->name, tensor->name_length, name, sizeof name);
  fprintf(to, "%s %.*s [", name, (int)tensor->dtype_name_length, tensor->dtype_name);
  for (size_t i = 0; i < tensor->rank; ++i)
    fprintf(to, "%s%llu", i == 0 ? "" : ", ", (unsigned long long)tensor->shape[i]);
  fputs("]\n", to);
}

static safetensors_status list(const safetensors_model* model, safetensors_error* error) {
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  if (safetensors_model_get_info(model, &info, error)) return error->code;
  for (uint64_t i = 0; i < info.tensor_count; ++i) {
    safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
    if (safetensors_model_get_tensor(model, i, &tensor, error)) return error->code;
    print_tensor(stdout, &tensor);
  }
  return SAFETENSORS_OK;
}

/* Returns the exit status of the program. */
static int print_matrix(const safetensors_model* model, const char* name, const uint64_t shape[2]) {
  safetensors_error error;
  safetensors_array* array = NULL;
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  if (safetensors_model_find_tensor(model, name, SAFETENSORS_NUL_TERMINATED, &tensor, &error))
    return print_error(&error);
  if (tensor.dtype != SAFETENSORS_DTYPE_F32 || tensor.rank != 2 || tensor.shape[0] != shape[0] ||
      tensor.shape[1] != shape[1]) {
    fputs("not the matrix that was expected: ", stderr);
    print_tensor(stderr, &tensor);
    return 1;
  }
  if (safetensors_model_view(model, name, SAFETENSORS_NUL_TERMINATED, SAFETENSORS_MAP_SHARED, &array, &error) ||
      safetensors_array_get_info(array, &info, &error))
    return print_error(&error);
  const float* elements = info.data; /* the pages of the file; valid until the array is freed */
  for (uint64_t row = 0; row < shape[0]; ++row) {
    for (uint64_t column = 0; column < shape[1]; ++column) printf(" %g", *elements++);
    putchar('\n');
  }
  safetensors_array_free(array);
  return 0;
}

/* Returns 1 if the text is a number. */
static int parse(const char* text, uint64_t* number) {
  char* end = NULL;
  *number = strtoull(text, &end, 10);
  return end != text && *end == '\0' && *text != '-';
}

int main(int argc, char** argv) {
  uint64_t shape[2] = {0, 0};
  if (argc != 2 && !(argc == 5 && parse(argv[3], &shape[0]) && parse(argv[4], &shape[1]))) {
    fprintf(stderr, "usage: %s PATH [NAME ROWS COLUMNS]\n", argv[0]);
    return 2;
  }
  safetensors_error error;
  safetensors_model* model = NULL;
  if (safetensors_model_open(argv[1], NULL, &model, &error)) return print_error(&error); /* reads only headers */
  int status = list(model, &error) ? print_error(&error) : 0;
  if (!status && argc == 5) status = print_matrix(model, argv[2], shape);
  safetensors_model_free(model);
  return status;
}
