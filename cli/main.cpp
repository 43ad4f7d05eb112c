// The command safetensors: finds the subcommand in a table and runs it.
#include "arguments.h"
#include "command.h"

#include "os/command/command.h"
#include "os/file_status.h"

#include <algorithm>
#include <new>
#include <vector>

namespace safetensors::cli {
namespace {

// Returns whether a word that is no command is the path of a file or a folder.
bool is_path(const std::string& word) {
  os::FileStatus status;
  if (word.ends_with(".safetensors") || word.find('/') != std::string::npos) return true;
  return os::status_of_path(word.c_str(), os::Symlinks::follow, status) == 0;
}

Exit run(const Command& command, std::span<const std::string> words, Console& console) {
  try {
    return command.run(Arguments(command, words), console);
  } catch (const UsageError& error) {
    return console.usage(command.name, error.what());
  }
}

Exit dispatch(const std::vector<std::string>& given, Console& console) {
  if (!given.empty() && given[0] == kCompleteVerb) return run_complete(std::span(given).subspan(1), console);
  const std::span<const std::string> arguments = given;
  if (arguments.empty()) {
    console.message("which COMMAND?\n\n" + overview().substr(0, overview().size() - 1));
    return Exit::usage;
  }
  const std::string& name = arguments[0];
  const auto rest = arguments.subspan(1);
  if (name == "--version" || name == "-V") {
    console.out(version_text());
    return Exit::good;
  }
  if (name == "--help" || name == "-h" || (name == "help" && rest.empty())) {
    console.out(overview());
    return Exit::good;
  }
  const std::string& wanted = name == "help" ? rest[0] : name;
  const Command* command = find_command(wanted);
  if (command == nullptr && is_path(name)) return run(kInfo, arguments, console);
  if (command == nullptr) {
    console.message(no_command(wanted) + "\nTry 'safetensors --help'.");
    return Exit::usage;
  }
  const auto end = std::ranges::find(rest, "--");
  const bool asks = std::any_of(rest.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (name != "help" && !asks) return run(*command, rest, console);
  console.out(help_text(*command));
  return Exit::good;
}

}  // namespace
}  // namespace safetensors::cli

int main(int argc, char** argv) {
  using namespace safetensors::cli;
  // A failed write is then an error, so that unfinished output can be removed first.
  safetensors::os::ignore_write_signals();
  safetensors::os::fill_standard_descriptors();  // otherwise "-" could read a file that the command opens
  Console console;
  try {
    const std::vector<std::string> arguments = safetensors::os::process_arguments(argc, argv);
    return static_cast<int>(console.finish(dispatch(arguments, console)));
  } catch (const std::bad_alloc&) {
    console.message("out of memory");
    return static_cast<int>(console.finish(Exit::system));
  }
}
