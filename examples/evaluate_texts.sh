#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

usage() {
  cat <<'HELP'
usage: examples/evaluate_texts.sh [DIR]

Collects the texts of kvevict_evaluate in DIR (default: build/texts) and prints that path. They come from files that
Debian systems have, and from packages that apt-get downloads and nobody installs. What cannot be had is said and left
out; kvevict_evaluate then leaves out the contexts that are in it.
HELP
}

case ${1-} in
  --help) usage && exit 0 ;;
  -*) usage >&2 && exit 2 ;;
esac
folder=$(realpath -m "${1:-$root/build/texts}")
mkdir -p "$folder"
work=$(mktemp -d "$folder/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
# apt-get gives up its rights for a download.
chmod 755 "$work"

# keep NAME FILE: copies a file, unpacked, under a name.
keep() {
  if [[ ! -f $2 ]]; then
    setup_say "text $1: $2 is not here"
    return 0
  fi
  case $2 in
    *.gz) gzip -dc "$2" >"$folder/$1.part" ;;
    *) cat "$2" >"$folder/$1.part" ;;
  esac
  mv "$folder/$1.part" "$folder/$1"
}

# first FILE...: the first that is there.
first() {
  local file
  for file in "$@"; do
    [[ ! -f $file ]] || break
  done
  echo "$file"
}

# unpack PACKAGE: downloads a package and unpacks it in $work/PACKAGE.
unpack() {
  mkdir -p "$work/$1"
  if (cd "$work" && apt-get -q download "$1" >"$work/log" 2>&1 && dpkg-deb -x "$1"_*.deb "$1"); then
    return 0
  fi
  setup_say "package $1: $(tail -n 1 "$work/log")"
}

keep gpl3.txt /usr/share/common-licenses/GPL-3
keep mpl2.txt /usr/share/common-licenses/MPL-2.0
keep lighthouse.txt "$root/examples/data/lighthouse.txt"
keep services.txt /etc/services
keep getopt.pm "$(first /usr/lib/*/perl-base/Getopt/Long.pm /usr/share/perl/*/Getopt/Long.pm)"
keep argparse.py "$(first /usr/lib/python3.*/argparse.py)"

# All of a package, or what was there before.
[[ -f $folder/jargon.txt ]] || { unpack jargon-text && keep jargon.txt "$work/jargon-text/usr/share/doc/jargon-text/jargon.txt.gz"; }
[[ -f $folder/songs.txt ]] || { unpack fortunes && keep songs.txt "$work/fortunes/usr/share/games/fortunes/songs-poems"; }
if [[ ! -f $folder/cities.txt || ! -f $folder/constitution.txt ]]; then
  unpack miscfiles
  keep cities.txt "$work/miscfiles/usr/share/misc/cities.dat.gz"
  keep constitution.txt "$work/miscfiles/usr/share/state/us-constitution.gz"
fi
echo "$folder"
