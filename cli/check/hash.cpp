// The subcommand hash: prints digests of files, of their data and of their tensors, and writes manifests. hash_file()
// of the component hash computes them. Without that component, the subcommand names the missing library.
#include "arguments.h"
#include "command.h"
#include "each_file.h"
#include "folders.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "progress.h"
#include "selection.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"

#include "os/command/signals.h"

#if defined(SAFETENSORS_HAVE_HASH)
#include <safetensors/hash.h>
#endif

#include <bit>

namespace safetensors::cli {
namespace {

constexpr const char kHashDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Prints one line per file: the
digest, two spaces and the path, as sha256sum and b3sum do, so that their option
--check reads it. Each byte is read once.)";

constexpr Option kHashTable[] = {
    {"--algorithm", "NAME", "the hash function (default sha256)", "sha256|blake3"},
    {"--of", "PART",
     "what to hash (default file). data: the bytes after the\n"
     "header, which metadata does not change. tensors: one\n"
     "line per tensor, with its name; --match and such\n"
     "choose these tensors",
     "file|data|tensors"},
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kLayersOption,
    {"--format", "FORMAT",
     "kohya: sshs_model_hash and sshs_legacy_hash, as\n"
     "sd-scripts stores them. modelspec:\n"
     "modelspec.hash_sha256. Their lines KEY=VALUE suit\n"
     "'safetensors meta set'.\n"
     "model-signing: the statement over all files of a\n"
     "folder that the PyPI package model-signing verifies\n"
     "once signed",
     "lines|kohya|modelspec|model-signing"},
    {"--manifest", nullptr,
     "write the digests of the files, their chunks and\n"
     "tensors to FILE.manifest.json, or to manifest.json in\n"
     "the folder of a model of several files. 'safetensors\n"
     "verify --manifest' and load(..., verify=...) in Python\n"
     "read it"},
    {"-o,--output", "OUT", "write the manifest to OUT", nullptr, Values::path},
    {"--chunk-bytes", "N",
     "size of a chunk: a power of two from 64KiB to 16MiB\n"
     "(default 1MiB). A chunk adds 71 bytes to the manifest"},
    {"-f,--force", nullptr, "replace a manifest that exists"},
    {"-n,--dry-run", nullptr,
     "with --manifest: say what would be written; read no\n"
     "data"},
    kRecursiveOption,
    kJsonOption,
};

constexpr const char* kHashExamples[] = {
    "safetensors hash model.safetensors",
    "safetensors hash llama-7b/ > SHA256SUMS",
    "safetensors hash model.safetensors --of tensors --algorithm blake3",
    "safetensors hash llama-7b/ --of tensors --layers 0-3 --exclude '*norm*'",
    "safetensors hash llama-7b/ --manifest",
};

#if defined(SAFETENSORS_HAVE_HASH)

enum class Part : unsigned char { file, data, tensors };

struct HashRequest {
  std::vector<std::string> paths;
  Selection selection;
  HashAlgorithm algorithm = HashAlgorithm::sha256;
  Part part = Part::file;
  std::string format = "lines";
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;
  std::optional<std::string> output;
  bool manifest = false;
  bool recursive = false;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

// The line of sha256sum: a backslash before the digest says that the path is escaped.
std::string digest_line(const Digest& digest, std::string_view path) {
  std::string shown;
  for (std::string_view rest = path;;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    shown += printable(line);
    if (line.size() == rest.size()) break;
    shown += "\\n";
    rest.remove_prefix(line.size() + 1);
  }
  return formatted("{}{}  {}\n", shown == path ? "" : "\\", to_hex(digest), shown);
}

// Calls show(name, digest) for each tensor of the selection.
template <class Show>
void each_tensor(const Selection& selection, const File& file, const FileHashes& hashes, const Show& show) {
  std::size_t index = 0;
  for (const TensorInfo& tensor : file.header().tensors()) {
    if (selection.selects(tensor)) show(tensor.name, to_hex(hashes.tensors[index++]));
  }
}

void print_file_json(Json& json, const HashRequest& request, const std::string& path, const File& file,
                     const FileHashes& hashes) {
  json.line().open('{').field("path", path).field("file_bytes", file.header().file_bytes());
  json.field("data_start", file.header().data_start()).field("header", to_hex(hashes.header));
  if (hashes.file) json.field("file", to_hex(*hashes.file));
  if (hashes.data) json.field("data", to_hex(*hashes.data));
  if (!hashes.tensors.empty()) {
    json.line().key("tensors").open('[');
    each_tensor(request.selection, file, hashes, [&](std::string_view name, const std::string& digest) {
      json.line().open('{').field("name", name).field("digest", digest).close('}');
    });
    json.close(']');
  }
  json.close('}');
}

// The digests of one file.
Status hash_one(const HashRequest& request, const std::string& path, const File& file, Console& console, Json* json) {
  HashOptions options{.algorithm = request.algorithm,
                      .file = request.part == Part::file,
                      .data = request.part == Part::data,
                      .tensors = request.part == Part::tensors,
                      .progress = shown_progress(console)};
  if (!request.selection.empty())
    options.select = [&](const TensorInfo& tensor) { return request.selection.selects(tensor); };
  const Result<FileHashes> hashes = hash_file(file, options);
  if (!hashes) return hashes.error();
  if (json != nullptr) {
    print_file_json(*json, request, path, file, *hashes);
  } else if (request.part == Part::tensors) {
    each_tensor(request.selection, file, *hashes, [&](std::string_view name, const std::string& digest) {
      console.out(formatted("{}  {}\n", digest, printable(name)));
    });
  } else {
    console.out(digest_line(hashes->file ? *hashes->file : *hashes->data, path));
  }
  return {};
}

// The hashes that programs store in the metadata.
Status hash_model(const HashRequest& request, const std::string& path, const File& file, Console& console, Json* json) {
  const Result<ModelHashes> hashes = model_hashes(file, {.progress = shown_progress(console)});
  if (!hashes) return hashes.error();
  std::vector<std::pair<const char*, std::string>> pairs;
  if (request.format == "kohya") {
    pairs = {{"sshs_model_hash", hashes->model}, {"sshs_legacy_hash", hashes->legacy}};
  } else {
    pairs = {{"modelspec.hash_sha256", "0x" + hashes->model}};
  }
  if (json != nullptr) json->line().open('{').field("path", path);
  for (const auto& [key, value] : pairs) {
    if (json != nullptr) json->field(key, value);
    if (json == nullptr) console.out(formatted("{}={}\n", key, value));
  }
  if (json != nullptr) json->close('}');
  return {};
}

Exit hash_path(const HashRequest& request, const std::string& path, Console& console, Json* json) {
  const auto fail = [&](const Error& error) {
    if (json != nullptr) json_input_error(*json, path, error);
    return input_error(path, error, console);
  };
  const Result<Input> input = Input::open(path, console, {}, PipeData::keep, Access::automatic);
  if (!input) return fail(input.error());
  if (const auto nothing = nothing_chosen(request.selection, *input)) return fail(*nothing);
  if (json != nullptr) json->field("algorithm", to_string(request.algorithm)).line().key("files").open('[');
  Status status;
  for (std::size_t i = 0; status && i < input->files().size(); ++i) {
    const File& file = input->files()[i];
    const std::string shown = path == kStandardInput ? path : file.path();
    const bool titled = json == nullptr && (input->files().size() > 1 || request.paths.size() > 1);
    if (titled && (request.part == Part::tensors || request.format != "lines"))
      console.heading(printable(request.paths.size() > 1 ? shown : input->file_name(i)) + ":");
    status = request.format == "lines" ? hash_one(request, shown, file, console, json)
                                       : hash_model(request, shown, file, console, json);
  }
  if (json != nullptr) json->close(']');
  if (status) return Exit::good;
  if (Interrupt::caught()) return Exit::good;  // the destructor of Interrupt ends the process
  return fail(status.error());
}

// The sidecar of a file is beside it, the one of several files is in their folder.
std::string manifest_path(const HashRequest& request, const Input& input) {
  if (request.output) return *request.output;
  const std::string& first = input.files()[0].path();
  if (input.files().size() == 1) return first + ".manifest.json";
  return first.substr(0, first.size() - input.file_name(0).size()) + "manifest.json";
}

Result<std::string> manifest_text(const HashRequest& request, const Input& input, Console& console) {
  const ManifestOptions options{
      .algorithm = request.algorithm, .chunk_bytes = request.chunk_bytes, .progress = shown_progress(console)};
  const Result<Manifest> manifest = Manifest::make(input.files(), options);
  if (!manifest) return manifest.error();
  return manifest->text();
}

Status write_manifest(const HashRequest& request, const Input& input, const std::string& path, Console& console) {
  const auto named = [&](const Status& status) {
    Error error = status.error();
    if (error.path.empty()) error.path = path;
    return error;
  };
  if (Status status = NewFile::check(path, request.force); !status) return named(status);
  if (Status status = check_output_apart(path, request.paths[0], input); !status) return named(status);
  if (request.dry_run) return {};
  const Result<std::string> text = manifest_text(request, input, console);
  if (!text) return text.error();
  if (text->size() > kMaxManifestBytes)
    return named(
        Error{.code = Errc::invalid_argument, .path = {}, .message = "would be over 256 MiB: use larger chunks"});
  Result<NewFile> file = NewFile::create(path, request.force);
  if (!file) return named(file.error());
  Status status = file->write(*text);
  if (status) status = file->commit();
  return status ? status : Status(named(status));
}

Exit make_manifest(const HashRequest& request, Console& console) {
  const std::string& path = request.paths[0];
  const Interrupt interrupt;
  const Result<Input> input = Input::open(path, console);
  Status status = input ? Status() : Status(input.error());
  if (status && (path == kStandardInput || input->files().empty()))
    status = Error{.code = Errc::invalid_argument, .path = {}, .message = "a manifest needs files with names"};
  const std::string output = status ? manifest_path(request, *input) : "";
  if (status) status = write_manifest(request, *input, output, console);
  if (!status && Interrupt::caught()) return Exit::good;
  if (request.json) {
    Json json(console, "hash");
    json.field("path", path).field("algorithm", to_string(request.algorithm)).field("chunk_bytes", request.chunk_bytes);
    json.field("dry_run", request.dry_run);
    if (status) json.field("manifest", output).field("file_count", std::uint64_t{input->files().size()});
    if (!status) json_input_error(json, path, status.error());
    json.finish();
  } else if (status) {
    console.out(formatted("{}{}: {}\n", request.dry_run ? "would write " : "", printable(output),
                          counted(input->files().size(), "file")));
  }
  return status ? Exit::good : input_error(path, status.error(), console);
}

// The statement of model-signing, which covers all files of a folder.
Exit print_statement(const HashRequest& request, Console& console) {
  const std::string& path = request.paths[0];
  const Interrupt interrupt;
  const Result<std::string> text = model_signing_statement(path, {.progress = shown_progress(console)});
  if (text) {
    // The names are of any files: the escapes of JSON keep them from the terminal, and do not change the statement.
    console.out(visible(*text));
    return Exit::good;
  }
  return Interrupt::caught() ? Exit::good : input_error(path, text.error(), console);
}

// Returns nullopt, or the text of an error.
std::optional<std::string> check_choices(HashRequest& request, const std::string& algorithm, const std::string& part) {
  request.algorithm = hash_algorithm(algorithm).value_or(HashAlgorithm::sha256);
  request.part = part == "file" ? Part::file : part == "data" ? Part::data : Part::tensors;
  if (request.format == "model-signing" && (request.paths.size() != 1 || request.json))
    return "--format model-signing takes one PATH, and prints JSON without --json";
  if (request.format != "lines" && request.algorithm != HashAlgorithm::sha256)
    return formatted("--format {} is SHA-256 only", request.format);
  if (!std::has_single_bit(request.chunk_bytes) || request.chunk_bytes < 65536 || request.chunk_bytes > (16U << 20))
    return "--chunk-bytes is a power of two from 64KiB to 16MiB";
  return std::nullopt;
}

// Returns nullopt, or the text of an error.
std::optional<std::string> parse(std::span<const std::string> given, HashRequest& request) {
  std::optional<std::string> algorithm;
  std::optional<std::string> part;
  std::optional<std::string> format;
  std::optional<std::string> chunk_bytes;
  Arguments arguments(kHash);
  arguments.positionals(request.paths);
  request.selection.bind(arguments);
  arguments.value("algorithm", algorithm);
  arguments.value("of", part);
  arguments.value("format", format);
  arguments.flag("manifest", request.manifest);
  arguments.value("output", request.output);
  arguments.value("chunk-bytes", chunk_bytes);
  arguments.flag("force", request.force);
  arguments.flag("dry-run", request.dry_run);
  arguments.flag("recursive", request.recursive);
  arguments.flag("json", request.json);
  if (auto wrong = arguments.parse(given)) return wrong;
  if (auto wrong = request.selection.take()) return wrong;
  if (request.paths.empty()) return "which PATH?";
  if (!request.manifest && (request.output || chunk_bytes || request.force || request.dry_run))
    return "--output, --chunk-bytes, --force and --dry-run go with --manifest";
  if (request.manifest && (part || format)) return "--manifest holds all digests: --of and --format do not go with it";
  if (request.recursive && (request.manifest || format.value_or("") == "model-signing"))
    return "--recursive does not go with --manifest and --format model-signing";
  if (request.manifest && request.paths.size() != 1) return "--manifest takes one PATH";
  if (request.output && request.output->empty()) return "OUT is empty: write the manifest where?";
  if (!request.selection.empty() && part != "tensors")
    return "options that choose tensors go with --of tensors: other digests are for all bytes";
  if (part && format) return "--of does not go with --format";
  if (format) request.format = *format;
  request.chunk_bytes = parse_size(chunk_bytes.value_or("1MiB")).value_or(0);
  return check_choices(request, algorithm.value_or("sha256"), part.value_or("file"));
}

Exit run_hash(std::span<const std::string> given, Console& console) {
  HashRequest request;
  if (const auto wrong = parse(given, request)) return console.usage("hash", *wrong);
  // BLAKE3 maps parts of a file under a lease, which keeps other programs from making it shorter. But the system ends
  // the lease of a process that is stopped for 45 seconds, so access to the map may raise SIGBUS after that.
  os::end_on_bus_error("safetensors hash: a file became shorter while it was read\n", static_cast<int>(Exit::system));
  if (hash_library(request.algorithm).empty()) {
    console.message(formatted("hash: this build has no {}: build it with the BLAKE3 C library, or use sha256",
                              to_string(request.algorithm)));
    return Exit::system;
  }
  if (request.manifest) return make_manifest(request, console);
  if (request.format == "model-signing") return print_statement(request, console);
  request.paths = expand_folders(request.paths, request.recursive);
  const Interrupt interrupt;
  return for_each_file(
      "hash", request.paths, request.json, console,
      [&](const std::string& path, Json* json) { return hash_path(request, path, console, json); }, "paths");
}

#else

Exit run_hash(std::span<const std::string>, Console& console) {
  console.message("hash: this build has no hash functions: build it with OpenSSL 3 (Debian: libssl-dev)");
  return Exit::system;
}

#endif

}  // namespace

const Command kHash = {
    .name = "hash",
    .summary = "print digests of files and tensors, or write a manifest",
    .title = "Print digests of files, data and tensors, or write a manifest of them.",
    .usage =
        "safetensors hash PATH... [--algorithm NAME] [--of PART] [--format FORMAT]\n"
        "                 [--recursive] [--json]\n"
        "safetensors hash PATH... --of tensors [--match GLOB]...\n"
        "                 [--exclude GLOB]... [--dtype LIST]\n"
        "                 [--layers LIST]\n"
        "                 [--algorithm NAME] [--json]\n"
        "safetensors hash PATH --manifest [--algorithm NAME] [--chunk-bytes N]\n"
        "                 [--output OUT] [--force] [--dry-run] [--json]",
    .description = kHashDescription,
    .options = kHashTable,
    .examples = kHashExamples,
    .exits =
        "0 done; 1 a file is invalid, nothing matches, or the manifest exists;\n"
        "2 usage; 3 a file cannot be read or written, or this build has no such\n"
        "hash function",
    .run = run_hash,
};

}  // namespace safetensors::cli
