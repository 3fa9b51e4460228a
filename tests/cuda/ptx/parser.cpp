// SPDX-License-Identifier: Apache-2.0
#include "parser.hpp"

#include <utility>

#include "token_stream.hpp"

namespace kvevict_ptx {
namespace {

/// The body of one function, from its opening to its closing brace.
class BodyParser {
 public:
  BodyParser(TokenStream& in, Function& function) : in_(in), function_(function) {}

  void run() {
    function_.scopes.emplace_back();
    in_.expect('{');
    for (;;) {
      if (in_.at_end()) in_.fail("function '" + std::string(function_.name) + "' does not end");
      if (in_.take_if('{')) {
        function_.scopes.push_back({scope_, {}, {}, {}, {}});
        scope_ = static_cast<int>(function_.scopes.size()) - 1;
      } else if (in_.take_if('}')) {
        if (scope_ == 0) return;
        scope_ = scope().parent;
      } else if (in_.peek().text.starts_with('.')) {
        directive();
      } else if (in_.peek(1).is(':')) {
        label();
      } else if (!in_.take_if(';')) {
        instruction();
      }
    }
  }

 private:
  Scope& scope() { return function_.scopes[static_cast<std::size_t>(scope_)]; }

  void directive() {
    const std::string_view word = in_.peek().text.substr(1);
    if (word == "loc") {
      in_.take();
      location();
    } else if (word == "reg") {
      in_.take();
      registers();
    } else if (word == "shared" || word == "local" || word == "param" || word == "const" ||
               word == "global") {
      in_.take();
      do {
        Variable variable = parse_variable(in_, space_named(word));
        scope().variables[variable.name] = static_cast<int>(function_.variables.size());
        function_.variables.push_back(std::move(variable));
      } while (in_.take_if(','));
      in_.expect(';');
    } else if (word == "file" || word == "version" || word == "target") {
      in_.skip_line();
    } else {  // .pragma, .callprototype and the like change nothing here
      while (!in_.take_if(';')) in_.take();
    }
  }

  /// `.loc file line column` and perhaps `, function_name label, inlined_at file line column`.
  void location() {
    const int row = in_.peek().line;
    source_.file = static_cast<int>(parse_number(in_).value);
    const int line = static_cast<int>(parse_number(in_).value);
    if (line != 0) source_.line = line;  // 0: code without a line of its own
    source_.caller_file = source_.caller_line = 0;
    while (!in_.at_end() && in_.peek().line == row) {
      if (!in_.take_if("inlined_at")) {
        in_.take();
        continue;
      }
      source_.caller_file = static_cast<int>(parse_number(in_).value);
      source_.caller_line = static_cast<int>(parse_number(in_).value);
    }
  }

  void registers() {
    Registers declared;
    declared.scope = scope_;
    declared.type = type_named(in_.word().substr(1));
    do {
      declared.prefix = in_.word();
      declared.count = 0;
      if (in_.take_if('<')) {
        declared.count = static_cast<int>(parse_number(in_).value);
        in_.expect('>');
      }
      scope().registers[declared.prefix] = static_cast<int>(function_.registers.size());
      function_.registers.push_back(declared);
    } while (in_.take_if(','));
    in_.expect(';');
  }

  void label() {
    const std::string_view name = in_.word();
    in_.expect(':');
    if (in_.take_if(".branchtargets")) {
      auto& targets = scope().branch_targets[name];
      do {
        targets.push_back(in_.word());
      } while (in_.take_if(','));
      in_.expect(';');
    } else {
      scope().labels[name] = static_cast<int>(function_.body.size());
    }
  }

  void instruction() {
    Statement statement;
    statement.scope = scope_;
    statement.source = source_;
    statement.line = in_.peek().line;
    if (in_.take_if('@')) {
      statement.guard_negated = in_.take_if('!');
      statement.guard = in_.word();
    }
    statement.opcode = in_.word();
    while (!in_.take_if(';')) {
      statement.operands.push_back(parse_operand(in_));
      if (!in_.peek().is(';')) in_.expect(',');
    }
    function_.body.push_back(std::move(statement));
  }

  TokenStream& in_;
  Function& function_;
  int scope_ = 0;
  SourcePlace source_;
};

class ModuleParser {
 public:
  explicit ModuleParser(Module& module) : module_(module), in_(tokenize(module.text)) {}

  void run() {
    while (!in_.at_end()) item();
  }

 private:
  void item() {
    const std::string_view word = in_.word();
    if (word == ".target") {
      module_.target = in_.peek().text;
      in_.skip_line();
    } else if (word == ".version" || word == ".address_size") {
      in_.skip_line();
    } else if (word == ".file") {
      const int number = static_cast<int>(parse_number(in_).value);
      module_.files[number] = in_.peek().text;
      in_.skip_line();
    } else if (word == ".section") {
      while (!in_.peek().is('{')) in_.take();
      in_.skip_braces();
    } else if (word == ".extern" || word == ".visible" || word == ".weak" || word == ".common") {
      external_ = word == ".extern";
    } else if (word == ".entry" || word == ".func") {
      function(word == ".entry");
    } else if (space_named(word.substr(1)) != Space::generic) {
      Variable variable = parse_variable(in_, space_named(word.substr(1)));
      in_.expect(';');
      variable.external = std::exchange(external_, false);
      module_.variable_index[variable.name] = module_.variables.size();
      module_.variables.push_back(std::move(variable));
    } else {  // .pragma, .alias
      while (!in_.take_if(';')) in_.take();
    }
  }

  std::vector<Variable> parameters() {
    std::vector<Variable> list;
    in_.expect('(');
    while (!in_.take_if(')')) {
      in_.word();  // .param or .reg
      list.push_back(parse_variable(in_, Space::param));
      in_.take_if(',');
    }
    return list;
  }

  void function(bool is_entry) {
    Function function;
    function.is_entry = is_entry;
    function.line = in_.peek().line;
    if (in_.peek().is('(')) function.results = parameters();
    function.name = in_.word();
    if (in_.peek().is('(')) function.parameters = parameters();
    while (!in_.peek().is('{') && !in_.peek().is(';')) {
      if (in_.take_if(".maxntid")) {
        function.max_threads = 1;
        do {
          function.max_threads *= static_cast<int>(parse_number(in_).value);
        } while (in_.take_if(','));
      } else {
        in_.take();
      }
    }
    function.has_body = in_.peek().is('{');
    if (function.has_body) {
      BodyParser(in_, function).run();
    } else {
      in_.expect(';');
    }
    external_ = false;
    Function& known = module_.functions[function.name];
    if (!known.has_body) known = std::move(function);  // a declaration may come first
  }

  Module& module_;
  TokenStream in_;
  bool external_ = false;
};

}  // namespace

std::unique_ptr<Module> parse_module(std::string text) {
  auto module = std::make_unique<Module>();
  module->text = std::move(text);
  ModuleParser(*module).run();
  return module;
}

}  // namespace kvevict_ptx
