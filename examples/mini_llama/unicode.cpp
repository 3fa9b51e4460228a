// SPDX-License-Identifier: Apache-2.0
#include "unicode.hpp"

#include <algorithm>
#include <array>

namespace mini_llama {
namespace {

using enum CharacterClass;

struct Range {
  char32_t first;
  char32_t last;
  CharacterClass type;
};

// Ascending; whatever lies between is a letter.
constexpr std::array non_letters = std::to_array<Range>({
    {0x80, 0x84, other},        {0x85, 0x85, space},        {0x86, 0x9f, other},
    {0xa0, 0xa0, space},        {0xa1, 0xa9, other},        {0xab, 0xb1, other},
    {0xb2, 0xb3, number},       {0xb4, 0xb4, other},        {0xb6, 0xb8, other},
    {0xb9, 0xb9, number},       {0xbb, 0xbb, other},        {0xbc, 0xbe, number},
    {0xbf, 0xbf, other},        {0xd7, 0xd7, other},        {0xf7, 0xf7, other},
    {0x2c2, 0x2c5, other},      {0x2d2, 0x2df, other},      {0x2e5, 0x2eb, other},
    {0x2ed, 0x2ed, other},      {0x2ef, 0x36f, other},      {0x375, 0x375, other},
    {0x37e, 0x37e, other},      {0x384, 0x385, other},      {0x387, 0x387, other},
    {0x3f6, 0x3f6, other},      {0x482, 0x489, other},      {0x55a, 0x55f, other},
    {0x589, 0x5cf, other},      {0x5f3, 0x61f, other},      {0x64b, 0x65f, other},
    {0x660, 0x669, number},     {0x66a, 0x66d, other},      {0x670, 0x670, other},
    {0x6d4, 0x6d4, other},      {0x6d6, 0x6e4, other},      {0x6e7, 0x6ed, other},
    {0x6f0, 0x6f9, number},     {0x900, 0x903, other},      {0x93a, 0x93c, other},
    {0x93e, 0x94f, other},      {0x951, 0x957, other},      {0x962, 0x965, other},
    {0x966, 0x96f, number},     {0x970, 0x970, other},      {0xe31, 0xe31, other},
    {0xe34, 0xe3f, other},      {0xe47, 0xe4f, other},      {0xe50, 0xe59, number},
    {0x1680, 0x1680, space},    {0x1ab0, 0x1aff, other},    {0x1dc0, 0x1dff, other},
    {0x2000, 0x200a, space},    {0x200b, 0x2027, other},    {0x2028, 0x2029, space},
    {0x202a, 0x202e, other},    {0x202f, 0x202f, space},    {0x2030, 0x205e, other},
    {0x205f, 0x205f, space},    {0x2060, 0x206f, other},    {0x2070, 0x2070, number},
    {0x2074, 0x2079, number},   {0x207a, 0x207e, other},    {0x2080, 0x2089, number},
    {0x208a, 0x208e, other},    {0x20a0, 0x2101, other},    {0x2103, 0x2106, other},
    {0x2108, 0x2109, other},    {0x2114, 0x2114, other},    {0x2116, 0x2118, other},
    {0x211e, 0x2123, other},    {0x2140, 0x2144, other},    {0x214a, 0x214d, other},
    {0x2150, 0x2182, number},   {0x2190, 0x245f, other},    {0x2460, 0x249b, number},
    {0x249c, 0x24e9, other},    {0x24ea, 0x24ff, number},   {0x2500, 0x2775, other},
    {0x2776, 0x2793, number},   {0x2794, 0x2bff, other},    {0x2de0, 0x2e2e, other},
    {0x2e30, 0x2fff, other},    {0x3000, 0x3000, space},    {0x3001, 0x3004, other},
    {0x3007, 0x3007, number},   {0x3008, 0x3020, other},    {0x3021, 0x3029, number},
    {0x302a, 0x3030, other},    {0x3099, 0x309c, other},    {0x30a0, 0x30a0, other},
    {0x30fb, 0x30fb, other},    {0x4dc0, 0x4dff, other},    {0xd800, 0xf8ff, other},
    {0xfd3e, 0xfd3f, other},    {0xfdfc, 0xfe6f, other},    {0xfeff, 0xff0f, other},
    {0xff10, 0xff19, number},   {0xff1a, 0xff20, other},    {0xff3b, 0xff40, other},
    {0xff5b, 0xff65, other},    {0xffe0, 0xffff, other},    {0x1d000, 0x1d245, other},
    {0x1d7ce, 0x1d7ff, number}, {0x1f000, 0x1f0ff, other},  {0x1f100, 0x1f10c, number},
    {0x1f10d, 0x1fbef, other},  {0x1fbf0, 0x1fbf9, number}, {0xe0000, 0x10ffff, other},
});

constexpr CharacterClass classify_ascii(char32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return letter;
  if (c >= '0' && c <= '9') return number;
  if (c == ' ' || (c >= '\t' && c <= '\r')) return space;
  return other;
}

constexpr Character invalid{0xfffd, 1};

}  // namespace

CharacterClass classify(char32_t code_point) {
  if (code_point < 0x80) return classify_ascii(code_point);
  const auto range = std::lower_bound(non_letters.begin(), non_letters.end(), code_point,
                                      [](const Range& r, char32_t c) { return r.last < c; });
  return range != non_letters.end() && range->first <= code_point ? range->type : letter;
}

Character decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xc2 || lead > 0xf4) return invalid;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length > text.size() - at) return invalid;
  char32_t code_point = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte(at + i);
    if ((next & 0xc0u) != 0x80u) return invalid;
    code_point = code_point << 6 | (next & 0x3fu);
  }
  constexpr std::array<char32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < smallest[length] || code_point > 0x10ffff || is_surrogate) return invalid;
  return {code_point, length};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
  }
  put(0x80 | (code_point & 0x3f));
}

}  // namespace mini_llama
