# SPDX-License-Identifier: Apache-2.0
"""Does a plugin jar link against a Spark release that it was not compiled against?

One jar serves Spark 4.0 to 4.3. The JVM resolves a method when it is first called, so a signature
that changed shows up as a NoSuchMethodError in the middle of somebody's job. Here every reference
of the jar into Spark is resolved up front, and every abstract method that a class of ours inherits
must have a body.

    python -m linkage.check dist/jars/lodestone-spark-4_2.13.jar \\
        .venv-4.3/lib/python3.11/site-packages/pyspark/jars
"""

import sys
import zipfile
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from .classfile import ACC_ABSTRACT, ClassFile, parse

OURS = "org/apache/spark/shuffle/lodestone/"
SPARK = "org/apache/spark/"
SUFFIX = ".class"

# Classes outside Spark that nearly every class inherits from, with all their methods. Any other
# method is not found there. The check skips other classes outside Spark: they do not change with
# Spark's releases.
OBJECT = set("getClass hashCode equals toString notify notifyAll wait clone finalize".split())
OUTSIDE = {
    "java/lang/Object": OBJECT,
    "java/io/Serializable": set(),
    "scala/Serializable": set(),
    "java/lang/Cloneable": set(),
    "java/io/Closeable": {"close"},
    "java/lang/AutoCloseable": {"close"},
    "scala/Equals": {"canEqual"},
    "scala/Product": {"productArity", "productElement", "productIterator", "productPrefix"},
}


class Classes(Mapping[str, ClassFile]):
    """The classes of some jars by internal name. Each is read when it is needed: few of Spark's
    are."""

    def __init__(self, jars: list[Path], below: str = ""):
        self._archives = {}
        self._read = {}
        for archive in map(zipfile.ZipFile, jars):
            for name in archive.namelist():
                if name.startswith(below) and name.endswith(SUFFIX):
                    self._archives[name.removesuffix(SUFFIX)] = archive

    def __getitem__(self, name: str) -> ClassFile:
        if name not in self._read:
            self._read[name] = parse(self._archives[name].read(name + SUFFIX))
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._archives

    def __iter__(self):
        return iter(self._archives)

    def __len__(self) -> int:
        return len(self._archives)


def breaches(plugin: Mapping[str, ClassFile], spark: Mapping[str, ClassFile]) -> list[str]:
    """Returns a sentence for each reference that would fail to link."""
    universe = ChainMap(plugin, spark)
    return sorted(set(_unresolved(plugin, universe)) | set(_bodiless(plugin, universe)))


def _unresolved(plugin, universe):
    for one in plugin.values():
        for owner, name, descriptor in one.references:
            if owner.startswith(SPARK) and not _resolves(universe, owner, name, descriptor):
                yield f"{one.name} needs {owner}.{name}{descriptor}, which this Spark does not have"


def _resolves(universe, owner: str, name: str, descriptor: str) -> bool:
    if owner not in universe:
        return name in OUTSIDE[owner] if owner in OUTSIDE else not owner.startswith(SPARK)
    one = universe[owner]
    if (name, descriptor) in one.members:
        return True
    return any(_resolves(universe, up, name, descriptor) for up in _parents(one))


def _bodiless(plugin, universe):
    for one in plugin.values():
        if one.is_abstract:
            continue
        for owner, name, descriptor in _abstract_methods(universe, one.name):
            if not _has_body(universe, one.name, name, descriptor):
                yield f"{one.name} inherits {owner}.{name}{descriptor} without a body"


def _abstract_methods(universe, owner: str):
    if not owner.startswith(SPARK) or owner not in universe:
        return
    one = universe[owner]
    for (name, descriptor), access in one.members.items():
        if access & ACC_ABSTRACT:
            yield owner, name, descriptor
    for up in _parents(one):
        yield from _abstract_methods(universe, up)


def _has_body(universe, owner: str, name: str, descriptor: str) -> bool:
    if owner not in universe:
        return not owner.startswith(SPARK) and owner != "java/lang/Object"
    one = universe[owner]
    access = one.members.get((name, descriptor))
    if access is not None and not access & ACC_ABSTRACT:
        return True
    return any(_has_body(universe, up, name, descriptor) for up in _parents(one))


def _parents(one: ClassFile) -> list[str]:
    return ([one.parent] if one.parent else []) + one.interfaces


def check(plugin_jar: Path, spark_jars: list[Path]) -> list[str]:
    """Returns the breaches of one plugin jar against the jars of one Spark release."""
    spark = Classes(spark_jars, below=SPARK)
    if not spark:
        raise ValueError(f"no Spark classes in {[str(jar) for jar in spark_jars]}")
    return breaches(Classes([plugin_jar], below=OURS), spark)


def spark_jars(folder: Path) -> list[Path]:
    """Returns the Spark jars that the plugin touches, in a pyspark/jars folder."""
    patterns = [
        "spark-core_*",
        "spark-network-*",
        "spark-common-utils*",
        "spark-kvstore_*",
        "spark-launcher*",
        "spark-unsafe_*",
        "spark-catalyst_*",
        "spark-sql_*",
    ]
    return [jar for pattern in patterns for jar in sorted(folder.glob(pattern + ".jar"))]


def main() -> int:
    plugin_jar, folder = Path(sys.argv[1]), Path(sys.argv[2])
    found = check(plugin_jar, spark_jars(folder))
    print("\n".join(found) or f"{plugin_jar.name} links against {folder}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
