"""The virtual environment that a test tool gives a project: what is installed beside the running Python is there, too.

Steward installs what projects ask for into environments of its own. This one is for programs that a test starts with the
Python of its project, and for what a test installs there while it runs.
"""

from __future__ import annotations

import os
import sys

# The file by which the environment has the packages of the one that it was made in.
INHERITED = "inherited-packages.pth"


def packages_of(environment: str) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(environment, "lib", version, "site-packages")


def make(environment: str) -> None:
    """Makes it, without pip of its own: that of the running environment serves."""
    base = sys._base_executable if hasattr(sys, "_base_executable") else sys.executable
    packages, programs = packages_of(environment), os.path.join(environment, "bin")
    for directory in (packages, programs):
        os.makedirs(directory, exist_ok=True)
    for name in ("python", "python3", f"python{sys.version_info.major}.{sys.version_info.minor}"):
        link = os.path.join(programs, name)
        if not os.path.lexists(link):
            os.symlink(base, link)
    with open(os.path.join(packages, INHERITED), "w", encoding="utf-8") as file:
        for directory in _inherited():
            file.write(f"import site, sys; {directory!r} in sys.path or site.addsitedir({directory!r})\n")
    # Written last: with it there is an environment.
    with open(os.path.join(environment, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        version = ".".join(str(part) for part in sys.version_info[:3])
        file.write(f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\nversion = {version}\n")


def _inherited() -> list[str]:
    """Where the packages of the running Python are, and what looks for more packages there."""
    import sysconfig

    paths = sysconfig.get_paths()
    return list(dict.fromkeys(paths[name] for name in ("purelib", "platlib")))


# What was there of each environment when its packages were looked for last.
_seen: dict[str, list[tuple[str, int]]] = {}


def use(environment: str) -> None:
    """Has this process take packages from it first, and programs that it starts by their names."""
    import site

    packages, programs = packages_of(environment), os.path.join(environment, "bin")
    path = os.environ.get("PATH", "")
    if path.split(os.pathsep)[0] != programs:
        os.environ["PATH"] = os.pathsep.join([programs, path]) if path else programs
    sys.prefix = environment
    if packages not in sys.path:
        sys.path.insert(0, packages)
    # What was installed since: a file of paths counts when Python starts, and this one runs already.
    files = [entry for entry in os.scandir(packages) if entry.name.endswith(".pth") and entry.name != INHERITED]
    there = sorted((entry.name, entry.stat().st_mtime_ns) for entry in files)
    if _seen.get(environment) != there:
        _seen[environment] = there
        site.addsitedir(packages)
