// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/decorators/blend.hpp"
#include "kvevict/decorators/block_streaming.hpp"
#include "kvevict/decorators/chunk_wise.hpp"
#include "kvevict/decorators/critical_kv.hpp"
#include "kvevict/decorators/per_layer.hpp"
#include "kvevict/decorators/sink_detection.hpp"
#include "kvevict/decorators/span_protection.hpp"
#include "kvevict/decorators/value_weighted.hpp"
