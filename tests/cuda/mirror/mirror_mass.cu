// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/running_mass.cuh"

namespace kvevict_test {

using namespace kvevict;

void accumulate_mass_impl(MirrorResources& res, const RunningMass<>& before, const MassStep<>& step,
                          const RunningMass<>& after) {
  KVEVICT_MIRROR(accumulate_mass, before, step, after);
}

void gather_mass_impl(MirrorResources& res, const SelectionView<>& kept, const RunningMass<>& from,
                      const RunningMass<>& to) {
  KVEVICT_MIRROR(gather_mass, kept, from, to);
}

}  // namespace kvevict_test
