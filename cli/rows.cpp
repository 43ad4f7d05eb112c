// Writes rows of JSON at once, and gives the rows of a table to print_table(), which measures all of them first.
#include "rows.h"

#include "input.h"
#include "text/text.h"

#include <cmath>

namespace safetensors::cli {
namespace {

// Four digits, or a whole number of up to seven.
std::string number_text(double value) {
  if (value == std::trunc(value) && std::abs(value) < 1e7) return formatted("{:.0f}", value);
  return formatted("{:.4g}", value);
}

}  // namespace

Cell Cell::shown(std::string text) && {
  shown_ = std::move(text);
  return std::move(*this);
}

std::string Cell::text() const {
  if (shown_) return *shown_;
  if (const auto* const text = std::get_if<std::string_view>(&value_)) return printable(*text);
  if (const auto* const shape = std::get_if<ShapeView>(&value_)) return shape_text(*shape);
  if (const auto* const count = std::get_if<std::uint64_t>(&value_)) return grouped(*count);
  if (const auto* const number = std::get_if<double>(&value_)) return number_text(*number);
  return std::holds_alternative<std::nullopt_t>(value_) ? "-" : "";
}

void print_rest(Console& console, std::size_t rows, const char* noun) {
  if (rows > 0) console.out(formatted("... and {}\n", counted(rows, noun)));
}

Rows::Rows(Console& console, Json* json, const char* key, std::vector<Column> columns, std::string indent)
    : console_(console), json_(json), columns_(std::move(columns)), indent_(std::move(indent)) {
  if (json_ != nullptr) json_->key(key).open('[');
  for (const Column& column : columns_) {
    if (column.heading != nullptr) shown_.push_back({column.heading, column.align, column.narrow});
  }
}

std::vector<std::string> Rows::texts(std::span<const Cell> cells) const {
  std::vector<std::string> list;
  list.reserve(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns_[i].heading != nullptr) list.push_back(cells[i].text());
  }
  return list;
}

void Rows::row(std::span<const Cell> cells, const char* key, const std::function<void()>& inside) {
  if (json_ == nullptr) {
    rows_.push_back(texts(cells));
    if (inside) inside();
    return;
  }
  json_->line().open('{');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::visit(
        [&](const auto& value) {
          using Value = std::remove_cvref_t<decltype(value)>;
          if constexpr (!std::is_same_v<Value, std::monostate>) {
            if (columns_[i].key != nullptr) json_->field(columns_[i].key, value);
          }
        },
        cells[i].value_);
  }
  if (inside) {
    json_->key(key).open('[');
    inside();
    json_->close(']');
  }
  json_->close('}');
}

void Rows::finish(bool heading) {
  if (json_ != nullptr) return void(json_->close(']'));
  print_table(console_, shown_, indent_, heading, [&](const TableRow& row) { std::ranges::for_each(rows_, row); });
}

void Rows::each(const std::function<void(const std::function<void(Row)>& row)>& rows) {
  if (json_ != nullptr) {
    rows([&](Row cells) { row(cells); });
    return finish();
  }
  print_table(console_, shown_, indent_, true, [&](const TableRow& print) {
    rows([&](Row cells) { print(texts(std::span(cells.begin(), cells.size()))); });
  });
}

}  // namespace safetensors::cli
