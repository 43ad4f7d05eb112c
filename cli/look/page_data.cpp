// Writes the page. Names and metadata come from strangers. They are only in the JSON
// document, where PageWriter::string() escapes each `<`, so that no text can end the document. The script
// shows them only as text, and the Content-Security-Policy allows only this script and this style.
#include "page_data.h"

#include "page.h"
#include "text/escape.h"
#include "text/formatted.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::cli {
namespace {

// Writes the files. Returns the offset of each file in the bytes of all files.
std::vector<std::uint64_t> write_page_files(PageWriter& page, const Input& input) {
  std::vector<std::uint64_t> begins;
  std::uint64_t begin = 0;
  page.text("\"files\":[");
  for (std::size_t i = 0; i < input.files().size(); ++i) {
    const Header& header = input.files()[i].header();
    page.text(i == 0 ? "\n{\"name\":" : ",\n{\"name\":");
    page.string(printable(input.file_name(i)));
    page.text(formatted(",\"begin\":{},\"bytes\":{},\"header\":{}}}", begin, header.file_bytes(), header.data_start()));
    begins.push_back(begin);
    begin += header.file_bytes();
  }
  page.text("],\n");
  return begins;
}

// Writes the metadata of all files, each pair once.
void write_page_metadata(PageWriter& page, const Input& input) {
  constexpr std::size_t kMaxValue = 16384;  // bytes of a value
  std::set<std::pair<std::string_view, std::string_view>> seen;
  page.text("\"metadata\":[");
  for (const File& file : input.files()) {
    for (const auto& [key, value] : file.metadata()) {
      if (!seen.emplace(key, value).second) continue;
      page.text(seen.size() == 1 ? "\n[" : ",\n[");
      page.string(printable(key));
      page.text(",");
      page.string(value.size() <= kMaxValue ? visible(value) : shortened(value, kMaxValue));
      page.text("]");
    }
  }
  page.text("],\n");
}

void write_page_stats(PageWriter& page, const TensorStats& found) {
  page.text(",[");
  for (const double value : {found.min, found.max, found.mean, found.standard_deviation}) {
    if (found.finite() == 0) {
      page.text("null");
    } else {
      page.number(value);
    }
    page.text(",");
  }
  page.text(formatted("{},{},{},[", found.zeros, found.nan, found.positive_infinity + found.negative_infinity));
  for (const StatsBin& bin : found.histogram) {
    page.text(formatted("{}[{},{},{}]", &bin == &found.histogram.front() ? "" : ",", bin.exponent, bin.negative,
                        bin.positive));
  }
  page.text("]]");
}

void write_page_dtypes(PageWriter& page) {
  std::string names;
  std::string sizes;
  for (const Dtype dtype : all_dtypes()) {
    names += formatted("{}\"{}\"", names.empty() ? "" : ",", to_string(dtype));
    sizes += formatted("{}{}", sizes.empty() ? "" : ",", bits(dtype));
  }
  page.text(formatted("\"dtypes\":[{}],\n\"bits\":[{}],\n", names, sizes));
}

void write_page_tensors(PageWriter& page, const std::vector<std::uint64_t>& begins, const PageContent& content) {
  page.text("\"tensors\":[");
  std::uint64_t total = 0;
  std::size_t index = 0;
  for (const auto& [info, file] : content.tensors) {
    page.text(index == 0 ? "\n[" : ",\n[");
    page.string(printable(info->name));
    page.text(formatted(",{},\"{}\",{},{},{},{}", rank(info->dtype), shape_text(info->shape), info->nbytes(), file,
                        info->file_offset, begins[file] + info->file_offset));
    if (content.has_stats) write_page_stats(page, content.stats[index]);
    page.text("]");
    total += parameters(*info);
    ++index;
  }
  page.text(formatted("],\n\"parameters\":{}", total));
}

}  // namespace

void write_page(PageWriter& page, const Input& input, const PageContent& content) {
  page.text("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  page.text(
      formatted("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; "
                "script-src '{}'; base-uri 'none'; form-action 'none'\">\n",
                kPageStyleHash, kPageScriptHash));
  page.text("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  page.text("<meta name=\"referrer\" content=\"no-referrer\">\n<title>safetensors</title>\n<style>");
  page.text(kPageStyle);
  page.text("</style>\n</head>\n<body>\n");
  page.text(kPageHtml);
  page.text("<script id=\"data\" type=\"application/json\">\n{\"schema\":\"safetensors.page/1\",\"path\":");
  page.string(printable(content.path));
  page.text(formatted(",\"stats\":{},\n", content.has_stats));
  const std::vector<std::uint64_t> begins = write_page_files(page, input);
  write_page_metadata(page, input);
  write_page_dtypes(page);
  write_page_tensors(page, begins, content);
  page.text("}\n</script>\n<script>");
  page.text(kPageScript);
  page.text("</script>\n</body>\n</html>\n");
}

}  // namespace safetensors::cli
