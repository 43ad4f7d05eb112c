// The table entry of a subcommand for main.cpp.
#pragma once

#include "console.h"
#include "exit_code.h"

#include <span>
#include <string>

namespace safetensors::cli {

struct Command {
  const char* name;
  const char* summary;  // one line for the list of commands
  const char* help;     // the text of --help
  Exit (*run)(std::span<const std::string> arguments, Console& console);
};

extern const Command kLs;
extern const Command kInfo;
extern const Command kHeader;
extern const Command kMeta;
extern const Command kVerify;
extern const Command kCat;
extern const Command kDiff;
extern const Command kClean;
extern const Command kVersion;

}  // namespace safetensors::cli
