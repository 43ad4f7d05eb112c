// The subcommand hash: prints SHA-256 of files and tensors in the form of sha256sum, and reads it back. Digests that
// are wanted together are computed by several threads: each takes a file or a tensor, because one SHA-256 is
// sequential.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "folders.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "sha256.h"
#include "text/text.h"
#include "values/numbers.h"

#include "base/error.h"
#include "format/checkpoint/model_names.h"
#include "os/file_status.h"
#include "os/regular_file.h"

#include <algorithm>
#include <optional>

namespace safetensors::cli {
namespace {

constexpr Option kHashTable[] = {
    {"--tensors", nullptr, "print one line per tensor: its digest and PATH:NAME"},
    {"--check", nullptr, "read digests and names of files or tensors from each FILE, and compare them with the files"},
    kJsonOption,
};

// One line: a file, or a tensor of a file.
struct Item {
  std::string name;  // PATH, or PATH:TENSOR with the name of the tensor as all commands show it
  std::string path = name;
  std::optional<std::string> tensor = std::nullopt;
  std::optional<File> file = std::nullopt;  // of the tensor
  std::uint64_t begin = 0;                  // offset of the first byte in the file
  std::uint64_t end = 0;                    // end of the range [begin, end)
  std::optional<std::string> expected = std::nullopt;
  std::string digest = {};
  std::optional<Error> error = std::nullopt;

  [[nodiscard]] bool matches() const { return !error && digest == expected; }
};

// sha256sum escapes these in a name, and writes a backslash before the line then.
std::string escaped_line(std::string_view name, std::string_view before, std::string_view after, const char* special) {
  std::string line(name.find_first_of(special) == std::string_view::npos ? "" : "\\");
  const bool plain = line.empty();
  line += before;
  for (const char c : name) {
    const char* const escape = plain ? nullptr : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : nullptr;
    escape != nullptr ? line += escape : line += c;
  }
  return line.append(after) + '\n';
}

// Reads a line of sha256sum, with or without its option --tag. Returns nullopt if it is something else.
std::optional<Item> parse_line(std::string_view line) {
  constexpr std::size_t kDigits = 64;
  constexpr std::string_view kTag = "SHA256 (";
  const bool escaped = line.starts_with('\\');
  line.remove_prefix(escaped ? 1 : 0);
  std::string_view digest = line.substr(0, kDigits);
  std::string_view name = line.substr(std::min(line.size(), kDigits + 2));
  if (const std::size_t end = line.rfind(") = "); line.starts_with(kTag) && end != std::string_view::npos) {
    digest = line.substr(end + 4);
    name = line.substr(0, end).substr(kTag.size());
  } else if (!line.substr(digest.size()).starts_with("  ") && !line.substr(digest.size()).starts_with(" *")) {
    return std::nullopt;
  }
  Item item{.name = {}, .expected = std::string(digest)};
  for (char& c : *item.expected) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool hex = item.expected->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (digest.size() != kDigits || !hex || name.empty()) return std::nullopt;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!escaped || name[i] != '\\') {
      item.name += name[i];
      continue;
    }
    const char c = ++i < name.size() ? name[i] : '\0';
    if (c != '\\' && c != 'n' && c != 'r') return std::nullopt;
    item.name += c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  item.path = item.name;
  return item;
}

// Reads standard input to its end, in pieces.
Status read_whole_input(const std::function<Status(std::span<const std::byte> bytes)>& take) {
  std::vector<std::byte> buffer(std::size_t{128} << 10);
  for (;;) {
    const Result<std::size_t> got = read_standard_input(buffer);
    if (!got) return got.error();
    if (*got == 0) return {};
    if (Status status = take(std::span(buffer).first(*got)); !status) return status;
  }
}

// Collects the items whose digests are computed together, and prints them. The calling thread shows the progress.
class Hashing {
 public:
  Hashing(bool check, Console& console, Json* json) : check_(check), console_(console), json_(json) {}

  void add(Item item) { items_.push_back(std::move(item)); }
  // An item of a whole file.
  void add_file(Item item) {
    os::FileStatus status;
    if (os::status_of_path(item.path.c_str(), os::Symlinks::follow, status) == 0) item.end = status.identity.size;
    add(std::move(item));
  }
  // Computes and prints what was added.
  void flush() {
    std::uint64_t total = 0;
    for (const Item& item : items_) total += item.end - item.begin;
    (void)run_tasks(items_.size(), total, console_, [this](std::size_t index, const Done& done) {
      Item& item = items_[index];
      if (!item.error) {  // a digest that fails does not stop the others
        const Result<std::string> digest = base::guarded([&] { return digest_of(item, done); });
        if (digest) item.digest = *digest;
        if (!digest) item.error = digest.error();
      }
      return done(0) ? Status() : Status(Interrupt::error());
    });
    for (const Item& item : items_) {
      json_ != nullptr ? print_json(item) : print(item);
      if (item.error) note(input_error(item.path, *item.error, console_));
      if (!item.error && check_ && !item.matches()) note(Exit::negative);
    }
    items_.clear();
  }
  void note(Exit code) { code_ = std::max(code_, code); }
  [[nodiscard]] Exit code() const { return code_; }

 private:
  static Result<std::string> digest_of(Item& item, const Done& done) {
    if (item.file) return sha256_of(item.file->source(), item.begin, item.end, done);
    if (item.path == kStandardInput) {
      Sha256 hash;
      item.end = 0;
      const Status status = read_whole_input([&](std::span<const std::byte> bytes) {
        hash.update(bytes);
        item.end += bytes.size();
        return done(0) ? Status() : Status(Interrupt::error());
      });
      return status ? hash.finish() : Result<std::string>(status.error());
    }
    const auto file = os::RegularFile::open(item.path);
    if (!file) return file.error();
    item.end = (*file)->identity().size;
    return sha256_of(**file, 0, item.end, done);
  }
  void print(const Item& item) {
    if (item.error && !check_) return;
    std::string line;
    if (check_) {
      const bool unread = item.error && exit_of(*item.error) == Exit::system;
      const std::string verdict = item.matches() ? console_.green("OK") : console_.red("FAILED");
      line = escaped_line(console_.out_is_terminal() ? visible(item.name) : item.name, "",
                          ": " + verdict + (unread ? " open or read" : ""), "\n");
    } else {
      line = escaped_line(item.name, item.digest + "  ", "", "\\\n\r");
    }
    console_.out(console_.out_is_terminal() && !check_ ? visible(line) : line);
  }
  void print_json(const Item& item) {
    json_->line().open('{').field("path", item.path);
    if (item.tensor) json_->field("tensor", *item.tensor);
    if (!item.error) json_->field("nbytes", item.end - item.begin).field("sha256", item.digest);
    if (check_) json_->field("expected", *item.expected).field("matches", item.matches());
    if (item.error) json_input_error(*json_, item.path, *item.error);
    json_->close('}');
  }

  const bool check_;
  Console& console_;
  Json* json_;
  std::vector<Item> items_;
  Exit code_ = Exit::good;
};

bool is_file(const std::string& path) {
  os::FileStatus status;
  return os::status_of_path(path.c_str(), os::Symlinks::follow, status) == 0 && !status.is_directory();
}

Item tensor_item(const File& file, const std::string& path, const TensorInfo& tensor) {
  return {.name = path + ':' + printable(tensor.name),
          .path = path,
          .tensor = std::string(tensor.name),
          .file = file,
          .begin = tensor.file_offset,
          .end = tensor.file_offset + tensor.nbytes()};
}

void hash_tensors(const std::string& path, Console& console, Hashing& hashing) {
  const Result<Input> input = Input::open(path, console, {}, PipeData::keep);
  if (!input) return hashing.add({.name = path, .error = input.error()});
  for (const Listed& listed : input->tensors()) {
    const File& file = input->files()[listed.file];
    hashing.add(tensor_item(file, path == kStandardInput ? path : file.path(), *listed.info));
  }
  hashing.flush();
}

void hash_files(const std::string& path, Hashing& hashing) {
  if (path == kStandardInput || (is_file(path) && !format::is_index_name(path)))
    return hashing.add_file({.name = path});
  const Result<std::vector<std::string>> files = Checkpoint::find_files(path);
  if (!files) return hashing.add({.name = path, .error = explain_folder(files.error(), path)});
  for (const std::string& file : *files) hashing.add_file({.name = file});
}

struct Opened {
  std::string path;
  Result<Input> input;
};

// Adds the file or the tensor that a line of a list names. PATH:TENSOR names a tensor if no file has this whole name.
// last: the input that the line before it opened.
void add_named(Item item, std::optional<Opened>& last, Console& console, Hashing& hashing) {
  std::size_t colon = item.name.find(':');
  if (is_file(item.name)) colon = std::string::npos;
  while (colon != std::string::npos && !is_file(item.name.substr(0, colon))) colon = item.name.find(':', colon + 1);
  if (colon == std::string::npos) return hashing.add_file(std::move(item));
  item.path = item.name.substr(0, colon);
  if (!last || last->path != item.path) {
    hashing.flush();  // keeps few files open
    last = Opened{item.path, Input::open(item.path, console)};
  }
  const Result<Input>& input = last->input;
  const Result<Listed> found = input ? input->find(item.name.substr(colon + 1)) : Result<Listed>(input.error());
  if (!found) {
    item.error = found.error();
    return hashing.add(std::move(item));
  }
  Item resolved = tensor_item(input->files()[found->file], item.path, *found->info);
  resolved.expected = std::move(item.expected);
  hashing.add(std::move(resolved));
}

Result<std::string> read_list(const std::string& path) {
  if (path != kStandardInput) return read_text(path, "digests");
  std::string text;
  const Status status = read_whole_input([&](std::span<const std::byte> bytes) -> Status {
    text += as_text(bytes);
    if (text.size() <= kMaxText) return {};
    return fault(Errc::invalid_argument, "more than 256 MiB of digests", path);
  });
  return status ? Result<std::string>(std::move(text)) : status.error();
}

// Compares the files of one list. Only the first line that is something else gets a message.
void check_list(const std::string& path, Console& console, Hashing& hashing) {
  const Result<std::string> text = read_list(path);
  if (!text) return hashing.note(input_error(path, text.error(), console));
  std::optional<Opened> last;
  std::size_t valid = 0;
  std::optional<std::size_t> wrong;
  std::string_view rest = *text;
  for (std::size_t number = 1; const std::optional<std::string_view> line = take_line(rest); ++number) {
    if (line->empty() || line->starts_with('#')) continue;
    std::optional<Item> item = parse_line(*line);
    if (!item && !wrong) wrong = number;
    if (!item) continue;
    ++valid;
    add_named(*std::move(item), last, console, hashing);
  }
  hashing.flush();
  if (valid > 0 && !wrong) return;
  const std::string what = wrong ? formatted("line {}: expected a SHA-256, two spaces and a name", *wrong)
                                 : "no line has a SHA-256 and a name";
  hashing.note(input_error(path, fault(Errc::invalid_argument, what, path), console));
}

Exit run_hash(const Arguments& given, Console& console) {
  given.need_path();
  const std::vector<std::string>& paths = given.positionals;
  const bool tensors = given.has("tensors");
  const bool check = given.has("check");
  if (tensors && check) throw UsageError("--tensors does not go with --check: FILE names the tensors");
  if (sha256_library() == "none") return console.error("hash", sha256_missing());
  const Sha256 started;  // starts OpenSSL before threads take memory: it crashes if memory ends while it starts
  std::optional<Json> json;
  if (given.json()) json.emplace(console, "hash").key("digests").open('[');
  Hashing hashing(check, console, json ? &*json : nullptr);
  for (const std::string& path : check ? paths : expand_folders(paths, false)) {
    if (check) {
      check_list(path, console, hashing);
    } else {
      if (!tensors) notice_beside(path, console);
      tensors ? hash_tensors(path, console, hashing) : hash_files(path, hashing);
    }
  }
  hashing.flush();
  if (json) {
    json->close(']');
    json->finish();
  }
  return hashing.code();
}

}  // namespace

const Command kHash = {
    .name = "hash",
    .summary = "print SHA-256 of files and tensors, or check them",
    .title = "Print SHA-256 of files and tensors in the form of sha256sum, or check them.",
    .usage = "PATH... [--tensors] [--json]\n--check FILE... [--json]",
    .description = R"(PATH is any file, a folder or an index of a model of several files, a pattern in quotes, or -
for standard input. Prints one line per file as sha256sum does: its digest, two spaces and its path. 'sha256sum
--check' reads these lines, and --check reads those of sha256sum. Files are hashed in parallel.)",
    .options = kHashTable,
    .examples = R"(safetensors hash llama-7b/ > SHA256SUMS
safetensors hash --check SHA256SUMS
safetensors hash model.safetensors --tensors)",
    .exits =
        "0 done, and all digests match; 1 a digest differs, a file is invalid, or a tensor is missing; 2 usage; 3 a "
        "file cannot be read, or this build has no SHA-256",
    .run = run_hash,
};

}  // namespace safetensors::cli
