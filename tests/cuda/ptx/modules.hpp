// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grid.hpp"
#include "program.hpp"
#include "syntax.hpp"

namespace kvevict_ptx {

/// The device code of one translation unit. It is parsed when the first kernel is needed, and a
/// kernel is decoded when it is launched for the first time.
class LoadedModule {
 public:
  explicit LoadedModule(const void* wrapper) : wrapper_(wrapper) {}

  /// Throws PtxError if there is no kernel of this name.
  const Program& program(const std::string& kernel);
  /// A variable in the device's memory.
  Range variable(const std::string& name);

 private:
  void parse();
  void allocate_variables();
  void initialise(const Variable& variable) const;
  Range variable_range(std::string_view name) const;

  const void* wrapper_;
  std::unique_ptr<Module> syntax_;
  std::unordered_map<std::string_view, Range> variables_;
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs_;
};

/// Everything that nvcc's host code has registered in this process.
class Registry {
 public:
  LoadedModule* add_module(const void* wrapper);
  void add_kernel(const void* host, LoadedModule* module, const char* name);
  void add_variable(const void* host, LoadedModule* module, const char* name);

  /// Null if `host` is not a kernel that nvcc compiled.
  const Program* find_kernel(const void* host);
  /// Of all modules, as the linker knows them.
  std::set<std::string> kernel_names() const;
  /// Empty if `host` is not a device variable.
  Range find_variable(const void* host);

 private:
  struct Symbol {
    LoadedModule* module;
    std::string name;
  };
  int newest_ = 0;  ///< capability of the modules' PTX
  std::map<const void*, std::unique_ptr<LoadedModule>> modules_;
  std::unordered_map<const void*, Symbol> kernels_;
  std::unordered_map<const void*, Symbol> variables_;
};

Registry& registry();

}  // namespace kvevict_ptx
