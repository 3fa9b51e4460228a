// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_resources.hpp"

#include "cuda/mirror/mirror_device.cuh"

namespace kvevict_test {

using kvevict::Workspace;
using kvevict::cuda::require_success;

MirrorDevice::MirrorDevice() {
  require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
  like_ = std::make_unique<kvevict::cuda::Resources>(stream_);
}

MirrorDevice::~MirrorDevice() {
  like_.reset();
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

MirrorResources::MirrorResources(const Options& options)
    : options_(options), device_(std::make_unique<MirrorDevice>()) {
  if (options.workspace != nullptr) {
    workspace_ = Workspace(options.workspace, options.workspace_bytes);
  }
}
MirrorResources::MirrorResources(MirrorResources&&) noexcept = default;
MirrorResources& MirrorResources::operator=(MirrorResources&&) noexcept = default;
MirrorResources::~MirrorResources() = default;

MirrorResources MirrorResources::counting(const MirrorResources& like) {
  MirrorResources resources(Options{.threads = like.threads()});
  resources.workspace_ = Workspace::counter();
  return resources;
}

}  // namespace kvevict_test
