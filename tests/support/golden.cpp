// SPDX-License-Identifier: Apache-2.0
#include "golden.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace kvevict_test {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string::npos) return parts;
    start = end + 1;
  }
}

std::int64_t parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error("'" + text + "' is not an integer");
  }
  return value;
}

std::vector<std::int64_t> parse_list(const std::string& text) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split(text, ',')) values.push_back(parse_integer(part));
  return values;
}

const char* const columns =
    "id kind policy parameters evidence selection source rel abs forced what";

GoldenEntry parse_entry(const std::string& line) {
  const std::vector<std::string> field = split(line, '\t');
  if (field.size() != split(columns, ' ').size()) {
    throw std::runtime_error(std::to_string(field.size()) + " columns");
  }
  GoldenEntry entry;
  entry.id = field[0];
  entry.kind = field[1];
  entry.policy = field[2] == "-" ? std::string{} : field[2];
  entry.parameters = parse_pairs(field[3]);
  entry.evidence = parse_pairs(field[4]);
  entry.selection = parse_pairs(field[5]);
  entry.source = field[6];
  entry.tolerance = {parse_number(field[7]), parse_number(field[8])};
  const std::vector<std::int64_t> forced = parse_list(field[9]);
  if (forced.size() != 2) throw std::runtime_error("forced is not FIRST,LAST");
  entry.forced_first = forced[0];
  entry.forced_last = forced[1];
  entry.what = field[10];
  return entry;
}

}  // namespace

double parse_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error("'" + text + "' is not a number");
  }
  return value;
}

Pairs parse_pairs(const std::string& text) {
  Pairs pairs;
  if (text == "-") return pairs;
  for (const std::string& part : split(text, ' ')) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw std::runtime_error("'" + part + "' is not name=value");
    }
    if (!pairs.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      throw std::runtime_error("'" + part.substr(0, equals) + "' is given twice");
    }
  }
  return pairs;
}

const std::string& required(const Pairs& pairs, const std::string& name) {
  const auto found = pairs.find(name);
  if (found == pairs.end()) throw std::runtime_error("'" + name + "' is missing");
  return found->second;
}

double required_number(const Pairs& pairs, const std::string& name) {
  return parse_number(required(pairs, name));
}

std::int64_t required_integer(const Pairs& pairs, const std::string& name) {
  return parse_integer(required(pairs, name));
}

std::vector<std::int64_t> required_list(const Pairs& pairs, const std::string& name) {
  return parse_list(required(pairs, name));
}

std::string GoldenEntry::case_name() const { return id.substr(0, id.find('/')); }

GoldenData::GoldenData(std::string folder) : folder_(std::move(folder)) {
  const std::string path = folder_ + "/index.tsv";
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  std::string line;
  std::getline(in, line);
  std::replace(line.begin(), line.end(), '\t', ' ');
  if (line != columns)
    throw std::runtime_error(path + ": the first line does not name the columns");
  for (std::int64_t number = 2; std::getline(in, line); ++number) {
    try {
      entries_.push_back(parse_entry(line));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(path + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
}

std::vector<GoldenEntry> GoldenData::entries(const std::string& kind,
                                             const std::string& policy) const {
  std::vector<GoldenEntry> chosen;
  std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(chosen),
               [&](const GoldenEntry& entry) {
                 return entry.kind == kind && (policy.empty() || entry.policy == policy);
               });
  return chosen;
}

const GoldenEntry& GoldenData::entry(const std::string& id) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&id](const GoldenEntry& entry) { return entry.id == id; });
  if (found == entries_.end()) throw std::runtime_error("no reference data named '" + id + "'");
  return *found;
}

std::string GoldenData::file(const std::string& id) const {
  return folder_ + "/" + entry(id).id + ".npy";
}

NpyArray GoldenData::array(const std::string& id) const { return read_npy(file(id)); }

const GoldenData& golden_data() {
  static const GoldenData data(KVEVICT_TEST_DATA_DIR);
  return data;
}

std::vector<std::vector<std::int32_t>> kept_rows(const GoldenData& data, const GoldenEntry& entry) {
  const NpyArray array = data.array(entry.id);
  const std::vector<std::int32_t> all = array.values_int32();
  std::vector<std::int64_t> offsets;
  if (entry.selection.count("offsets") != 0) {
    offsets = required_list(entry.selection, "offsets");
  } else {
    for (std::int64_t head = 0; head <= array.dim(0); ++head)
      offsets.push_back(head * array.dim(1));
  }
  if (offsets.empty() || offsets.back() != array.size()) {
    throw std::runtime_error(entry.id + ": the offsets do not cover the rows");
  }
  std::vector<std::vector<std::int32_t>> heads;
  for (std::size_t head = 0; head + 1 < offsets.size(); ++head) {
    heads.emplace_back(all.begin() + offsets[head], all.begin() + offsets[head + 1]);
  }
  return heads;
}

}  // namespace kvevict_test
