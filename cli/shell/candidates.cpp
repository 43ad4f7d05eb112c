// The hidden verb __complete, which the completion scripts run. It prints the candidates for a value, one per line.
// Names come from strangers, so candidates have no control characters and no invisible ones: a line is always one
// candidate. The scripts quote the candidates.
//
// The scripts pass the words of the command line as they are, still quoted. This program unquotes them, because a shell
// that does so would evaluate them.
#include "shells.h"

#include "input.h"
#include "text/formatted.h"
#include "text/natural_order.h"

#include "format/dtype/cast.h"
#include "os/file_status.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <utility>

namespace safetensors::cli {
namespace {

// Removes the quotes of a shell from a word. A quote that is still open ends with the word.
std::string unquoted(std::string_view word) {
  std::string text;
  char quote = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && i + 1 < word.size()) {
      text += word[++i];
    } else {
      text += c;
    }
  }
  const char* const home = std::getenv("HOME");
  if (word.starts_with("~/") && home != nullptr) text.replace(0, 1, home);
  return text;
}

bool exists(const std::string& path) {
  os::FileStatus status;
  return !path.empty() && os::status_of_path(path.c_str(), os::Symlinks::follow, status) == 0;
}

// Returns the model on the command line: the first word that is an existing path, as it is or without its quotes.
std::optional<std::string> model_of(std::span<const std::string> words) {
  for (const std::string& word : words) {
    if (word.starts_with('-')) continue;
    for (std::string path : {word, unquoted(word)}) {
      if (exists(path)) return path;
    }
  }
  return std::nullopt;
}

// Returns a pattern that matches the name. ? stands for each control character and each invisible one.
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (std::size_t begin = 0; begin < name.size();) {
    std::size_t end = begin + 1;
    while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) ++end;
    const std::string_view character = name.substr(begin, end - begin);
    if (character != "\\" && printable(character) != character) {
      pattern += '?';
    } else {
      if (std::string_view("*?[\\").find(character[0]) != std::string_view::npos) pattern += '\\';
      pattern += character;
    }
    begin = end;
  }
  return pattern;
}

bool has_lower_case(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

void to_lower_case(std::string& text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

using Candidates = std::vector<std::string>;

Candidates names(const Input& input) {
  Candidates list;
  for (const TensorInfo* tensor : infos(input)) list.push_back(printable(tensor->name));
  return list;
}

Candidates patterns(const Input& input) {
  Candidates list;
  for (const TensorInfo* tensor : infos(input)) list.push_back(pattern_of(tensor->name));
  return list;
}

Candidates keys(const Input& input) {
  Candidates list;
  for (const File& file : input.files()) {
    for (const auto& [key, value] : file.metadata()) list.push_back(printable(key));
  }
  return list;
}

Candidates dtypes(const Input& input) {
  Candidates list;
  for (const TensorInfo* tensor : infos(input)) list.emplace_back(to_string(tensor->dtype));
  return list;
}

Candidates all_dtype_names() {
  Candidates list;
  for (const Dtype dtype : all_dtypes()) list.emplace_back(to_string(dtype));
  return list;
}

// The dtypes that floats or integers are cast to.
Candidates cast_dtypes() {
  Candidates list;
  for (const Dtype dtype : all_dtypes()) {
    if (format::castable(Dtype::F32, dtype) || format::castable(Dtype::I64, dtype)) list.emplace_back(to_string(dtype));
  }
  return list;
}

constexpr std::pair<std::string_view, Candidates (*)(const Input&)> kOfModel[] = {
    {"names", names}, {"patterns", patterns}, {"keys", keys}, {"dtypes", dtypes}};

Candidates find_candidates(std::string_view kind, std::span<const std::string> words, Console& console) {
  if (kind == "casts") return cast_dtypes();
  const auto* const found = std::ranges::find(kOfModel, kind, [](const auto& one) { return one.first; });
  const auto model = model_of(words);
  if (found == std::end(kOfModel) || !model) return kind == "dtypes" ? all_dtype_names() : Candidates();
  const Result<Input> input = Input::open(*model, console, {}, PipeData::part);
  return input ? found->second(*input) : Candidates();
}

}  // namespace

// given: the kind of candidates, the word to complete, and the words of the command line.
Exit run_complete(std::span<const std::string> given, Console& console) {
  if (given.size() < 2) return Exit::usage;
  std::string_view word = given[1];
  if (word.starts_with("--")) word.remove_prefix(std::min(word.find('=') + 1, word.size()));
  const std::string typed = unquoted(word);
  // --dtype takes a list: the last part is completed.
  const std::size_t list = given[0] == "dtypes" ? typed.rfind(',') + 1 : 0;
  Candidates candidates = find_candidates(given[0], given.subspan(2), console);
  if ((given[0] == "dtypes" || given[0] == "casts") && has_lower_case(std::string_view(typed).substr(list)))
    std::ranges::for_each(candidates, to_lower_case);
  std::ranges::sort(candidates, natural_less);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const std::string& candidate : candidates) {
    if (!candidate.empty() && candidate.starts_with(std::string_view(typed).substr(list)))
      console.out(formatted("{}{}\n", list == 0 ? "" : printable(typed.substr(0, list)), candidate));
  }
  return Exit::good;
}

const char* candidate_kind(Values values) {
  switch (values) {
    case Values::tensor:
      return "names";
    case Values::pattern:
      return "patterns";
    case Values::key:
      return "keys";
    case Values::dtypes:
      return "dtypes";
    case Values::cast:
      return "casts";
    default:
      return nullptr;
  }
}

}  // namespace safetensors::cli
