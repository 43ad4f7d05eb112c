// The command safetensors: finds the subcommand in a table and runs it.
#include "command.h"

#include <fcntl.h>
#include <algorithm>
#include <csignal>
#include <new>
#include <vector>

namespace safetensors::cli {
namespace {

bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; });
}

Exit dispatch(std::span<const std::string> arguments, Console& console) {
  if (arguments.empty()) {
    console.message("which COMMAND?\n\n" + overview().substr(0, overview().size() - 1));
    return Exit::usage;
  }
  const std::string& name = arguments[0];
  const auto rest = arguments.subspan(1);
  if (name == "--version") return kVersion.run(rest, console);
  if (name == "--help" || name == "-h" || (name == "help" && rest.empty())) {
    console.out(overview());
    return Exit::good;
  }
  const std::string& wanted = name == "help" ? rest[0] : name;
  const Command* command = find_command(wanted);
  if (command == nullptr) {
    console.message(no_command(wanted) + "\nTry 'safetensors --help'.");
    return Exit::usage;
  }
  if (name != "help" && !asks_for_help(rest)) return command->run(rest, console);
  console.out(help_text(*command));
  return Exit::good;
}

// Opens /dev/null in place of each standard descriptor that is closed. Otherwise, a file that the command opens would
// get its number, and "-" would read that file. It is open in the wrong direction, so its use is an error, as before.
void fill_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) == -1) (void)::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace
}  // namespace safetensors::cli

int main(int argc, char** argv) {
  using namespace safetensors::cli;
  // write() then reports a closed pipe, so that unfinished output can be removed first.
  std::signal(SIGPIPE, SIG_IGN);
  // A file over the size limit is then an error of write(). The signal would kill the process, and leave a partial
  // file.
  std::signal(SIGXFSZ, SIG_IGN);
  fill_standard_descriptors();
  Console console;
  try {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    return static_cast<int>(console.finish(dispatch(arguments, console)));
  } catch (const std::bad_alloc&) {
    console.message("out of memory");
    return static_cast<int>(console.finish(Exit::system));
  }
}
