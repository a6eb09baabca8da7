#!/usr/bin/env bash
# Checks that what would be published compiles from its packages alone, with the versions of Cargo.lock. It is checked and not
# built, so that what clippy has checked of the dependencies is used again.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
folder=target/test-package
rm -rf "$folder" target/package/*.crate
mkdir -p "$folder"
cargo package --workspace --offline --allow-dirty --no-verify --quiet
for archive in target/package/*.crate; do
    # With the present time, so that what an earlier run has checked is checked again.
    tar xzmf "$archive" -C "$folder"
done
cd "$folder"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for package in */; do
        name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$package/Cargo.toml" | head -1)
        printf '%s = { path = "%s" }\n' "$name" "${package%/}"
    done
} > Cargo.toml
cp "$root/Cargo.lock" .
CARGO_TARGET_DIR="$root/target" cargo check --workspace --offline
