// Compares files with the names of their blobs in the cache of huggingface_hub, for the subcommand verify.
#pragma once

#include "console.h"
#include "json_output.h"

#include <safetensors/file.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace safetensors::cli {

// In this cache, `snapshots/REVISION/model.safetensors` is a symlink to `blobs/NAME`. NAME is the SHA-256 of a large
// file, as 64 hexadecimal digits, or the hash of git of a small file, as 40 digits.
class CacheComparison {
 public:
  // Returns the folders of the snapshots, if the path is a folder `models--...` of the cache, or a folder of these. Of
  // the latter, only snapshots with models. Otherwise returns the path.
  [[nodiscard]] static std::vector<std::string> snapshots(const std::string& path);

  // Reads all bytes of a file, and compares their SHA-256 with the name of its blob. If `file` is an error, it is the
  // reason why the file is not compared.
  void add(const std::string& path, const Result<File>& file, Console& console);
  // Prints a verdict per file, and the unfinished downloads beside the blobs. With `json`, adds the member "cache" to
  // the open object instead. Returns the worst exit code of the verdicts. A file without such a name and an unfinished
  // download are not errors.
  Exit print(bool quiet, Console& console, Json* json) const;

 private:
  struct Verdict {
    std::string path;
    std::string blob;                            // its name, or empty
    std::optional<bool> matches = std::nullopt;  // nothing: not compared
    std::string text;                            // the SHA-256, or the reason
    Exit code = Exit::good;
  };
  static void print_verdict(const Verdict& verdict, Console& console);

  std::vector<Verdict> verdicts_;
  std::set<std::string> blobs_;  // folders of the blobs
};

}  // namespace safetensors::cli
