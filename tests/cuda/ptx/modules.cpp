// SPDX-License-Identifier: Apache-2.0
#include "modules.hpp"

#include <algorithm>
#include <cstring>

#include "../emu/device.hpp"
#include "decoder.hpp"
#include "fatbin.hpp"
#include "parser.hpp"
#include "ptx_settings.hpp"

namespace kvevict_ptx {

void LoadedModule::parse() {
  if (syntax_ != nullptr) return;
  syntax_ = parse_module(find_ptx(wrapper_, ptx_settings().capability));
  allocate_variables();
}

void LoadedModule::allocate_variables() {
  auto& memory = kvevict_emulation::device().memory;
  for (const Variable& variable : syntax_->variables) {
    if (variable.space == Space::shared || variable.bytes == 0) continue;
    void* address = nullptr;
    const auto bytes = static_cast<std::size_t>(variable.bytes);
    if (memory.allocate(&address, bytes, false) != cudaSuccess) throw std::bad_alloc();
    variables_[variable.name] = {static_cast<const std::byte*>(address), bytes};
  }
  memory.open();
  for (const Variable& variable : syntax_->variables) {
    if (variables_.contains(variable.name)) initialise(variable);
  }
  memory.close();
}

void LoadedModule::initialise(const Variable& variable) const {
  const Range range = variable_range(variable.name);
  auto* to = const_cast<std::byte*>(range.begin);
  const auto width = static_cast<std::size_t>(size_of(variable.type));
  std::memset(to, 0, range.bytes);
  for (const Operand& element : variable.initial) {
    std::uint64_t value = element.value;
    if (element.kind == Operand::Kind::address) {
      value += reinterpret_cast<std::uint64_t>(variable_range(element.name).begin);
    }
    std::memcpy(to, &value, width);
    to += width;
  }
}

Range LoadedModule::variable_range(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    throw PtxError("variable '" + std::string(name) + "' is not in this module");
  }
  return found->second;
}

Range LoadedModule::variable(const std::string& name) {
  parse();
  return variable_range(name);
}

const Program& LoadedModule::program(const std::string& kernel) {
  parse();
  std::unique_ptr<Program>& program = programs_[kernel];
  if (program != nullptr) return *program;
  const auto entry = syntax_->functions.find(kernel);
  if (entry == syntax_->functions.end() || !entry->second.has_body) {
    throw PtxError("kernel '" + kernel + "' is not in this module");
  }
  program =
      std::make_unique<Program>(decode(*syntax_, entry->second, [this](std::string_view name) {
        return reinterpret_cast<std::uint64_t>(variable_range(name).begin);
      }));
  return *program;
}

LoadedModule* Registry::add_module(const void* wrapper) {
  // The device is the one that is asked for, or one that can run everything in the program.
  newest_ = std::max(newest_, newest_capability(wrapper));
  const int asked = ptx_settings().capability;
  const int capability = asked != 0 ? asked : newest_;
  if (capability != 0) {
    kvevict_emulation::DeviceLimits& limits = kvevict_emulation::settings().limits;
    limits.compute_major = capability / 10;
    limits.compute_minor = capability % 10;
  }
  return modules_.emplace(wrapper, std::make_unique<LoadedModule>(wrapper)).first->second.get();
}

void Registry::add_kernel(const void* host, LoadedModule* module, const char* name) {
  kernels_[host] = {module, name};
}

void Registry::add_variable(const void* host, LoadedModule* module, const char* name) {
  variables_[host] = {module, name};
}

const Program* Registry::find_kernel(const void* host) {
  const auto found = kernels_.find(host);
  if (found == kernels_.end()) return nullptr;
  return &found->second.module->program(found->second.name);
}

std::set<std::string> Registry::kernel_names() const {
  std::set<std::string> names;
  for (const auto& [host, kernel] : kernels_) names.insert(kernel.name);
  return names;
}

Range Registry::find_variable(const void* host) {
  const auto found = variables_.find(host);
  if (found == variables_.end()) return {};
  return found->second.module->variable(found->second.name);
}

Registry& registry() {
  // Never destroyed: host code may launch kernels from destructors of static objects.
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace kvevict_ptx
