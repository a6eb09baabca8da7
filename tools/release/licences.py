#!/usr/bin/env python3
"""Prints the licences of the crates that a program for Linux on x86-64 has inside, with their texts.

    licences.py > LICENSE-THIRD-PARTY

Reads `cargo metadata` and the folders of the crates. A crate that comes without a text has its licence named alone.
"""

import json
import pathlib
import subprocess

TARGET = "x86_64-unknown-linux-gnu"
NAMES = ("licen", "copying", "notice", "unlicense")


def linked(metadata):
    """Crates that are linked into the program, by name and version, without those of this repository."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    seen, waiting = set(), [metadata["resolve"]["root"]]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for edge in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in edge["dep_kinds"]):
                waiting.append(edge["pkg"])
    others = (packages[one] for one in seen if packages[one]["source"] is not None)
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """Licence files in a crate's folder, by name."""
    folder = pathlib.Path(package["manifest_path"]).parent
    found = [path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(NAMES)]
    return [(path.name, path.read_text(errors="replace").strip()) for path in sorted(found)]


def main():
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    packages = linked(metadata)
    print(f"gemm-tune has {len(packages)} crates inside. Each has one of these licences, at your option where it names several.")
    known = {}
    for package in packages:
        print(f"\n{'=' * 80}\n{package['name']} {package['version']}: {package['license']}")
        print(package["repository"] or f"https://crates.io/crates/{package['name']}")
        for name, text in texts(package):
            first = known.setdefault(text, package["name"])
            print(f"\n{name}\n")
            print(text if first == package["name"] else f"The text is that of {first}.")


main()
