/* A program that uses the package in C: writes a file, opens it, reads a slice. */
#include <safetensors/safetensors.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const uint64_t shape[2] = {2, 3};
  float row[2] = {0, 0};
  safetensors_tensor_data data;
  safetensors_error error;
  safetensors_file* file = NULL;
  safetensors_tensor* tensor = NULL;
  safetensors_slice* slice = NULL;
  int good;

  if (argc != 2 || safetensors_abi_version() != SAFETENSORS_ABI_VERSION) return 2;
  memset(&data, 0, sizeof data);
  data.name = "weight";
  data.name_length = 6;
  data.shape = shape;
  data.rank = 2;
  data.data = values;
  data.size = sizeof values;
  data.dtype = SAFETENSORS_DTYPE_F32;
  good = !safetensors_write_file(argv[1], &data, 1, NULL, 0, NULL, NULL, &error) &&
         !safetensors_file_open(argv[1], NULL, &file, &error) &&
         !safetensors_file_tensor(file, "weight", 6, &tensor, &error) &&
         !safetensors_slice_parse("1,1:", 4, &slice, &error) &&
         !safetensors_tensor_read_into(tensor, slice, row, sizeof row, &error);
  if (!good) fprintf(stderr, "%s\n", error.message);
  safetensors_slice_free(slice);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  return good && row[0] == 5 && row[1] == 6 ? 0 : 1;
}
