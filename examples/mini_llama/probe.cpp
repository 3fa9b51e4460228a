// SPDX-License-Identifier: Apache-2.0
// For compare_reference.py: prints the token ids of a text file and, if asked, writes the
// next-token logits of every token, [token, vocabulary] fp32, to a file.
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <string>

#include "engine.hpp"
#include "error.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace mini_llama;
  if (argc < 3 || argc > 5) {
    std::cerr << "usage: mini_llama_probe MODEL TEXT [LOGITS [f32|f16]]\n";
    return EXIT_FAILURE;
  }
  const GgufFile file = GgufFile::open(argv[1]);
  const Tokenizer tokenizer = Tokenizer::load(file);
  std::ifstream input(argv[2], std::ios::binary);
  if (!input) throw FileError(concat(argv[2], ": cannot open"));
  const std::string text{std::istreambuf_iterator<char>(input), {}};
  const std::vector<TokenId> tokens = tokenizer.encode(text);
  for (const TokenId token : tokens) std::cout << token << ' ';
  std::cout << '\n';
  if (argc == 3) return EXIT_SUCCESS;

  ThreadPool pool(2);
  const Model model = Model::load(file, pool);
  Engine engine(model, 2);
  const bool is_half = argc == 5 && std::string(argv[4]) == "f16";
  RaggedCache cache = engine.make_cache(is_half ? RowType::float16 : RowType::float32);
  std::vector<Index> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), Index{0});
  const Matrix logits = engine.forward(cache, tokens, rows);
  std::ofstream output(argv[3], std::ios::binary);
  output.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(to_size(logits.size()) * sizeof(float)));
  if (!output.flush()) throw FileError(concat(argv[3], ": cannot write"));
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "mini_llama_probe: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
