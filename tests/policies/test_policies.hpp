// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/any_policy.hpp"
#include "kvevict/decorators/all.hpp"

namespace kvevict_test {

namespace detail {

template <class A, class B>
struct Concatenated;
template <class... As, class... Bs>
struct Concatenated<kvevict::TypeList<As...>, kvevict::TypeList<Bs...>> {
  using type = kvevict::TypeList<As..., Bs...>;
};

}  // namespace detail

// Every decorator around policies that show what it may break: with and without evidence, with
// negative scores.
using DecoratedPolicies = kvevict::TypeList<
    kvevict::ChunkWise<kvevict::SnapKV>, kvevict::ValueWeighted<kvevict::SnapKV>,
    kvevict::Blend<kvevict::KNorm, kvevict::SnapKV>,
    kvevict::PerLayer<kvevict::KNorm, kvevict::KeyDiff>, kvevict::SpanProtection<kvevict::KNorm>,
    kvevict::SinkDetection<kvevict::KeyDiff>, kvevict::BlockStreaming<kvevict::KeyDiff>>;

// A policy that tests choose at run time: one of the library's, or a decorated one.
using TestPolicy =
    kvevict::BasicAnyPolicy<detail::Concatenated<kvevict::AllPolicies, DecoratedPolicies>::type>;

}  // namespace kvevict_test
