#!/usr/bin/env bash
# Prints what CHANGELOG.md says of a version, and fails where it says nothing:
#
#     notes.sh v0.1.0
set -euo pipefail
version=${1#v}
notes=$(awk -v heading="## $version" '/^## / { is_own = index($0 " ", heading " ") == 1; next } is_own' \
    "$(dirname "$0")/../../CHANGELOG.md")
if [ -z "$notes" ]; then
    printf "CHANGELOG.md has no heading '## %s' with text: write what changed\n" "$version" >&2
    exit 1
fi
printf '%s\n' "$notes"
