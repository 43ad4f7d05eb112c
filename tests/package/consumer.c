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
  safetensors_model* model = NULL;
  const safetensors_dim slice[2] = {SAFETENSORS_DIM_INDEX(1), SAFETENSORS_DIM_RANGE(1, SAFETENSORS_DIM_NONE, 1)};
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
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
  request.slice = slice;
  request.slice_count = 2;
  request.destination = row;
  request.destination_size = sizeof row;
  good = !safetensors_save(argv[1], &data, 1, NULL, &error) && !safetensors_model_open(argv[1], NULL, &model, &error) &&
         !safetensors_model_read(model, "weight", SAFETENSORS_NUL_TERMINATED, &request, NULL, &error);
  if (!good) fprintf(stderr, "%s\n", error.message);
  safetensors_model_free(model);
  return good && row[0] == 5 && row[1] == 6 ? 0 : 1;
}
