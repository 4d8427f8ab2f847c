"""This tree as an installer leaves it: its metadata, which torch reads, and its programs."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def metadata(folder: Path) -> Path:
    """Write the package's ``*.dist-info`` into a folder, for ``PYTHONPATH``; that folder.

    As ``pip install --no-deps --target`` does, but for the code, and without the network that the
    build backend would come from.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    inside = folder / f"{project['name']}-0.dist-info"
    inside.mkdir(parents=True)
    (inside / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n"
    )
    sections = {"console_scripts": project["scripts"], **project["entry-points"]}
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in rows.items())
        for group, rows in sections.items()
    )
    (inside / "entry_points.txt").write_text(text)
    return folder


def programs(folder: Path) -> Path:
    """Write the package's programs into a folder, for ``PATH``; return that folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder.mkdir(parents=True)
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        file = folder / name
        file.write_text(
            f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\n"
            f"sys.exit({function}())\n"
        )
        file.chmod(0o755)
    return folder
