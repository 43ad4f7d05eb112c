// Splits the command line of the process, which is UTF-16, by the rules of Windows.
#include "os/command/arguments.h"

#include <cstddef>

#include "os/windows/native.h"

#include <shellapi.h>

namespace safetensors::os {

std::vector<std::string> process_arguments(int argc, char** argv) {
  int count = 0;
  wchar_t** const wide = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  std::vector<std::string> arguments;
  // The name of the program is missing only if a program starts this one in an unusual way.
  for (int i = 1; i < (wide != nullptr ? count : argc); ++i)
    arguments.push_back(wide != nullptr ? windows::plain_utf8(wide[i]) : std::string(argv[i]));
  if (wide != nullptr) (void)::LocalFree(static_cast<void*>(wide));
  return arguments;
}

}  // namespace safetensors::os
