// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_policies.cuh"

KVEVICT_MIRROR_SCORES(kvevict::q8_0)
