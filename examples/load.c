/* Opens a file, lists its tensors, and uses one of them as a matrix of floats without a copy.
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
  safetensors_error_format(error, text, sizeof text, NULL, NULL);
  fprintf(stderr, "%s\n", text);
  return 1;
}

static safetensors_status list(const safetensors_file* file, safetensors_error* error) {
  for (uint64_t i = 0; i < safetensors_file_count(file); ++i) {
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    char text[300];
    if (safetensors_file_info_at(file, i, &info, error)) return error->code;
    if (safetensors_tensor_info_format(&info, text, sizeof text, NULL, error)) return error->code;
    puts(text);
  }
  return SAFETENSORS_OK;
}

static safetensors_status print_matrix(const safetensors_file* file, const char* name, const uint64_t shape[2],
                                       safetensors_error* error) {
  safetensors_array* array = NULL;
  /* One call checks the name, the dtype and the shape. */
  if (safetensors_file_get(file, name, SAFETENSORS_DTYPE_F32, shape, 2, &array, error)) return error->code;
  const float* elements = safetensors_array_data(array);
  for (uint64_t row = 0; row < shape[0]; ++row) {
    for (uint64_t column = 0; column < shape[1]; ++column) printf(" %g", *elements++);
    putchar('\n');
  }
  safetensors_array_free(array);
  return SAFETENSORS_OK;
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
    fprintf(stderr, "usage: %s FILE [NAME ROWS COLUMNS]\n", argv[0]);
    return 2;
  }
  safetensors_error error;
  safetensors_file* file = NULL;
  if (safetensors_file_open(argv[1], NULL, &file, &error)) return print_error(&error); /* reads only the header */
  safetensors_status status = list(file, &error);
  if (!status && argc == 5) status = print_matrix(file, argv[2], shape, &error);
  safetensors_file_free(file);
  return status ? print_error(&error) : 0;
}
