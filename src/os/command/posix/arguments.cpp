// Copies the arguments: they are bytes here.
#include "os/command/arguments.h"

#include <algorithm>

namespace safetensors::os {

std::vector<std::string> process_arguments(int argc, char** argv) {
  return {argv + std::min(argc, 1), argv + argc};
}

}  // namespace safetensors::os
