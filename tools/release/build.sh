#!/usr/bin/env bash
# Builds the files of a release for Linux on x86-64 into target/release-files:
#
#     tools/release/build.sh          the present checkout
#     tools/release/build.sh v0.1.0   the same, if it has this version and CHANGELOG.md says what changed
#
# The wheel is built first, against glibc 2.28 with zig as the linker. The archive has the program of the wheel, so that both
# are the same file. Both have the licences of this repository and of the crates inside, and the wheel's SBOM (CycloneDX) also
# lies beside it. Needs Rust, Python 3 with venv and pip, readelf, and the network or caches for pip and cargo.
set -euo pipefail
cd "$(dirname "$0")/../.."
glibc=2.28
target=x86_64-unknown-linux-gnu
version=$(sed -n '/^\[workspace.package\]/,/^\[package\]/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [ $# -gt 0 ] && [ "$1" != "v$version" ]; then
    printf 'the tag is %s, and Cargo.toml has version %s: tag it as v%s\n' "$1" "$version" "$version" >&2
    exit 1
fi
if [ $# -gt 0 ]; then
    tools/release/notes.sh "$1" > /dev/null
fi

# Files have the time of the commit, so that a commit gives the same archive again.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=target/release-work out=target/release-files
rm -rf "$work" "$out"
mkdir -p "$work" "$out"

# `license-files` of pyproject.toml takes it into the wheel.
trap 'rm -f LICENSE-THIRD-PARTY' EXIT
tools/release/licences.py > LICENSE-THIRD-PARTY

python3 -m venv "$work/maker"
"$work/maker/bin/pip" install --quiet --requirement tools/release/requirements.txt
PATH="$PWD/$work/maker/bin:$PATH" maturin build --release --locked --zig --target "$target" \
    --compatibility "manylinux_${glibc/./_}" --out "$out"
wheel=$(echo "$out"/gemm_tune-"$version"-*.whl)

python3 -m zipfile --extract "$wheel" "$work/wheel"
name=gemm-tune-$version-x86_64-linux
folder=$work/$name
mkdir "$folder"
install "$work"/wheel/gemm_tune-"$version".data/scripts/gemm-tune "$folder/gemm-tune"
tools/release/glibc.sh "$folder/gemm-tune" "$glibc"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT LICENSE-THIRD-PARTY "$folder"
cp "$work"/wheel/gemm_tune-"$version".dist-info/sboms/*.cyclonedx.json "$out/gemm-tune-$version.cyclonedx.json"
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --directory "$work" "$name" |
    gzip --no-name --best > "$out/$name.tar.gz"

(cd "$out" && sha256sum -- * > SHA256SUMS)
tools/release/try.sh "$out"
ls -l "$out"
