"""The table of side_by_side.sh from the files that it leaves, or the winners among them.

    table.py OUT_DIR            writes OUT_DIR/side_by_side.md and .csv, and prints the former
    table.py --configs DIR      the winners of `blocktile` in a shape's folder, a line each, as
                                `gemm-tune compare --config` takes them

It measures nothing. Times side by side are comparable within one contest: `compare` is gemm-tune's final
in turn, `graphs` that of triton_autotuner.py, both on operands that are not in the L2 cache.
"""

import csv
import json
import pathlib
import sys

FIELDS = ("shape", "tuner", "precision", "wall_s", "evaluated", "own_us", "side_us", "tflops", "contest",
          "note")
F32, PLACES = "f32", {"wall_s": 1, "own_us": 2, "side_us": 2, "tflops": 1}


def load(file):
    """A JSON document, or one that says why there is none."""
    try:
        return json.loads(file.read_text())
    except OSError:
        return {"error": "did not run"}
    except ValueError:
        return {"error": "ended without a result"}


def tuned(folder, name):
    """A search of gemm-tune: its result, or {"error": ...}."""
    document = load(folder / f"{name}.json")
    return document if "error" in document else document["results"][0]


def config_of(kernel):
    values = ",".join(f"{name}={str(value).lower()}" for name, value in kernel["parameters"].items())
    return f"{kernel['family']}:{values}"


def kernel_tuner_results(folder):
    for said in sorted(folder.glob("kernel_tuner-*.err")):
        file = said.with_suffix(".json")
        result = load(file) if file.exists() else {"error": last_line(said)}
        yield said.stem.removeprefix("kernel_tuner-"), result


def last_line(file):
    said = file.read_text().strip() if file.exists() else ""
    return (said.splitlines() or ["no result"])[-1][:200]


def configs(folder):
    blocktile = tuned(folder, "blocktile")
    found = [config_of(blocktile["winner"])] if "winner" in blocktile else []
    found += [result["config"] for _, result in kernel_tuner_results(folder) if "config" in result]
    return list(dict.fromkeys(found))


def shape_of(folder):
    """What side_by_side.sh was given, whose spaces are no part of a folder's name."""
    return folder.name.replace("_", " ")


def rows(folder):
    """The rows of a shape."""
    compared = load(folder / "compare.json")
    contestants = [one for document in compared.get("compared", []) for one in document["contestants"]]
    by_name = {one["name"]: one for one in contestants}

    def row(tuner, contestant, precision=F32, **fields):
        absent = {"error": compared.get("error", "not compared")} if contestant else {}
        one = by_name.get(contestant, absent)
        notes = [fields.pop("note", ""), one.get("error", "")]
        return dict(dict.fromkeys(FIELDS, ""), shape=shape_of(folder), tuner=tuner, precision=precision,
                    side_us=one.get("median_us", ""), tflops=one.get("tflops", ""),
                    contest="compare" if "median_us" in one else "",
                    note="; ".join(filter(None, notes)), **fields)

    for name, tuner in (("all", "gemm-tune"), ("blocktile", "gemm-tune, blocktile")):
        result = tuned(folder, name)
        wall = folder / f"{name}.wall"
        wall_s = float(wall.read_text()) if wall.exists() else ""
        if "winner" not in result:
            yield row(tuner, "", wall_s=wall_s, note=result.get("error", "no winner"))
            continue
        winner = result["winner"]
        config = config_of(winner)
        yield row(tuner, "winner" if name == "all" else config, wall_s=wall_s, note=config,
                  evaluated=result["search"]["evaluated"], own_us=winner["measurement"]["median_us"])
    for strategy, result in kernel_tuner_results(folder):
        tuner = f"Kernel Tuner {strategy}, blocktile"
        note = "; ".join(filter(None, (result.get("config"), result.get("message"), result.get("error"))))
        yield row(tuner, result.get("config", ""), wall_s=result.get("wall_s", ""), note=note,
                  evaluated=result.get("evaluated", ""), own_us=result.get("best_us", ""))
    libraries = [one for one in contestants if not one["family"] and "median_us" in one]
    if libraries:
        best = min(libraries, key=lambda one: one["median_us"])
        yield row("best library", best["name"], note=best["name"])
    yield from triton_rows(folder)


def triton_rows(folder):
    blank = dict.fromkeys(FIELDS, "")
    try:
        with open(folder / "triton.csv", newline="") as file:
            timed = list(csv.DictReader(file))
    except OSError:
        why = last_line(folder / "triton.err")
        yield blank | {"shape": shape_of(folder), "tuner": "Triton autotune", "note": why}
        return
    names = {"triton": "Triton autotune", "cublas": "cuBLAS by torch.matmul",
             "gemm-tune": "gemm-tune's winner"}
    for one in timed:
        note = "; ".join(filter(None, (one["config"], one["max_error"] and f"error {one['max_error']}",
                                       one["message"])))
        yield blank | {"shape": shape_of(folder), "tuner": names[one["contestant"]], "precision": one["precision"],
                       "wall_s": one["autotune_s"], "evaluated": one["tried"], "own_us": one["own_us"],
                       "side_us": one["median_us"], "tflops": one["tflops"],
                       "contest": "graphs" if one["median_us"] else "", "note": note}


def shown(row):
    return {field: f"{float(value):.{PLACES[field]}f}" if field in PLACES and value != "" else
            str(value).replace("\n", " ").replace("|", "/") for field, value in row.items()}


def main():
    if sys.argv[1:2] == ["--configs"]:
        print("\n".join(configs(pathlib.Path(sys.argv[2]))))
        return
    out = pathlib.Path(sys.argv[1])
    folders = [folder for folder in out.iterdir() if folder.is_dir()]
    folders.sort(key=lambda folder: folder.stat().st_mtime)
    table = [shown(row) for folder in folders for row in rows(folder)]
    with open(out / "side_by_side.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(table)
    lines = ["| " + " | ".join(FIELDS) + " |", "|" + "---|" * len(FIELDS)]
    lines += ["| " + " | ".join(row[field] for field in FIELDS) + " |" for row in table]
    text = "\n".join(lines) + "\n"
    (out / "side_by_side.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
