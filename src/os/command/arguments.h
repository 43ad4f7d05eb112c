// The arguments of the process, as the library takes them.
#pragma once

#include <string>
#include <vector>

namespace safetensors::os {

// Returns the arguments without the name of the program. argc, argv: those of main(). Windows gives main() arguments in
// an old encoding, so there the function asks the system for them and returns UTF-8. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> process_arguments(int argc, char** argv);

}  // namespace safetensors::os
