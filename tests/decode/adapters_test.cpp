// SPDX-License-Identifier: Apache-2.0
// What a DecodeEvictor collects for policies that hold others.
#include "kvevict/decode_adapters.hpp"

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/any_policy.hpp"
#include "kvevict/decorators/all.hpp"

using kvevict::Accumulation;
using kvevict::accumulation_of;
using kvevict::AnyPolicy;
using kvevict::Blend;
using kvevict::ChunkWise;
using kvevict::CurDKV;
using kvevict::EvidenceKind;
using kvevict::H2O;
using kvevict::Jacap;
using kvevict::KeyDiff;
using kvevict::KNorm;
using kvevict::KVzip;
using kvevict::PerLayer;
using kvevict::SnapKV;
using kvevict::TOVA;
using kvevict::ValueWeighted;
using kvevict::detail::collected_evidence;
using kvevict::detail::policy_text;
using kvevict::detail::window_of;

TEST_CASE("a window serves the policies that are held, at any depth", "[decode]") {
  CHECK(window_of(KNorm{}, 64) == 64);
  CHECK(window_of(SnapKV{.window = 90}, 64) == 90);
  CHECK(window_of(AnyPolicy(SnapKV{.window = 9}), 64) == 9);
  CHECK(window_of(ChunkWise<SnapKV>{.inner = {.window = 90}}, 64) == 90);
  CHECK(window_of(ChunkWise<ValueWeighted<SnapKV>>{.inner = {.inner = {.window = 5}}}, 64) == 5);
  CHECK(window_of(Blend<KNorm, SnapKV>{.policies = {KNorm{}, SnapKV{.window = 90}}}, 64) == 90);
  CHECK(window_of(PerLayer<SnapKV, SnapKV>{.base = {.window = 7}, .other = {.window = 12}}, 64) ==
        12);
  // A window of rows is none of queries; one that does not say how many takes what is usual.
  CHECK(window_of(CurDKV{.window = 1000}, 64) == 64);
  CHECK(window_of(Blend<SnapKV, CurDKV>{.policies = {SnapKV{.window = 3}, CurDKV{.window = 1000}}},
                  64) == 3);
  CHECK(window_of(Blend<SnapKV, TOVA>{.policies = {SnapKV{.window = 3}, TOVA{}}}, 64) == 64);
}

TEST_CASE("attention mass accumulates as the H2O that is held", "[decode]") {
  const H2O mean{.accumulation = Accumulation::mean};
  CHECK(accumulation_of(KNorm{}) == H2O{});
  CHECK(accumulation_of(mean) == mean);
  CHECK(accumulation_of(AnyPolicy(mean)) == mean);
  CHECK(accumulation_of(ValueWeighted<H2O>{.inner = mean}) == mean);
  CHECK(accumulation_of(Blend<KNorm, ChunkWise<H2O>>{
            .policies = {KNorm{}, ChunkWise<H2O>{.inner = mean}}}) == mean);
  CHECK(accumulation_of(PerLayer<H2O, H2O>{.base = mean, .other = mean}) == mean);
  CHECK(accumulation_of(ChunkWise<KVzip>{}) == H2O{.accumulation = Accumulation::max});
  CHECK(kvevict_test::refused(
            [&] { accumulation_of(PerLayer<H2O, H2O>{.base = mean, .other = H2O{}}); },
            kvevict::ErrorKind::unsupported) ==
        "policy is two that accumulate attention differently, must be of one accumulation");
}

TEST_CASE("what a held policy suggests is collected", "[decode]") {
  CHECK(collected_evidence(Jacap{}).contains(EvidenceKind::probes));
  CHECK(collected_evidence(ChunkWise<Jacap>{}) == collected_evidence(Jacap{}));
  kvevict::EvidenceSet both = collected_evidence(Jacap{});
  both |= EvidenceKind::query_window;
  CHECK(collected_evidence(Blend<Jacap, SnapKV>{}) == both);
}

TEST_CASE("a policy is told from others by what it holds", "[decode]") {
  CHECK(policy_text(KNorm{}) == "KNorm");
  CHECK(policy_text(ChunkWise<KNorm>{}) == "ChunkWise(KNorm) chunk=20");
  CHECK(policy_text(ChunkWise<KeyDiff>{}) == "ChunkWise(KeyDiff) chunk=20");
  CHECK(policy_text(ChunkWise<AnyPolicy>{AnyPolicy(KNorm{})}) == "ChunkWise(KNorm) chunk=20");
  CHECK(policy_text(AnyPolicy(SnapKV{})) == policy_text(SnapKV{}));
  const Blend<KNorm, ChunkWise<KeyDiff>> blend;
  CHECK(policy_text(blend).substr(0, 39) == "Blend(KNorm, ChunkWise(KeyDiff)) of=ran");
  const PerLayer<KNorm, KeyDiff> layers{.heads = {0, 3}};
  CHECK(policy_text(ChunkWise<PerLayer<KNorm, KeyDiff>>{layers}) ==
        "ChunkWise(PerLayer(KNorm, KeyDiff, the second for heads 0 3)) chunk=20");
}
