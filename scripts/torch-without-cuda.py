"""Makes the PyTorch of PyPI importable on a machine without CUDA's libraries, for tests on the CPU.

    pip install --no-deps torch
    pip install typing_extensions filelock sympy networkx jinja2 fsspec setuptools numpy \\
        nvidia-cuda-runtime nvidia-cuda-nvrtc
    python scripts/torch-without-cuda.py

PyPI has one wheel for x86-64. It is linked to 3 GB of CUDA libraries, which the loader wants when
it is imported. No function of most of them is called before a program uses a GPU. This script
compiles a small library in place of each that is not installed, beside PyTorch's own libraries.
Needs a C compiler and readelf. Never use it where a GPU is used.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

#: The system has these, or they belong to a library that is not loaded before it is used.
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|z|quadmath|cuda)\.so|ld-linux)")
#: This one is called when PyTorch is imported.
CALLED = "libcudart"


class Library:
    """What a library takes from others."""

    def __init__(self, path):
        command = ["readelf", "-dVW", "--dyn-syms", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
        #: Libraries by the versions of symbols that are asked of them.
        self.owner = {}
        self.defined, self.undefined = set(), set()
        file = ""
        for line in text.splitlines():
            fields = line.split()
            if match := re.search(r"Version: 1 +File: (\S+)", line):
                file = match[1]
            elif match := re.search(r"  Name: (\S+)  Flags: .* Version: ", line):
                self.owner[match[1]] = file
            elif len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK"):
                name, _, version = fields[7].partition("@")
                if fields[6] != "UND":
                    self.defined.add(name)
                elif fields[4] == "GLOBAL":
                    self.undefined.add((name, version.lstrip("@")))


def compile_stand_in(target, symbols):
    """`symbols` are sets of names, by their version."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "x.c"), pathlib.Path(folder, "x.map")
        names = sorted(set().union(*symbols.values()))
        source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
        options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{target.name}"]
        if "" not in symbols:
            parts = [f"{key} {{ {'; '.join(sorted(own))}; }};\n" for key, own in symbols.items()]
            script.write_text("".join(parts))
            options.append(f"-Wl,--version-script={script}")
        subprocess.run(["cc", *options, str(source), "-o", str(target)], check=True)


def main():
    found = importlib.util.find_spec("torch")
    if found is None or found.submodule_search_locations is None:
        sys.exit("PyTorch is not installed (pip install --no-deps torch)")
    folder = pathlib.Path(found.submodule_search_locations[0], "lib")
    installed = {path.name for path in folder.iterdir()}
    installed |= {path.name for path in folder.parent.parent.glob("nvidia/*/lib/*.so*")}
    paths = [*folder.glob("libtorch*.so"), *folder.glob("libc10*.so")]
    libraries = [Library(path) for path in sorted(paths)]
    wanted = set().union(*(library.needed for library in libraries)) - installed
    wanted = {name for name in wanted if not SYSTEM.match(name)}
    for name in wanted:
        if name.startswith(CALLED):
            sys.exit(f"PyTorch calls {name} when it is imported (pip install nvidia-cuda-runtime)")
    defined = set().union(*(library.defined for library in libraries))
    symbols = {name: {} for name in wanted}
    # A symbol without a version is of one of the libraries that have none, so each gets all.
    plain = set()
    for library in libraries:
        for name, version in library.undefined:
            owner = library.owner.get(version)
            if owner in wanted:
                symbols[owner].setdefault(version, set()).add(name)
            elif not version and name not in defined:
                plain.add(name)
    for name in sorted(wanted):
        compile_stand_in(folder / name, symbols[name] or {"": plain})
    print(f"{len(wanted)} stand-ins in {folder}: {', '.join(sorted(wanted))}")


main()
