// The common parts of the verbs of the form VERB IN OUT: their arguments, the checks of OUT, the dry run, the write,
// and the output. Each verb only chooses and changes the tensors, and the layout.
#pragma once

#include "arguments.h"
#include "console.h"
#include "input.h"
#include "json_output.h"
#include "selection.h"

#include "write/rewrite.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace safetensors::cli {

// The kind of OUT. as_input: a file if IN is a file or if the name of OUT ends in .safetensors, otherwise a folder.
enum class OutputKind : unsigned char { as_input, file, folder };

// The options of all verbs that write a file or a model.
inline constexpr Option kWriteOptions[] = {
    {"--metadata", "WHICH",
     "if two files have different values for a key:\n"
     "same   an error (default)\n"
     "first  take the value of the first file\n"
     "last   take the value of the last file\n"
     "none   write no metadata at all",
     "same|first|last|none"},
    {"--durability", "D",
     "after a power cut there is\n"
     "full  the new file (default)\n"
     "file  the old file or the new one\n"
     "none  no guarantee: the bytes reach the disk later",
     "full|file|none"},
    {"-f,--force", nullptr, "replace OUT; a folder OUT keeps its other files"},
    {"-n,--dry-run", nullptr, "show what would be written, write nothing"},
    kJsonOption,
};
// And those of the verbs whose OUT may be a folder.
inline constexpr Option kModelOptions[] = {
    {"-o,--output", "OUT", "OUT, instead of the argument", nullptr, Values::path},
    {"--max-shard-size", "SIZE",
     "maximum size of the tensors in one file: 5GB is 5,000,000,000 bytes, 5GiB is 5,368,709,120"},
    {"--name", "STEM", "the beginning of the names of the files in a folder (by default that of IN, or model)"},
    {"--weights-only", nullptr, "if OUT is a folder: copy no other files, such as config.json and tokenizer.json"},
};

// The files beside a model that belong to it, such as config.json and tokenizer.json.
struct SideFile {
  std::string name;
  std::string path;  // of the regular file
};

struct SideFiles {
  std::vector<SideFile> files;       // sorted by name
  std::vector<std::string> refused;  // names of symlinks that lead out of the folder, or to no regular file, sorted
};

struct RewriteRequest {
  // max_inputs: the number of IN that the verb takes. If it is more than one, only --output gives OUT. Arguments after
  // OUT are in `rest`, if the verb takes any. Throws UsageError.
  RewriteRequest(const Command& command, const Arguments& given, std::size_t max_inputs, bool takes_rest = false);

  const char* verb;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<std::string> rest;
  OutputKind kind = OutputKind::as_input;
  ParseOptions parse = {};
  RewriteOptions options = {};

  // Chooses and changes the tensors of the input. May be null. Errors have no path, or that of another file than IN.
  std::function<Status(const Input& input, std::vector<RewriteTensor>& tensors)> change = nullptr;
  // Shows the list of this verb: the lines, or with `json` a member. report: null in a dry run. May be null.
  std::function<void(Console& console, Json* json, const RewriteReport* report)> show = nullptr;

  // Whether --force is given.
  [[nodiscard]] bool force() const { return given_.has("force"); }

  // Opens IN, makes the plan, checks OUT, writes, and prints.
  Exit run(Console& console);

 private:
  // Decides whether OUT is a folder. Throws UsageError if an option needs a folder, and OUT is a file.
  void choose_kind(const Input& input);
  [[nodiscard]] Result<Rewrite> plan(const Input& input);
  [[nodiscard]] Result<RewriteReport> write(const Rewrite& rewrite, Console& console) const;
  // Finds the files beside IN. Also checks that they can be copied, unless --weights-only is given.
  [[nodiscard]] Status look_at_side_files(const Input& input);
  void show_side_files(Console& console, Json* json) const;
  static void show_files(Console& console, Json* json, const Rewrite& rewrite, const RewriteReport* report);
  void print(Console& console, const Rewrite& rewrite, const RewriteReport* report) const;
  // The beginning of the JSON document.
  [[nodiscard]] Json document(Console& console, bool written) const;
  // written: whether the model is already written.
  Exit fail(const std::string& path, const Error& error, Console& console, bool written = false) const;

  const Arguments& given_;
  SideFiles side_files_;
  bool choices_;  // whether the verb has --match
};

// The tensors that are selected. Error: not_found, if a pattern matches no tensor, or if no tensor is selected.
[[nodiscard]] Result<std::vector<bool>> select_tensors(const std::vector<RewriteTensor>& tensors,
                                                       const Selection& selection);

}  // namespace safetensors::cli
