#include "support/case_file.h"

#include <safetensors/error.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>

namespace cases {
namespace {

constexpr std::size_t kNone = std::string::npos;

struct Text {
  std::string bytes;
  std::size_t mark = kNone;
};

std::uint64_t number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error("no number: " + std::string(text));
  return value;
}

Text expand(std::string_view text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.bytes += text[i];
    } else if (text.substr(i, 2) == "%!") {
      if (out.mark != kNone) throw std::runtime_error("two marks");
      out.mark = out.bytes.size();
      ++i;
    } else if (text.substr(i, 2) == "%{") {
      const std::size_t star = text.find('*', i);
      const std::size_t end = text.find('}', i);
      if (star == kNone || end == kNone || star > end) throw std::runtime_error("%{ without * and }");
      const std::string part = expand(text.substr(star + 1, end - star - 1)).bytes;
      for (std::uint64_t n = number(text.substr(i + 2, star - i - 2)); n > 0; --n) out.bytes += part;
      i = end;
    } else {
      out.bytes += static_cast<char>(number(text.substr(i + 1, 2), 16));
      i += 2;
    }
  }
  return out;
}

// A string in double quotes at the start of text, which then begins behind it.
std::string quoted(std::string_view& text) {
  if (!text.starts_with('"')) throw std::runtime_error("no quote: " + std::string(text));
  const std::size_t end = text.find('"', 1);
  if (end == kNone) throw std::runtime_error("no closing quote");
  std::string out = expand(text.substr(1, end - 1)).bytes;
  text.remove_prefix(end + 1);
  return out;
}

std::string little_endian(std::uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

// Collects the lines of one case.
class Builder {
 public:
  explicit Builder(std::string name, std::string where) {
    case_.name = std::move(name);
    case_.where = std::move(where);
  }

  void line(std::string_view key, std::string_view value) {
    if (key == "why") return;
    if (key == "header")
      header_ = expand(value);
    else if (key == "length")
      length_ = number(value);
    else if (key == "file")
      file(value);
    else if (key == "data")
      case_.data_size = number(value);
    else if (key == "file_size")
      case_.file_size = number(value);
    else if (key == "options")
      options(value);
    else if (key == "expect")
      case_.code = value;
    else if (key == "at")
      at_ = value;
    else if (key == "tensor")
      tensor(value);
    else if (key == "metadata")
      metadata(value);
    else if (key == "message")
      case_.message = value;
    else
      throw std::runtime_error("unknown key " + std::string(key));
  }

  Case finish() {
    case_.has_header = header_.has_value();
    const std::string text = header_ ? header_->bytes : std::string();
    if (header_ || length_) case_.bytes = little_endian(length_.value_or(text.size())) + text;
    if (case_.code.empty()) throw std::runtime_error("no expect: in " + case_.name);
    const bool marked = header_ && header_->mark != kNone;
    if (case_.code == "ok" ? marked || !at_.empty() : marked != at_.empty()) {
      throw std::runtime_error("an error has one place: " + case_.name);
    }
    if (marked) case_.offset = 8 + header_->mark;
    if (at_.starts_with("data+"))
      case_.offset = case_.bytes.size() + number(std::string_view(at_).substr(5));
    else if (!at_.empty())
      case_.offset = number(at_);
    return std::move(case_);
  }

 private:
  void file(std::string_view hex) {
    std::istringstream in{std::string(hex)};
    for (std::string byte; in >> byte;) case_.bytes += static_cast<char>(number(byte, 16));
  }

  void options(std::string_view value) {
    constexpr std::string_view kLimit = "max_header_bytes=";
    constexpr std::string_view kAccept = "accept=";
    if (value == "allow_leading_whitespace")
      case_.options.allow_leading_whitespace = true;
    else if (value.starts_with(kAccept))
      accept(value.substr(kAccept.size()));
    else if (value.starts_with(kLimit))
      case_.options.max_header_bytes = number(value.substr(kLimit.size()));
    else
      throw std::runtime_error("unknown option " + std::string(value));
  }

  void accept(std::string_view list) {
    std::istringstream in{std::string(list)};
    for (std::string name; std::getline(in, name, ',');) {
      if (name != "all" && name != "unknown_dtypes" && name != "unused_bytes")
        throw std::runtime_error("unknown fault " + name);
      safetensors::Accept& accept = case_.options.accept;
      accept.unknown_dtypes = accept.unknown_dtypes || name == "all" || name == "unknown_dtypes";
      accept.unused_bytes = accept.unused_bytes || name == "all" || name == "unused_bytes";
    }
  }

  void tensor(std::string_view value) {
    Tensor tensor;
    tensor.name = quoted(value);
    std::istringstream in(expand(value).bytes);
    if (!(in >> tensor.dtype >> tensor.shape >> tensor.begin >> tensor.end)) throw std::runtime_error("bad tensor:");
    case_.tensors.push_back(std::move(tensor));
  }

  void metadata(std::string_view value) {
    case_.metadata.emplace();
    while (value.starts_with(' ') || value.starts_with('"')) {
      if (value.starts_with(' ')) value.remove_prefix(1);
      std::string key = quoted(value);
      if (!value.starts_with('=')) throw std::runtime_error("bad metadata:");
      value.remove_prefix(1);
      case_.metadata->emplace_back(std::move(key), quoted(value));
    }
  }

  Case case_;
  std::optional<Text> header_;
  std::optional<std::uint64_t> length_;
  std::string at_;
};

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void load_text(const std::filesystem::path& path, std::istream& in, std::vector<Case>& out) {
  std::optional<Builder> builder;
  int number_of_line = 0;
  for (std::string line; std::getline(in, line);) {
    ++number_of_line;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      if (builder) out.push_back(builder->finish());
      builder.emplace(line.substr(1, line.size() - 2), path.filename().string() + ":" + std::to_string(number_of_line));
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == kNone || !builder) throw std::runtime_error(path.string() + ": " + line);
    const std::size_t value = std::min(line.size(), colon + (line.substr(colon, 2) == ": " ? 2 : 1));
    builder->line(std::string_view(line).substr(0, colon), std::string_view(line).substr(value));
  }
  if (builder) out.push_back(builder->finish());
}

// The blocks of a document that are cases: those with a line `expect:`. In place of a name they have a number.
void load_document(const std::filesystem::path& path, std::vector<Case>& out) {
  constexpr std::string_view kOpen = "\n```text\n";
  const std::string document = contents(path);
  std::string text;
  int count = 0;
  for (std::size_t at = document.find(kOpen); at != kNone; at = document.find(kOpen, at)) {
    at += kOpen.size();
    const std::string block = document.substr(at, document.find("\n```", at) + 1 - at);
    if (block.find("\nexpect: ") != kNone) text += "[document_" + std::to_string(++count) + "]\n" + block + "\n";
  }
  std::istringstream in(text);
  load_text(path, in, out);
}

// case, code, offset, the reference's verdict, why it differs, message.
void load_verdicts(const std::filesystem::path& directory, std::vector<Case>& out) {
  std::istringstream in(contents(directory / "verdicts.tsv"));
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<std::string> field(1);
    for (const char c : line) {
      if (c == '\t')
        field.emplace_back();
      else
        field.back() += c;
    }
    if (field.size() != 6) throw std::runtime_error("verdicts.tsv: " + line);
    Case next;
    next.name = "conformance_" + field[0];
    next.where = "verdicts.tsv";
    next.bytes = contents(directory / "cases" / (field[0] + ".safetensors"));
    next.code = field[1];
    if (next.code != "ok") next.offset = number(field[2]);
    next.message = field[5];
    next.checks_content = false;
    out.push_back(std::move(next));
  }
}

}  // namespace

std::vector<Case> load_all(const std::string& data_directory) {
  std::vector<Case> out;
  const std::filesystem::path data(data_directory);
  for (const auto& entry : std::filesystem::directory_iterator(data / "cases")) {
    if (entry.path().extension() != ".txt") continue;
    std::istringstream in(contents(entry.path()));
    load_text(entry.path(), in, out);
  }
  load_document(data.parent_path().parent_path() / "docs" / "format.md", out);
  load_verdicts(data / "conformance", out);
  std::sort(out.begin(), out.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return out;
}

safetensors::Result<safetensors::Header> parse(const Case& c) {
  const auto bytes = std::as_bytes(std::span(c.bytes));
  const std::uint64_t file_size = c.file_size.value_or(c.bytes.size() + c.data_size);
  const auto length =
      safetensors::Header::length(bytes.first(std::min<std::size_t>(512, bytes.size())), file_size, c.options);
  if (!length) return length.error();
  if (c.file_size) return safetensors::Header();
  const std::string_view text = std::string_view(c.bytes).substr(8, *length);
  return safetensors::Header::parse(text, file_size - 8 - *length, c.options);
}

}  // namespace cases
