// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "../emu/settings.hpp"
#include "block.hpp"

namespace kvevict_ptx {
namespace {

std::string triple(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

std::string block_name(const Block& block) {
  const dim3 at = block.index();
  return demangled(block.grid().program.name) + ", block " + triple(at.x, at.y, at.z);
}

/// Nothing if the PTX does not say.
std::string source_name(const Module& module, const char* before, int file, int line) {
  const auto found = module.files.find(file);
  if (line == 0 || found == module.files.end()) return {};
  const std::string_view path = found->second;
  std::string name(before);
  name += path.substr(path.find_last_of('/') + 1);
  return name + ":" + std::to_string(line);
}

}  // namespace

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

std::string thread_name(const Block& block, int thread) {
  const dim3 size = block.grid().threads;
  const auto t = static_cast<std::uint64_t>(thread);
  return triple(t % size.x, t / size.x % size.y, t / (std::uint64_t{size.x} * size.y));
}

std::string place_name(const Program& program, std::size_t at) {
  const Origin& origin = program.origins[at];
  if (origin.statement == nullptr) return "the end of the kernel";
  const Statement& statement = *origin.statement;
  std::string text =
      "'" + std::string(statement.opcode) + "', PTX line " + std::to_string(statement.line);
  if (origin.function->name != program.name) {
    text += " of " + demangled(std::string(origin.function->name));
  }
  const SourcePlace& source = statement.source;
  text += source_name(*program.module, ", ", source.file, source.line);
  return text +
         source_name(*program.module, " called from ", source.caller_file, source.caller_line);
}

void fail(const Warp& warp, const Instruction& instruction, int lane, const std::string& what) {
  const Block& block = warp.block();
  const Program& program = block.grid().program;
  const auto at = static_cast<std::size_t>(&instruction - program.code.data());
  throw kvevict_emulation::DeviceError(what + " [" + block_name(block) + ", thread " +
                                       thread_name(block, warp.thread(lane)) + ": " +
                                       place_name(program, at) + "]");
}

void fail(const Block& block, const std::string& what) {
  throw kvevict_emulation::DeviceError(what + " [" + block_name(block) + "]");
}

}  // namespace kvevict_ptx
