"""Checks the Kubernetes manifest of docs/guides/many-machines.md against the models of Kubernetes' Python client, which are
generated from its API: no unknown field, no missing one, and values of the right types. Then it plants mistakes.

    manifest.py GUIDE        needs the package kubernetes
"""

import copy
import re
import sys

import yaml
from kubernetes import client


def fault(value, kind, at):
    """What is wrong with a value that should be of a type of the client's models; None if nothing."""
    inner = re.fullmatch(r"(list|dict)\[(?:\w+(?:\(.*\))?, *)?(.+?)\]|(dict)\(\w+, (.+)\)", kind)
    if inner:
        container, of = inner.group(1) or inner.group(3), inner.group(2) or inner.group(4)
        if not isinstance(value, list if container == "list" else dict):
            return f"{at} is {value!r}: give a {container}"
        parts = enumerate(value) if container == "list" else value.items()
        return next(filter(None, (fault(part, of, f"{at}[{name}]") for name, part in parts)), None)
    model = getattr(client, kind, None)
    if model is None:
        types = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str, "object": object}
        # A quantity, or a number or name of a port, is a number too.
        known = types.get(kind, object)
        is_quantity = known is str and at.rpartition(".limits")[1] and isinstance(value, int)
        return None if isinstance(value, known) or is_quantity else f"{at} is {value!r}: give {kind}"
    if not isinstance(value, dict):
        return f"{at} is {value!r}: give fields"
    names = {own: name for name, own in model.attribute_map.items()}
    for own, part in value.items():
        if own not in names:
            return f"{at}.{own} is unknown"
        wrong = fault(part, model.openapi_types[names[own]], f"{at}.{own}")
        if wrong:
            return wrong
    try:
        # The constructor refuses missing fields and values out of range.
        model(**{names[own]: part for own, part in value.items()})
    except ValueError as error:
        return f"{at}: {error}"
    return None


def changed(job, path, value):
    job = copy.deepcopy(job)
    place = job
    for name in path[:-1]:
        place = place[name]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return job


if __name__ == "__main__":
    blocks = re.findall(r"^```yaml\n(.*?)^```$", open(sys.argv[1]).read(), re.M | re.S)
    job, = (one for one in map(yaml.safe_load, blocks) if one.get("kind") == "Job")
    assert job["apiVersion"] == "batch/v1"
    assert fault(job, "V1Job", "job") is None, fault(job, "V1Job", "job")
    pod = ("spec", "template", "spec")
    for path, value, words in (
        (("spec", "completionmode"), "Indexed", "job.spec.completionmode is unknown"),
        (("spec", "completions"), "8", "job.spec.completions is '8': give int"),
        (("spec", "template"), None, "`template`, must not be `None`"),
        ((*pod, "containers"), None, "`containers`, must not be `None`"),
        ((*pod, "containers", 0, "command"), "gemm-tune", "command is 'gemm-tune': give a list"),
        ((*pod, "containers", 0, "resources", "limit"), {}, "resources.limit is unknown"),
        ((*pod, "volumes", 0, "name"), None, "`name`, must not be `None`"),
        ((*pod, "volumes", 0, "persistentVolumeClaim", "claimName"), 3, "claimName is 3: give str"),
    ):
        found = fault(changed(job, path, value), "V1Job", "job")
        assert found and words in found, (path, found)
    spec = job["spec"]
    assert spec["completions"] == 8 and "--shard /8" in spec["template"]["spec"]["containers"][0]["command"][-1]
    print("right")
