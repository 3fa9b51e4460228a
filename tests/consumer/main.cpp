// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <kvevict/version.hpp>

int main() {
  std::printf("kvevict %s\n", kvevict::version_string);
  return 0;
}
