#!/usr/bin/env bash
# Prints the newest version of glibc that a program or library asks for, and fails where that is above a limit:
#
#     glibc.sh FILE 2.28
#
# Needs readelf.
set -euo pipefail
file=$1 limit=$2
needed=$(readelf --version-info --wide "$file" | grep --only-matching 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort --version-sort | tail -n 1 || true)
if [ -z "$needed" ]; then
    printf '%s: asks for no version of glibc: a static program cannot load the driver\n' "$file" >&2
    exit 1
fi
printf '%s needs glibc %s\n' "$file" "$needed"
if [ "$(printf '%s\n' "$needed" "$limit" | sort --version-sort | tail -n 1)" != "$limit" ]; then
    printf '%s: the limit is glibc %s: build it with tools/release/build.sh\n' "$file" "$limit" >&2
    exit 1
fi
