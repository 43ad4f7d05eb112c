// The comparison of files with a manifest, for the subcommand verify.
#pragma once

#include "console.h"
#include "exit_code.h"
#include "json_output.h"

#include <safetensors/file.h>

#include <memory>
#include <span>
#include <string>

namespace safetensors::cli {

// The manifest that --manifest names.
class GivenManifest {
 public:
  // Reads and checks it. Errors: those of opening and reading the file, invalid_argument, unsupported.
  [[nodiscard]] static Result<GivenManifest> read(const std::string& path);

 private:
  friend class ManifestComparison;
  struct State;
  explicit GivenManifest(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// The comparison of the files of one path.
class ManifestComparison {
 public:
  // paths: of all files, in any order.
  ManifestComparison(GivenManifest manifest, std::span<const std::string> paths);

  // Compares a file through its open descriptor, which may be closed after the call. An error of `file` says why it
  // cannot be compared.
  void add(const std::string& path, const Result<File>& file, Console& console);
  // Prints a verdict per file, or adds the member "manifest" to the object of the path. whole: they are all files of a
  // model, so each file of the manifest must be there.
  Exit print(bool whole, bool quiet, Console& console, Json* json) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace safetensors::cli
