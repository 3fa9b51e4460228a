// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvevict {

/// Where the memory behind a view lives. It is part of every view's type, so that handing a device
/// view to the CPU backend does not compile.
enum class MemorySpace { host, device };

}  // namespace kvevict
