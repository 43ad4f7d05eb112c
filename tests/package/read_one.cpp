// Opens a file and reads one tensor. scripts/check-packages links it statically and measures its size.
#include <safetensors/file.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const safetensors::Result<safetensors::File> file = safetensors::File::open(argv[1]);
  if (!file) return 1;
  const safetensors::Result<safetensors::Tensor> tensor = file->tensor(argv[2]);
  return tensor && tensor->read() ? 0 : 1;
}
