"""Lays out the pip that comes with this interpreter in the virtual environment that runs this, as ensurepip does, but without
compiling its thousand files: those that are imported are compiled when they are, which takes a quarter of the time.

Exits with 3 where the wheels are not where they are known to be: then it is ensurepip's to do.
Sources: the packaging specifications "Binary distribution format" (what a wheel is, and its entry points) and "Recording
installed projects" (INSTALLER and RECORD).
"""

import glob
import os
import sys
import sysconfig
import zipfile

try:
    import ensurepip
except ImportError:
    sys.exit(3)

SCRIPT = """#!{interpreter}
import sys
from pip._internal.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def interpreter(python):
    """The first line of a script: the kernel takes one of 127 bytes without spaces; else the shell starts Python."""
    if len(python) <= 120 and " " not in python:
        return python
    return f"""/bin/sh
'''exec' "{python}" "$0" "$@"
' '''"""


def wheels(project):
    """The wheels of a project that come with the interpreter, or with the distribution of the system that it is of."""
    places = [
        sysconfig.get_config_var("WHEEL_PKG_DIR"),
        os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"),
        "/usr/share/python-wheels",
    ]
    for place in filter(None, places):
        found = glob.glob(os.path.join(glob.escape(place), project + "-*.whl"))
        if found:
            return found
    return []


def lay_out(wheel, scripts):
    """Lays out the files of a wheel that has nothing but pure Python, and scripts of these names that start pip."""
    packages = sysconfig.get_path("purelib")
    name, version = os.path.basename(wheel).split("-")[:2]
    info = os.path.join(packages, f"{name}-{version}.dist-info")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    record = [os.path.join(os.path.basename(info), "INSTALLER") + ",,\n"]
    with open(os.path.join(info, "INSTALLER"), "w", encoding="utf-8") as file:
        file.write("pip\n")
    folder = sysconfig.get_path("scripts")
    for name in scripts:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(interpreter=interpreter(os.path.join(folder, "python"))))
        os.chmod(path, 0o755)
        record.append(os.path.relpath(path, packages) + ",,\n")
    with open(os.path.join(info, "RECORD"), "a", encoding="utf-8") as file:
        file.writelines(record)


def main():
    pips = wheels("pip")
    if len(pips) != 1:
        sys.exit(3)
    # The interpreters that come with it put it beside pip: packages of then are built with it.
    if sys.version_info < (3, 12):
        setuptools = wheels("setuptools")
        if len(setuptools) != 1:
            sys.exit(3)
        lay_out(setuptools[0], [])
    lay_out(pips[0], ["pip", f"pip{sys.version_info[0]}", f"pip{sys.version_info[0]}.{sys.version_info[1]}"])


main()
