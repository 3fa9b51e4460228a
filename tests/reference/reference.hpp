// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything of the plain double-precision side.
#include "reference/attention.hpp"
#include "reference/capacity.hpp"
#include "reference/golden_inputs.hpp"
#include "reference/h2o.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"
#include "reference/query_stats.hpp"
#include "reference/random_inputs.hpp"
#include "reference/rope.hpp"
#include "reference/score.hpp"
#include "reference/selection.hpp"
#include "reference/types.hpp"
