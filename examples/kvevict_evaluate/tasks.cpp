// SPDX-License-Identifier: Apache-2.0
#include "tasks.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

namespace evaluate {
namespace {

constexpr std::array<std::string_view, 24> things = {
    "lamp", "boat",  "garden", "bridge", "mirror", "violin", "ladder", "basket",
    "coat", "clock", "tower",  "wagon",  "kettle", "window", "pencil", "saddle",
    "ring", "drum",  "candle", "anchor", "barrel", "pillow", "hammer", "lantern"};
constexpr std::array<std::string_view, 12> colours = {"red",    "blue",  "green", "yellow",
                                                      "purple", "white", "black", "orange",
                                                      "brown",  "grey",  "pink",  "silver"};
constexpr std::array<std::string_view, 12> people = {
    "A farmer",  "The teacher", "An old sailor", "The baker",  "A traveller", "The captain",
    "A painter", "The doctor",  "A young clerk", "The miller", "A neighbour", "The gardener"};
constexpr std::array<std::string_view, 12> deeds = {
    "looked for", "carried", "sold",    "painted", "remembered", "repaired",
    "borrowed",   "admired", "dropped", "found",   "cleaned",    "described"};
constexpr std::array<std::string_view, 12> places = {
    "near the river", "behind the house", "at the market",  "in the old town",
    "on the hill",    "by the sea",       "in the kitchen", "under the trees",
    "at the station", "in the morning",   "after the rain", "before the feast"};

/// Draws that are the same everywhere: distributions of the standard library differ.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(generator_() % bound); }
  template <class List>
  std::string from(const List& list) {
    return std::string(list[below(list.size())]);
  }
  std::string digits(int count) {
    std::string text;
    // No leading zero, which a reader may leave out.
    for (int i = 0; i < count; ++i) {
      text += static_cast<char>('0' + (i == 0 ? 1 + below(9) : below(10)));
    }
    return text;
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::mt19937_64 generator_;
};

/// Different pairs of a colour and a thing.
std::vector<std::string> draw_names(Draw& draw, std::size_t count, std::string_view between) {
  std::set<std::string> seen;
  std::vector<std::string> names;
  while (names.size() < count) {
    const std::string name = draw.from(colours) + std::string(between) + draw.from(things);
    if (seen.insert(name).second) names.push_back(name);
  }
  return names;
}

std::string sentence(Draw& draw) {
  return " " + draw.from(people) + " " + draw.from(deeds) + " a " + draw.from(colours) + " " +
         draw.from(things) + " " + draw.from(places) + ".";
}

using Fact = std::vector<Segment>;

std::int64_t length_of(const Fact& fact, const TokenCount& count) {
  std::int64_t length = 0;
  for (const Segment& segment : fact) length += count(segment.text);
  return length;
}

/// The facts in their order, each at its place in [0, 1) among as many sentences as there is room
/// for.
std::vector<Segment> among_sentences(Draw& draw, const std::vector<std::pair<double, Fact>>& facts,
                                     std::int64_t tokens, const TokenCount& count) {
  for (const auto& [place, fact] : facts) tokens -= length_of(fact, count);
  if (tokens < 0) throw std::runtime_error("the facts have more tokens than the context may have");
  std::vector<Segment> padding;
  for (;;) {
    Segment next{sentence(draw)};
    tokens -= count(next.text);
    if (tokens < 0) break;
    padding.push_back(std::move(next));
  }
  std::vector<Segment> context;
  auto from = padding.begin();
  for (const auto& [place, fact] : facts) {
    const auto to =
        padding.begin() + static_cast<std::ptrdiff_t>(place * static_cast<double>(padding.size()));
    context.insert(context.end(), from, to);
    context.insert(context.end(), fact.begin(), fact.end());
    from = to;
  }
  context.insert(context.end(), from, padding.end());
  return context;
}

Task passkey(Draw& draw, std::int64_t tokens, const TokenCount& count) {
  const std::string key = draw.digits(5);
  const double place = static_cast<double>(5 + draw.below(90)) / 100.0;
  const Fact fact = {{" The pass key is"},
                     {" " + key, 0},
                     {". Remember it."},
                     {" " + key, 0},
                     {" is the pass key."}};
  return {among_sentences(draw, {{place, fact}}, tokens, count),
          {{"\nWhat is the pass key? The pass key is", " " + key}}};
}

Task needles(Draw& draw, std::int64_t tokens, const TokenCount& count) {
  constexpr int wanted = 5;
  const std::vector<std::string> names = draw_names(draw, wanted, " ");
  std::vector<std::pair<double, Fact>> facts;
  std::vector<int> order;
  std::vector<Question> questions(wanted);
  for (int i = 0; i < wanted; ++i) order.push_back(i);
  draw.shuffle(order);
  for (int i = 0; i < wanted; ++i) {
    const std::string number = " " + draw.digits(5);
    const std::string begin =
        "The special number of the " + names[static_cast<std::size_t>(i)] + " is";
    const int question = order[static_cast<std::size_t>(i)];
    facts.push_back({(i + 0.5) / wanted, {{" " + begin}, {number, question}, {"."}}});
    questions[static_cast<std::size_t>(question)] = {"\n" + begin, number};
  }
  return {among_sentences(draw, facts, tokens, count), std::move(questions)};
}

Task lookup(Draw& draw, std::int64_t tokens, const TokenCount& count) {
  constexpr int wanted = 4;
  // As many names as there are; the first that fit are used.
  const std::vector<std::string> names = draw_names(draw, things.size() * colours.size() / 2, "_");
  std::vector<Segment> context;
  std::vector<std::pair<std::string, std::string>> entries;
  for (const std::string& name : names) {
    const std::string number = " " + draw.digits(4);
    const Fact fact = {{"\n" + name + ":"}, {number}};
    tokens -= length_of(fact, count);
    if (tokens < 0) break;
    context.insert(context.end(), fact.begin(), fact.end());
    entries.emplace_back(name, number);
  }
  if (entries.size() < wanted) throw std::runtime_error("fewer entries than questions fit");
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < entries.size(); ++i) asked.push_back(i);
  draw.shuffle(asked);
  Task task{std::move(context), {}};
  for (int i = 0; i < wanted; ++i) {
    const std::size_t entry = asked[static_cast<std::size_t>(i)];
    task.context[2 * entry + 1].question = i;
    task.questions.push_back({"\n" + entries[entry].first + ":", entries[entry].second});
  }
  return task;
}

Task tracking(Draw& draw, std::int64_t tokens, const TokenCount& count) {
  constexpr int wanted = 4;
  const std::vector<std::string> names = draw_names(draw, 2 * wanted, "_");
  std::vector<std::pair<double, Fact>> facts;
  std::vector<Question> questions;
  for (int i = 0; i < wanted; ++i) {
    const std::string number = " " + draw.digits(4);
    const std::string& first = names[static_cast<std::size_t>(2 * i)];
    const std::string& second = names[static_cast<std::size_t>(2 * i + 1)];
    facts.push_back({(i + 0.2) / wanted, {{" Set " + first + " ="}, {number, i}, {"."}}});
    facts.push_back({(i + 0.7) / wanted, {{" Copy " + second + " ="}, {" " + first, i}, {"."}}});
    questions.push_back({"\n" + second + " = " + first + " =", number});
  }
  return {among_sentences(draw, facts, tokens, count), std::move(questions)};
}

struct Maker {
  std::string_view name;
  Task (*make)(Draw& draw, std::int64_t tokens, const TokenCount& count);
};

constexpr Maker makers[] = {
    {"passkey", passkey}, {"needles", needles}, {"lookup", lookup}, {"tracking", tracking}};

}  // namespace

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names;
  for (const Maker& maker : makers) names.push_back(maker.name);
  return names;
}

Task make_task(std::string_view name, std::uint64_t seed, std::int64_t tokens,
               const TokenCount& count) {
  for (const Maker& maker : makers) {
    if (maker.name != name) continue;
    Draw draw(seed);
    return maker.make(draw, tokens, count);
  }
  throw std::runtime_error("there is no task '" + std::string(name) + "'");
}

}  // namespace evaluate
