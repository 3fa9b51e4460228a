// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_graph.cuh"

KVEVICT_MIRROR_POLICIES(float)
