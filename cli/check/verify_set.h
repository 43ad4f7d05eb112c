// The verdict of the files of a model as one set, for the subcommand verify.
#pragma once

#include "console.h"
#include "exit_code.h"
#include "json_output.h"

#include <safetensors/checkpoint.h>

#include <span>
#include <string>

namespace safetensors::cli {

// The header of a file of a set that could not be opened as one.
struct FileHeader {
  std::string path;
  Header header;
};

struct SetRequest {
  const std::string& path;  // the argument of the command
  const Result<Checkpoint>& set;
  const OpenOptions& open;
  bool quiet;
  Exit files;                          // the worst verdict of the files, without their values
  std::span<const FileHeader> opened;  // the valid files, if `set` is an error
};

// Prints the verdict, and all problems of the index, or adds the member "set" to the object of the path. A file that is
// missing or invalid has a verdict of its own. Returns the worse one of request.files and the verdict.
Exit verify_set(const SetRequest& request, Console& console, Json* json);

// Prints why a file or a set is invalid.
void print_invalid(Console& console, const std::string& path, const Error& error);

}  // namespace safetensors::cli
